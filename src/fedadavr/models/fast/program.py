"""A model as a list of steps on buffers that stay, forward and backward.

A `Layer` is a step before the batch's size is known: which values it reads, which one it makes, and
which parameters it has. `Layer.step` gives the `BoundLayer` for a batch of n, bound to its buffers;
so it has nothing left to do but compute. A value lies as PyTorch has it, (images, channels, height,
width), or in rows, (height, width, images, channels), as matrix products leave it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

PLANES, ROWS, FLAT = "planes", "rows", "flat"


@dataclass(frozen=True)
class Piece:
    """Where a parameter of a layer lies in the model's vector."""

    at: slice
    shape: tuple[int, ...]
    taps: tuple[slice, slice] | None = None
    """Of a kernel, the rows and columns that are kept; channels come last then."""

    def of(self, vector: Tensor) -> Tensor:
        """Its view into a vector of the model's."""
        view = vector[self.at].view(self.shape)
        if self.taps is None:
            return view
        return view[:, :, self.taps[0], self.taps[1]].permute(2, 3, 1, 0)


@dataclass
class Kind:
    """A value's shape without the batch, and how it lies."""

    shape: tuple[int, ...]
    lies: str

    def sized(self, n: int) -> tuple[int, ...]:
        """Its buffer's shape for a batch of n."""
        if self.lies == ROWS:
            channels, height, width = self.shape
            return height, width, n, channels
        return n, *self.shape


class Value:
    """A buffer, and one for its gradient, made when it is asked for."""

    def __init__(self, kind: Kind, n: int) -> None:
        self.kind, self.n = kind, n
        self.data = torch.empty(kind.sized(n))
        self._gradient: Tensor | None = None

    @property
    def gradient(self) -> Tensor:
        """The gradient's buffer."""
        if self._gradient is None:
            self._gradient = torch.empty(self.kind.sized(self.n))
        return self._gradient

    def seen(self, x: Tensor) -> Any:
        """A buffer of this kind as loops see it: (images, channels, places) or places first."""
        if self.kind.lies == ROWS:
            return x.flatten(0, 1).numpy()
        return x.flatten(2).numpy() if x.dim() > 2 else x.numpy()


class BoundLayer(ABC):
    """A layer bound to the buffers of a batch."""

    @abstractmethod
    def forward(self) -> None:
        """Make the output."""

    @abstractmethod
    def backward(self) -> None:
        """Make the gradients of the inputs and parameters from the output's."""


@dataclass
class Decay:
    """How much of the last gradient stays, before a batch's is added: momentum, or 0."""

    value: float = 0.0


@dataclass
class Bound:
    """What a step works on."""

    n: int
    inputs: list[Value]
    adds: list[bool]
    """For each input: whether its gradient has been begun, and is to be added to."""
    wanted: list[bool]
    """For each input: whether its gradient is asked for."""
    out: Value
    weights: list[Tensor]
    gradients: list[Tensor]
    decay: Decay
    """What is left of `gradients`, to which a step adds its own."""
    training: bool
    rooms: dict[str, Tensor] = field(default_factory=dict)
    """Scratch buffers that all steps share, one after the other, so that they stay in the cache."""

    def room(self, name: str, size: int) -> Tensor:
        """The scratch buffer of that name; a step that needs more has its own."""
        found = self.rooms.setdefault(name, torch.empty(size))
        return found[:size] if size <= found.numel() else torch.empty(size)


class Layer(ABC):
    """A step of a program for any batch."""

    pieces: Sequence[Piece] = ()
    """Its parameters."""

    @abstractmethod
    def step(self, b: Bound) -> BoundLayer:
        """For a batch."""

    def lies(self) -> tuple[str | None, str | None]:
        """How its inputs must lie, and how its output does; None: as the first input does."""
        return None, None


@dataclass
class Node:
    """A layer in a program, and the numbers of its values."""

    layer: Layer
    inputs: list[int]
    out: int


@dataclass
class Plan:
    """A program for any batch."""

    kinds: list[Kind] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    input: int = 0
    output: int = 0
    _laid_so: dict[tuple[int, str], int] = field(default_factory=dict)

    def value(self, shape: tuple[int, ...], lies: str) -> int:
        """A new value."""
        self.kinds.append(Kind(shape, lies))
        return len(self.kinds) - 1

    def add(self, layer: Layer, inputs: list[int], shape: tuple[int, ...]) -> int:
        """A layer at the end; inputs that lie otherwise are laid as it needs them."""
        needs, makes = layer.lies()
        needs = needs or self.kinds[inputs[0]].lies
        inputs = [self._laid(k, needs) for k in inputs]
        lies = makes or needs
        out = self.value(shape, FLAT if len(shape) < 3 else lies)
        self.nodes.append(Node(layer, inputs, out))
        return out

    def _laid(self, value: int, lies: str) -> int:
        kind = self.kinds[value]
        if len(kind.shape) < 3 or kind.lies == lies:
            return value
        if (value, lies) not in self._laid_so:
            self._laid_so[value, lies] = self.value(kind.shape, lies)
            self.nodes.append(Node(Laying(), [value], self._laid_so[value, lies]))
        return self._laid_so[value, lies]


class Program:
    """A plan for batches of one size."""

    def __init__(
        self,
        plan: Plan,
        n: int,
        weights: list[Tensor],
        gradients: list[Tensor],
        decay: Decay,
        training: bool,
        parts: list[tuple[Tensor, Tensor]],
    ) -> None:
        self._parts = parts  # of the weights and of their gradients, those of each step
        values = [Value(kind, n) for kind in plan.kinds]
        self.input, self.output = values[plan.input], values[plan.output]
        last = {k: index for index, node in enumerate(plan.nodes) for k in node.inputs}
        self.steps: list[BoundLayer] = []
        rooms: dict[str, Tensor] = {}
        at = 0
        for index, node in enumerate(plan.nodes):
            number = len(node.layer.pieces)
            own = slice(at, at + number)
            at += number
            self.steps.append(node.layer.step(Bound(
                n, [values[k] for k in node.inputs], [last[k] != index for k in node.inputs],
                [k != plan.input for k in node.inputs], values[node.out], weights[own],
                gradients[own], decay, training, rooms,
            )))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """The output, in a buffer that stays until the next batch."""
        self.input.data = x.contiguous()
        for step in self.steps:
            step.forward()
        return self.output.data

    def backward(self, gradient: Tensor, rate: float) -> None:
        """All gradients, from the output's; the weights are moved by them at that rate."""
        self.output.gradient.copy_(gradient)
        for step, (w, own) in zip(reversed(self.steps), reversed(self._parts), strict=True):
            step.backward()
            if rate and len(w):
                w.sub_(own, alpha=rate)


def keep(target: Tensor, gradient: Tensor, decay: Decay) -> None:
    """A parameter's gradient, added to what is left of the last one."""
    if decay.value:
        target.mul_(decay.value).add_(gradient)
    else:
        target.copy_(gradient)


def give(target: Tensor, gradient: Tensor, adds: bool) -> None:
    """An input's gradient: the first one, or one more."""
    if adds:
        target.add_(gradient)
    else:
        target.copy_(gradient)


class Laying(Layer):
    """Lays a value otherwise."""

    def step(self, b: Bound) -> BoundLayer:
        """Copies both ways."""
        return _Lay(b)


class _Lay(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b = b

    def forward(self) -> None:
        self._b.out.data.copy_(self._b.inputs[0].data.permute(2, 3, 0, 1))

    def backward(self) -> None:
        b = self._b
        if b.wanted[0]:
            give(b.inputs[0].gradient, b.out.gradient.permute(2, 3, 0, 1), b.adds[0])
