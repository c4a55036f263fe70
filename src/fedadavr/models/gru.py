"""The recurrent network that guesses Shakespeare's next letter."""

from __future__ import annotations

from torch import Tensor, nn

from fedadavr.models.registry import model


@model("gru")
class GRU(nn.Module):
    """Letters in 8 dimensions, 128 hidden units, and the last state to the alphabet."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, 8)
        self.gru = nn.GRU(8, 128, batch_first=True)
        self.fc = nn.Linear(128, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next letter."""
        _, last = self.gru(self.embedding(x))
        return self.fc(last[0])
