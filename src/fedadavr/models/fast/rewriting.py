"""Read a model's graph, and write it down as a program of faster layers."""

from __future__ import annotations

import contextlib
import io
import math
import operator
from collections import Counter
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from fedadavr.models.fast import direct, recurrent, simple, winograd
from fedadavr.models.fast.convolution import TapProducts, taps_of
from fedadavr.models.fast.normalization import Normalization
from fedadavr.models.fast.path import Path
from fedadavr.models.fast.pooling import MaxPooling
from fedadavr.models.fast.program import FLAT, PLANES, Decay, Layer, Piece, Plan, Program

PROGRAMS = 8
"""Batches of so many sizes keep their buffers."""
EXAMPLES_AT_ONCE = 50
"""In an evaluation: so many images' features stay in the cache."""

_aten = torch.ops.aten
_ALL_TAPS = slice(0, 3), slice(0, 3)


class Rewritten(Path):
    """A program, with weights in one vector of its own."""

    descends = True

    def __init__(self, plan: Plan, at_once: int) -> None:
        self._plan, self._at_once = plan, at_once
        self._pieces = [piece for node in plan.nodes for piece in node.layer.pieces]
        shapes = [piece.of(torch.empty(piece.at.stop)).shape for piece in self._pieces]
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + shape.numel())
        self.w, self.gradient = torch.zeros(ends[-1]), torch.zeros(ends[-1])
        self._views, self._g_views = (
            [whole[lo:hi].view(s) for s, (lo, hi) in zip(shapes, pairwise(ends), strict=True)]
            for whole in (self.w, self.gradient)
        )
        counts = accumulate((len(node.layer.pieces) for node in plan.nodes), initial=0)
        self._parts = [
            (self.w[ends[a] : ends[b]], self.gradient[ends[a] : ends[b]])
            for a, b in pairwise(counts)
        ]
        self._programs: dict[tuple[int, bool], Program] = {}
        self._one, self._decay = torch.ones(()), Decay()

    def _program(self, n: int, training: bool) -> Program:
        if (n, training) not in self._programs:
            if len(self._programs) >= PROGRAMS:
                self._programs.clear()
            with torch.inference_mode(False):
                self._programs[n, training] = Program(
                    self._plan, n, self._views, self._g_views, self._decay, training, self._parts
                )
        return self._programs[n, training]

    @torch.no_grad()
    def differentiate(self, x: Tensor, y: Tensor, decay: float = 0.0, rate: float = 0.0) -> Tensor:
        """The program, forward and backward."""
        self._decay.value = decay
        program = self._program(len(x), True)
        scores = torch.log_softmax(program.forward(x), 1)
        loss, weight = _aten.nll_loss_forward(scores, y, None, 1, -100)
        g = _aten.nll_loss_backward(self._one, scores, y, None, 1, -100, weight)
        program.backward(_aten._log_softmax_backward_data(g, scores, 1, scores.dtype), rate)
        return loss

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """The program forward, as many examples at a time as stay in the cache."""
        if not len(x):
            return torch.empty(0, *self._plan.kinds[self._plan.output].shape)
        parts = x.split(self._at_once)
        return torch.cat([self._program(len(p), False).forward(p).clone() for p in parts])

    def read(self, model: Tensor) -> None:
        """Copy every piece."""
        for view, piece in zip(self._views, self._pieces, strict=True):
            view.copy_(piece.of(model))

    def write(self, model: Tensor) -> None:
        """Copy every piece back."""
        for view, piece in zip(self._views, self._pieces, strict=True):
            piece.of(model).copy_(view)

    def part(self, vector: Tensor) -> Tensor | None:
        """The pieces, if all else is zero."""
        rest = vector.clone()
        for piece in self._pieces:
            piece.of(rest).zero_()
        if bool(rest.any()):
            return None
        return torch.cat([piece.of(vector).reshape(-1) for piece in self._pieces])


def rewrite(module: nn.Module, x: Tensor) -> Rewritten | None:
    """A faster path for inputs like x; None if there is nothing to gain, or no telling."""
    kinds = {type(layer) for layer in module.modules()}
    if not kinds & {nn.Conv2d, nn.GroupNorm, nn.GRU}:
        return None
    names = [id(p) for _, p in module.named_parameters(remove_duplicate=False)]
    if len(set(names)) < len(names):
        return None
    graph = _graph(module, x)
    if graph is None:
        return None
    writer = _Writer(module, graph)
    try:
        writer.run()
    except Unknown:
        return None
    at_once = EXAMPLES_AT_ONCE if x.is_floating_point() else 500
    return Rewritten(writer.plan, at_once) if writer.gains else None


def _graph(module: nn.Module, x: Tensor) -> fx.GraphModule | None:
    """Its graph, with shapes; None if it cannot be traced, or trains another than it evaluates."""
    graphs = []
    try:
        for training in (True, False):
            module.train(training)
            graph = fx.symbolic_trace(module)
            graph.graph.eliminate_dead_code()
            graphs.append(graph)
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):  # it prints tracebacks
            ShapeProp(graphs[0]).propagate(x)
    except Exception:  # a model of the user's own may do anything
        return None
    one, two = ([node.format_node() for node in graph.graph.nodes] for graph in graphs)
    return graphs[0] if one == two else None


class Unknown(Exception):
    """The graph has something that is not computed here."""


class _Writer:
    """Writes a graph down as a plan, node after node."""

    def __init__(self, module: nn.Module, graph: fx.GraphModule) -> None:
        self.plan, self.gains = Plan(), False
        self._graph, self._layers = graph, dict(graph.named_modules())
        self._calls = Counter(n.target for n in graph.graph.nodes if n.op == "call_module")
        self._where: dict[str, Piece] = {}
        at = 0
        for name, p in module.named_parameters():
            self._where[name] = Piece(slice(at, at + p.numel()), tuple(p.shape))
            at += p.numel()
        self._values: dict[fx.Node, int] = {}
        self._done: set[fx.Node] = set()

    def run(self) -> None:
        """Write all of it, or raise `Unknown`."""
        for node in self._graph.graph.nodes:
            if node in self._done:
                continue
            if node.op == "placeholder":
                if self._values:
                    raise Unknown
                shape = _shape(node)[1:]
                lies = PLANES if len(shape) == 3 else FLAT
                self._values[node] = self.plan.input = self.plan.value(shape, lies)
            elif node.op == "output":
                (result,) = node.args
                if not isinstance(result, fx.Node) or len(_shape(result)) != 2:
                    raise Unknown
                self.plan.output = self._values[result]
            elif node.op == "call_module":
                self._layer(node, self._layers[str(node.target)])
            elif node.op in ("call_function", "call_method") and node.args:
                self._function(node)
            else:
                raise Unknown

    def _put(self, node: fx.Node, layer: Layer, *inputs: Any) -> None:
        """A layer that makes a node's value."""
        numbers = [self._number(one) for one in inputs]
        if len(set(numbers)) < len(numbers) or len(_shape(node)) < 2:
            raise Unknown
        self._values[node] = self.plan.add(layer, numbers, _shape(node)[1:])

    def _number(self, node: Any) -> int:
        if not isinstance(node, fx.Node) or node not in self._values:
            raise Unknown
        return self._values[node]

    def _same(self, node: fx.Node, other: Any) -> None:
        """A node whose value is another's."""
        self._values[node] = self._number(other)

    def _layer(self, node: fx.Node, layer: nn.Module) -> None:
        kind, name = type(layer), str(node.target)
        if len(node.args) != 1 or node.kwargs:
            raise Unknown
        if kind is nn.Embedding:
            self._recurrent(node)
            return
        (x,) = node.args
        if kind is nn.Identity:
            self._same(node, x)
        elif kind is nn.ReLU:
            self._rectify(node, x, bool(getattr(layer, "inplace", False)))
        elif kind is nn.MaxPool2d:
            self._pool(node, x)
        elif isinstance(layer, nn.AdaptiveAvgPool2d) and kind is nn.AdaptiveAvgPool2d:
            if layer.output_size not in (1, (1, 1)) or len(_shape(x)) != 4:
                raise Unknown
            self._put(node, simple.Mean(), x)
        elif isinstance(layer, nn.Flatten) and kind is nn.Flatten:
            self._flatten(node, x, layer.start_dim, layer.end_dim)
        elif self._calls[node.target] > 1:  # its gradients would add up
            raise Unknown
        elif isinstance(layer, nn.Linear) and kind is nn.Linear and len(_shape(x)) == 2:
            self._put(node, simple.Dense(self._piece(f"{name}.weight"), self._bias(name)), x)
        elif isinstance(layer, nn.Conv2d) and kind is nn.Conv2d and len(_shape(x)) == 4:
            self._convolution(node, layer, name, x)
        elif isinstance(layer, nn.GroupNorm) and kind is nn.GroupNorm:
            self._normalization(node, layer, name, x)
        else:
            raise Unknown

    def _piece(self, name: str) -> Piece:
        if name not in self._where:  # a plain tensor stands there
            raise Unknown
        return self._where[name]

    def _bias(self, name: str) -> Piece | None:
        missing = getattr(self._layers[name], "bias", None) is None
        return None if missing else self._piece(f"{name}.bias")

    def _convolution(self, node: fx.Node, layer: nn.Conv2d, name: str, x: Any) -> None:
        weight, sides = self._piece(f"{name}.weight"), _shape(x)[2:]
        if winograd.fits(layer, *sides):
            self.gains = True
            self._put(node, winograd.Winograd(Piece(weight.at, weight.shape, _ALL_TAPS)), x)
            return
        taps = taps_of(layer, *sides)
        if taps is not None:
            self.gains = True
            piece = Piece(weight.at, weight.shape, (taps.rows, taps.columns))
            self._put(node, TapProducts(piece, taps), x)
            return
        ends = self._pooled(node)
        if ends and direct.fits(layer, *sides):
            self.gains = True
            self._done |= {*ends}
            last = ends[-1]
            pad = int(layer.padding[0])
            self._put(last, direct.PooledConvolution(weight, self._bias(name), pad), x)
            return
        usual = layer.groups == 1 and layer.padding_mode == "zeros" and layer.dilation == (1, 1)
        if not usual or isinstance(layer.padding, str):
            raise Unknown
        library = simple.Convolution(weight, self._bias(name), layer.stride, layer.padding)
        self._put(node, library, x)

    def _pooled(self, node: fx.Node) -> list[fx.Node]:
        """The 2x2 pooling and the ReLU after a node, in either order; empty if one is missing."""
        first = _only_user(node)
        last = _only_user(first)
        for pool, relu in ((first, last), (last, first)):
            pooling = self._pooling(pool)
            if pooling is not None and pooling.window == (2, 2, 0) and self._rectifies(relu):
                assert first is not None
                assert last is not None
                return [first, last]
        return []

    def _normalization(self, node: fx.Node, layer: nn.GroupNorm, name: str, x: Any) -> None:
        """With the addition and the ReLU that follow, if nobody else looks at what is between."""
        if not layer.affine or len(_shape(x)) != 4:
            raise Unknown
        self.gains = True
        last, inputs, relu = node, [x], False
        after = _only_user(last)
        if after is not None and _adds(after) and after.args.count(last) == 1:
            other = self._behind(next(arg for arg in after.args if arg is not last))
            following = _only_user(after)
            ready = isinstance(other, fx.Node) and other in self._values
            if ready and _shape(other) == _shape(last) and self._rectifies(following):
                self._done.add(after)
                last, after = after, following
                inputs.append(other)
        if after is not None and self._rectifies(after):
            self._done.add(after)
            last, relu = after, True
        weight, bias = (self._piece(f"{name}.{own}") for own in ("weight", "bias"))
        whole = Normalization(weight, bias, layer.num_groups, layer.eps, relu)
        self._put(last, whole, *inputs)

    def _behind(self, node: Any) -> Any:
        """The node whose value it is, if it is another's."""
        while isinstance(node, fx.Node) and node.op == "call_module":
            if type(self._layers[str(node.target)]) is not nn.Identity:
                break
            node = node.args[0]
        return node

    def _recurrent(self, node: fx.Node) -> None:
        """An embedding, of which a GRU takes all, of which somebody takes the last state."""
        gru = _only_user(node)
        if gru is None or gru.op != "call_module" or len(gru.args) != 1 or gru.kwargs:
            raise Unknown
        states, last = _only_user(gru), None
        if _takes(states, 1):
            last = _only_user(states)
        names = str(node.target), str(gru.target)
        known = recurrent.fits(self._layers[names[0]], self._layers[names[1]])
        once = all(self._calls[name] == 1 for name in names)
        (x,) = node.args
        once = once and len(_shape(x)) == 2
        if not known or not once or not (_takes(last, 0) or _takes(last, -1)):
            raise Unknown
        assert isinstance(states, fx.Node)
        assert isinstance(last, fx.Node)
        own = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        pieces = [self._piece(f"{names[0]}.weight")]
        pieces += [self._piece(f"{names[1]}.{part}") for part in own]
        self.gains = True
        self._done |= {gru, states, last}
        self._put(last, recurrent.LettersGRU(pieces), x)

    def _function(self, node: fx.Node) -> None:
        if self._rectifies(node):
            self._rectify(node, node.args[0], bool(node.kwargs.get("inplace", False)))
        elif node.target is F.max_pool2d:
            self._pool(node, node.args[0])
        elif _adds(node) and _shape(node.args[0]) == _shape(node.args[1]) == _shape(node):
            self._put(node, simple.Sum(), *node.args)
        elif node.target in (torch.flatten, "flatten") and not node.kwargs:
            given: list[Any] = [*node.args]
            given += [0, -1][len(given) - 1 :]
            self._flatten(node, *given)
        elif node.target in ("view", "reshape", torch.reshape) and not node.kwargs:
            x, *shape = node.args
            shape = [*shape[0]] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
            if shape != [-1, math.prod(_shape(x)[1:])]:
                raise Unknown
            self._flatten(node, x, 1, -1)
        elif node.target in (torch.mean, "mean") and len(_shape(node.args[0])) == 4:
            sides = [*node.args[1:], *node.kwargs.values()]
            if sides not in ([(2, 3)], [[2, 3]], [(-2, -1)], [[-2, -1]]):
                raise Unknown
            self._put(node, simple.Mean(), node.args[0])
        else:
            raise Unknown

    def _pooling(self, node: fx.Node | None) -> MaxPooling | None:
        """What a node pools by, if that is what it does, and in a way that is known."""
        if node is None or not node.args:
            return None
        layer: Any = None
        if node.op == "call_module" and len(node.args) == 1 and not node.kwargs:
            layer = self._layers[str(node.target)]
        elif node.target is F.max_pool2d and node.all_input_nodes == [node.args[0]]:
            layer = nn.MaxPool2d(*node.args[1:], **node.kwargs)  # type: ignore[arg-type]
        known = type(layer) is nn.MaxPool2d and len(_shape(node.args[0])) == 4
        return MaxPooling.of(layer) if known else None

    def _pool(self, node: fx.Node, x: Any) -> None:
        pooling = self._pooling(node)
        if pooling is None:
            raise Unknown
        self._put(node, pooling, x)

    def _rectify(self, node: fx.Node, x: Any, inplace: bool) -> None:
        if inplace and self._seen_by_others(x, node):
            raise Unknown
        self._put(node, simple.ReLU(), x)

    def _seen_by_others(self, x: Any, user: fx.Node) -> bool:
        """Whether somebody else looks at a value, or at one whose memory it shares."""
        while isinstance(x, fx.Node):
            if _only_user(x) is not user:
                return True
            layer = self._layers.get(str(x.target)) if x.op == "call_module" else None
            names = ("flatten", "view", "reshape", torch.flatten, torch.reshape)
            if type(layer) not in (nn.Identity, nn.Flatten) and x.target not in names:
                return False
            x, user = x.args[0], x
        return True

    def _flatten(self, node: fx.Node, x: Any, start: Any, end: Any) -> None:
        if start != 1 or end not in (-1, len(_shape(x)) - 1):
            raise Unknown
        if len(_shape(x)) == 2:
            self._same(node, x)
        else:
            self._put(node, simple.Flatten(), x)

    def _rectifies(self, node: Any) -> bool:
        if not isinstance(node, fx.Node) or len(node.args) != 1:
            return False
        if node.op == "call_module":
            return type(self._layers[str(node.target)]) is nn.ReLU
        return any(node.target is known for known in (F.relu, torch.relu, "relu"))


def _adds(node: fx.Node) -> bool:
    known = any(node.target is one for one in (operator.add, torch.add, "add"))
    both = all(isinstance(arg, fx.Node) for arg in node.args)
    return known and both and len(node.args) == 2 and not node.kwargs


def _takes(node: fx.Node | None, index: int) -> bool:
    """Whether it takes one part of another's value."""
    takes = node is not None and node.target is operator.getitem
    return takes and node is not None and isinstance(node.args[1], int) and node.args[1] == index


def _only_user(node: Any) -> fx.Node | None:
    return next(iter(node.users)) if isinstance(node, fx.Node) and len(node.users) == 1 else None


def _shape(node: Any) -> tuple[int, ...]:
    """The shape of a node's result; empty if it is not one tensor."""
    found = node.meta.get("tensor_meta") if isinstance(node, fx.Node) else None
    return tuple(getattr(found, "shape", ()))
