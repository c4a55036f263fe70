"""The models that are in use: the newest, the one before it, and those that clients still train."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from fedadavr.vector import Vector


class Versions:
    """Models by the number of steps that made them, in slots of one tensor that workers share.

    One more slot is for a model that is only evaluated.
    """

    def __init__(self, first: Tensor, round: int, slots: int) -> None:
        self.tensor = torch.empty(slots + 1, len(first))  # pages that nobody writes cost nothing
        self.tensor[0] = first
        self._slots = {round: 0}

    def slot(self, version: int) -> int:
        """Where a model is."""
        return self._slots[version]

    def __getitem__(self, version: int) -> Vector:
        array: Vector = self.tensor[self._slots[version]].numpy()
        return array

    def new(self, version: int) -> Vector:
        """Room for one more model."""
        free = set(range(len(self.tensor) - 1)) - set(self._slots.values())
        if not free:
            raise ValueError("there is no room for so many models: was the state that of others?")
        self._slots[version] = min(free)
        return self[version]

    def set_aside(self, model: Vector) -> int:
        """Put a model that is only evaluated into its slot, which this gives."""
        self.tensor[-1] = torch.from_numpy(model)
        return len(self.tensor) - 1

    def keep(self, versions: Iterable[int]) -> None:
        """Give up all others."""
        wanted = set(versions)
        self._slots = {v: slot for v, slot in self._slots.items() if v in wanted}

    def load(self, models: Mapping[int, Vector]) -> None:
        """Take over models beside those that are there."""
        for version, model in models.items():
            if version not in self._slots:
                self.new(version)[...] = torch.from_numpy(model).numpy()
