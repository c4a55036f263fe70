"""How a run is computed and kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedadavr.stores.compression import Compress


@dataclass(frozen=True)
class RunOptions:
    """How a run is computed and kept; nothing here changes its result."""

    workers: int = 1
    """Processes that train and evaluate."""
    device: str = "cpu"
    """cpu, cuda, mps, or auto."""
    checkpoint_every: int | None = None
    """Write a checkpoint every so many rounds (default: 10); 0: only at the end and on Ctrl-C."""
    store: str | None = None
    """Keep model, memory and state in lmdb:FOLDER or redis://HOST:PORT instead of checkpoints."""
    commit_every: int | None = None
    """With --store: commit every so many rounds (default: 1); until then records stay in RAM."""
    encrypt_with: Path | None = None
    """With --store: a file with 32 bytes, the key that it is encrypted with."""
    compress: Compress | None = None
    """With --store: compress records before they are encrypted (default: as it was, or none)."""
    snapshot_every: int | None = None
    """Keep the store as it is every so many rounds, to go back with `memory rewind`."""
    tensorboard: bool = False
    """Write TensorBoard events into the run's folder."""

    def check(self) -> str:
        """The device that is meant; contradictions are refused."""
        if self.workers < 1:
            raise ValueError(f"--workers must be at least 1, got {self.workers}")
        if self.checkpoint_every is not None and self.checkpoint_every < 0:
            raise ValueError(f"--checkpoint-every must be 0 or more, got {self.checkpoint_every}")
        if self.commit_every is not None and self.commit_every < 1:
            raise ValueError(f"--commit-every must be at least 1, got {self.commit_every}")
        if self.snapshot_every is not None and self.snapshot_every < 1:
            raise ValueError(f"--snapshot-every must be at least 1, got {self.snapshot_every}")
        if self.device not in ("cpu", "cuda", "mps", "auto"):
            raise ValueError(f"--device must be cpu, cuda, mps or auto, got {self.device!r}")
        device = "cpu" if self.device == "cpu" else self._accelerator()
        if device != "cpu" and self.workers > 1:
            raise ValueError(f"--workers {self.workers} is for the CPU: with {device}, use 1")
        return device

    def _accelerator(self) -> str:
        """The device that PyTorch finds."""
        import torch

        there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        if self.device == "auto":
            return next((device for device, found in there.items() if found), "cpu")
        if not there[self.device]:
            raise ValueError(f"--device {self.device}: PyTorch finds none on this machine")
        return self.device
