"""What an optimizer is: two functions on one block, and its facts. One step over a flat vector.

Its state is two moments at most, and a count of steps. A step is made in place and in one pass by
the kernels; LAMB needs one more, for its norms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.checks import number, positive
from fedadavr.kernels.terms import Hyper, OptimizerStep
from fedadavr.optimizers.learned_rate import LearnedRate
from fedadavr.plugins import Registry
from fedadavr.vector import Layout, Vector

TrustRatio = Literal["tensor", "global"]
Rate = float | Literal["learned"]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """How a named optimizer differs from the others."""

    direct: kernels.BlockFunction
    """Writes the direction u of the step w - lr * u; with `trust`, from the moments alone.

    Given x as gradient and as first moment, it is linear in x (a learned rate asks for that)."""
    move: kernels.BlockFunction | None = None
    """Moves the moments by a gradient; None: it has none."""
    moments: Literal["", "m", "v", "mv"] = ""
    """Which it keeps."""
    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    bias: Literal["moments", "rate", "none"] = "moments"
    """Where the bias of the moments is corrected."""
    trust: bool = False
    """Whether each tensor's step is scaled by |w| / |u|."""

    @property
    def adapts(self) -> bool:
        """Whether it scales every coordinate by its second moment; then its rate can be learned."""
        return "v" in self.moments


OPTIMIZERS: Registry[Rule] = Registry("optimizer", "fedadavr.optimizers")


class Optimizer:
    """A server optimizer over one flat vector.

    Parameters
    ----------
    name : str
        One of `OPTIMIZERS`.
    layout : Layout
        The model's layout (LAMB's trust ratio is per tensor).
    lr, beta1, beta2, eps : float, optional
        None for the optimizer's own default. An `lr` of "learned" is found from round to round.
    lr_start : float, optional
        The first rate of one that is learned; None: as large as is safe (`learned_rate.py`).
    weight_decay : float
        Added once to the gradient, as weight_decay * w.
    trust_ratio : str
        LAMB only, one ratio per tensor or one for the whole model.

    Examples
    --------
    >>> layout = Layout({"x": (2,)})
    >>> optimizer = Optimizer("adam", layout, lr=0.1)
    >>> optimizer.step(np.zeros(2, np.float32), np.array([3.0, -4.0], np.float32)).round(4)
    array([-0.1,  0.1], dtype=float32)
    """

    def __init__(
        self,
        name: str,
        layout: Layout,
        *,
        lr: Rate | None = None,
        lr_start: float | None = None,
        beta1: float | None = None,
        beta2: float | None = None,
        eps: float | None = None,
        weight_decay: float = 0.0,
        trust_ratio: TrustRatio = "tensor",
    ) -> None:
        self.rule = OPTIMIZERS.find(name)
        self.name = name
        self.layout = layout
        self.learned = self._learned(lr, lr_start)
        given = lr_start if isinstance(lr, str) else lr
        self.lr = _in_float32("server_lr", self.rule.lr if given is None else given)
        self.beta1 = _decay("beta1", self.rule.beta1 if beta1 is None else beta1)
        self.beta2 = _decay("beta2", self.rule.beta2 if beta2 is None else beta2)
        self.eps = _in_float32("eps", self.rule.eps if eps is None else eps)
        self.weight_decay = number("weight_decay", weight_decay)
        if not (math.isfinite(weight_decay) and weight_decay >= 0):
            raise ValueError(
                f"weight_decay must be a finite number from 0 up, got {weight_decay!r}"
            )
        self.trust_ratio = trust_ratio
        if trust_ratio not in ("tensor", "global"):
            raise ValueError(f"trust_ratio must be 'tensor' or 'global', got {trust_ratio!r}")
        self.steps = 0
        self._reach = 0.0  # of the step that is under way
        kept = self.rule.moments + ("m" if self.learned else "")
        self.m, self.v = (
            np.zeros(layout.size if which in kept else 0, np.float32) for which in ("m", "v")
        )

    def _learned(self, lr: Rate | None, start: float | None) -> LearnedRate | None:
        if lr != "learned":
            if start is not None:
                raise ValueError(
                    f"server_lr_start goes with server_lr='learned', got {start!r} with {lr!r}"
                )
            return None
        if not self.rule.adapts:
            raise ValueError(
                f"server_lr='learned' is for optimizers that scale every coordinate by its second "
                f"moment, and {self.name!r} does not: give it a number, 1 for the clients' own step"
            )
        if start is not None:
            _in_float32("server_lr_start", start)
        return LearnedRate(start)

    def next(
        self, client_lr: float = 1.0, w: Vector | None = None, reach: float = 0.0,
        moved: Flags | None = None,
    ) -> OptimizerStep:  # fmt: skip
        """The numbers of the next step from w; `steps` moves when it is `done`.

        Where the rate is learned, the first step needs w and which tensors the round's updates move
        (None: all), and each the median length of these updates.
        """
        t = self.steps + 1
        self._reach = reach / t
        if self.learned:
            self.lr = self._next_rate(self.learned, w, moved)
        rate, first, second = self.lr, 1.0, 1.0
        if self.rule.bias == "moments":
            first, second = 1 / (1 - self.beta1**t), 1 / (1 - self.beta2**t)
        elif self.rule.bias == "rate":
            rate *= math.sqrt(1 - self.beta2 ** (t + 1)) / (1 - self.beta1 ** (t + 1))
        hyper = Hyper(self.weight_decay, self.beta1, self.beta2, self.eps, first, second)
        rule, largest = self.rule, kernels.LARGEST_SQUARED if self.v.size else kernels.LARGEST
        return OptimizerStep(
            rule.move.address if rule.move else 0, rule.direct.address, np.array(hyper), rate,
            float(largest), rule.trust, self.m, self.v, client_lr, self.learned is not None,
            "m" not in rule.moments,
        )  # fmt: skip

    def _next_rate(self, learned: LearnedRate, w: Vector | None, moved: Flags | None) -> float:
        if learned.rate is not None:
            return learned.rate
        assert w is not None
        blocks = self.layout.blocks
        squares = np.add.reduceat(np.square(w, dtype=np.float64), blocks.start)
        if moved is not None and not moved.all():
            squares = np.add.reduceat(squares, blocks.first)
        length, size = self._moving(squares, moved)
        direction = length if self.rule.trust and length else math.sqrt(size)
        return learned.next(length, size, direction, self._reach)

    def _moving(self, squares: Floats, moved: Flags | None) -> tuple[float, int]:
        """The length, from squares by tensor, and the size of the tensors that are moved.

        A tensor that nobody moves, frozen or a constant, says nothing of how far to step.
        """
        if moved is None or moved.all() or not moved.any():
            return math.sqrt(squares.sum()), self.layout.size
        sizes = np.array([math.prod(shape) for shape in self.layout.shapes.values()])
        return math.sqrt(squares[moved].sum()), int(sizes[moved].sum())

    def norms(self) -> Floats:
        """Where a step's pass puts what `done` asks for, by block."""
        return np.zeros((5 if self.learned else 2, self.layout.blocks.number))

    def done(self, step: OptimizerStep, w: Vector, out: Vector, norms: Floats) -> None:
        """Close a step: count it, and where the model was held back, move it now."""
        ratios = np.ones(1)
        if step.hold:
            ratios = self._trust(norms[:2])
            blocks = self.layout.blocks
            kernels.run(kernels.finish, blocks, step, step.rate * ratios, w, out)
        if self.learned:
            squares = np.add.reduceat(norms, self.layout.blocks.first, axis=1)
            direction = math.sqrt((ratios**2 * squares[1]).sum())
            direction *= step.rate / self.lr  # FedAdam corrects its bias there
            length, size = self._moving(squares[0], squares[4] > 0)
            products = squares[2:].sum(axis=1)
            self.learned.learn(self.lr, products, length, size, direction, self._reach)
        self.steps += 1

    def _trust(self, norms: Floats) -> Floats:
        """Each tensor's |w| / |direction|, and 1 where either is zero."""
        first = self.layout.blocks.first
        squares = np.add.reduceat(norms, first, axis=1)
        if self.trust_ratio == "global":
            squares = np.broadcast_to(squares.sum(axis=1, keepdims=True), squares.shape)
        weight, update = np.sqrt(squares)
        both = (weight > 0) & (update > 0)
        ratio = np.divide(weight, update, out=np.ones_like(weight), where=both)
        return np.minimum(ratio, 1e30)  # a float32, whatever it is multiplied with

    def step(self, w: Vector, gradient: Vector, out: Vector | None = None) -> Vector:
        """One step from w along a gradient; returns the new model (in `out`, if given)."""
        out = np.empty_like(w) if out is None else out
        reach = float(np.linalg.norm(gradient)) if self.learned else 0.0
        blocks, norms = self.layout.blocks, self.norms()
        moved = np.logical_or.reduceat(gradient != 0, blocks.start[blocks.first])
        step = self.next(1.0, w, reach, moved)
        kernels.run(kernels.optimize, blocks, step, w, gradient, out, norms)
        self.done(step, w, out, norms)
        return out

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The state: the name, the count of steps, and the moments (copies, unless told)."""
        m, v = (self.m.copy(), self.v.copy()) if copy else (self.m, self.v)
        learned = {"learned": self.learned.state_dict()} if self.learned else {}
        return {"name": self.name, "steps": self.steps, "m": m, "v": v} | learned

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise unless the state fits this optimizer; changes nothing."""
        if state["name"] != self.name:
            raise ValueError(f"the state is of optimizer {state['name']!r}, this is {self.name!r}")
        LearnedRate.check_state(state.get("learned"))
        for key, mine in (("m", self.m), ("v", self.v)):
            if key == "m" and key not in self.rule.moments and np.shape(state[key]) != mine.shape:
                continue  # it is there only for a rate that is learned: the other one is not
            if np.shape(state[key]) != mine.shape:
                raise ValueError(
                    f"the state's moment {key} has shape {np.shape(state[key])}, need {mine.shape}"
                )
            if np.asarray(state[key]).dtype != np.float32:
                raise ValueError(f"the state's moment {key!r} is not float32")
            if not np.isfinite(state[key]).all():
                raise ValueError(
                    f"the state's moment {key} holds NaN or infinity: see fedadavr memory repair"
                )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.check_state(state)
        self.steps = int(state["steps"])
        self.m[...] = state["m"] if np.shape(state["m"]) == self.m.shape else 0
        self.v[...] = state["v"]
        if self.learned:
            self.learned.load_state_dict(state.get("learned"))


def _in_float32(name: str, value: float) -> float:
    """The value, if it is a number above zero that stays one in float32."""
    if not 1e-37 <= positive(name, value) <= 1e37:
        raise ValueError(f"{name} must lie between 1e-37 and 1e37, got {value!r}")
    return float(value)


def _decay(name: str, value: float) -> float:
    if not 0 <= number(name, value) < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
    return float(value)
