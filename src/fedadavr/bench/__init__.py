"""Where speed is measured: side by side, in one process, alternating, medians."""
