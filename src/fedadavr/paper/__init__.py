"""What the paper printed, and how our runs compare with it."""
