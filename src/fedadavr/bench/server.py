"""One server step, beside plain NumPy, Flower, and a mere copy.

The bound is the time in which this machine copies as many bytes as the step must move, measured in
turn with the step, since on a shared machine the bandwidth changes from minute to minute.
"""

from __future__ import annotations

import importlib.util
import logging
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.algorithms import FedAdaVR, FedAdaVRPlus, Update
from fedadavr.codecs import CODECS
from fedadavr.vector import Layout, Vector

OPTIMIZERS = ["sgd", "adagrad", "adam", "adabelief", "yogi", "lamb"]
CLIENTS = 5
CENTERS = 10
SMALL = 4096
PAPER = ["fp32", "fp16", "int8", "int4"]  # with every optimizer, and beside NumPy; others with adam
POPULATIONS = (100, 1_000_000)


@dataclass(frozen=True)
class ServerTiming:
    """How long one server step takes."""

    name: str
    codec: str
    optimizer: str
    d: int
    clients: int
    population: int
    ms: float


def resnet18_layout(classes: int = 10) -> Layout:
    """The shapes of ResNet-18 with group normalization: 11.2 million parameters, 62 tensors."""
    shapes: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7)}
    shapes |= {"norm1.weight": (64,), "norm1.bias": (64,)}
    wide = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            into, at = (wide if block == 0 else width), f"layer{stage + 1}.{block}"
            for k, channels in enumerate((into, width)):
                shapes[f"{at}.conv{k}.weight"] = (width, channels, 3, 3)
                shapes |= {f"{at}.norm{k}.weight": (width,), f"{at}.norm{k}.bias": (width,)}
            if into != width:
                shapes[f"{at}.down.weight"] = (width, into, 1, 1)
                shapes |= {f"{at}.down_norm.weight": (width,), f"{at}.down_norm.bias": (width,)}
        wide = width
    return Layout(shapes | {"fc.weight": (classes, 512), "fc.bias": (classes,)})


def replies(layout: Layout, clients: int = CLIENTS) -> tuple[Vector, list[Update]]:
    """A model and what five clients made of it."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(layout.size, dtype=np.float32)
    moved = [w - 0.01 * rng.standard_normal(layout.size, dtype=np.float32) for _ in range(clients)]
    return w, [Update(str(i), x, examples=100 + i) for i, x in enumerate(moved)]


# --- the same algorithm in plain NumPy -----------------------------------------------------------


class NumpyFedAdaVR:
    """FedAdaVR as one writes it with NumPy: whole-vector expressions, float32, a running total."""

    def __init__(self, layout: Layout, codec: str, optimizer: str, lr: float = 0.01) -> None:
        self.layout, self.codec, self.optimizer, self.lr = layout, codec, optimizer, lr
        self.slices = list(zip(layout.offsets[:-1], layout.offsets[1:], strict=True))
        self.memory: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.total = np.zeros(layout.size)
        self.m, self.v, self.t = layout.zeros(), layout.zeros(), 0

    def encode(self, g: Vector) -> Any:
        """The paper's Quant."""
        if self.codec == "fp32":
            return g.copy()
        if self.codec == "fp16":
            return g.astype(np.float16)
        top, coded = CODECS[self.codec].levels, []
        for lo, hi in self.slices:
            alpha = np.abs(g[lo:hi]).max() / np.float32(top) or np.float32(1)
            q = np.clip(np.round(g[lo:hi] / alpha), -top, top).astype(np.int8)
            if self.codec == "int4":
                u = np.append(q + 8, [8] * (len(q) % 2)).astype(np.uint8)
                q = (u[0::2] << 4) | u[1::2]
            coded.append((q, alpha))
        return coded

    def decode(self, stored: Any) -> Any:
        """The paper's Dequant."""
        if self.codec in ("fp32", "fp16"):
            return np.asarray(stored, np.float32)
        y = np.empty(self.layout.size, np.float32)
        for (lo, hi), (q, alpha) in zip(self.slices, stored, strict=True):
            if self.codec == "int4":
                q = np.stack([q >> 4, q & 15], axis=1).ravel()[: hi - lo].astype(np.int8) - 8
            y[lo:hi] = q * alpha
        return y

    def step(self, w: Vector, updates: list[Update]) -> Any:
        """One round."""
        a = sum(u.examples for u in updates)
        self.sizes |= {u.client: int(u.examples) for u in updates}
        r = (self.total / sum(self.sizes.values())).astype(np.float32)
        for u in updates:
            g = w - u.weights
            if not np.isfinite(g).all():
                raise ValueError(u.client)
            old = self.decode(self.memory[u.client]) if u.client in self.memory else None
            r += np.float32(u.examples / a) * (g if old is None else g - old)
            self.memory[u.client] = self.encode(g)
            new = self.decode(self.memory[u.client])
            self.total += u.examples * (new if old is None else new - old).astype(np.float64)
        return self.optimize(w, r)

    def optimize(self, w: Vector, G: Vector) -> Any:
        """The paper's optimizers."""
        self.t += 1
        lr, b1, b2, eps = map(np.float32, (self.lr, 0.9, 0.999, 1e-8))
        one = np.float32(1)
        if self.optimizer == "sgd":
            return w - lr * G
        if self.optimizer == "adagrad":
            self.v += G * G
            return w - lr * G / (np.sqrt(self.v) + eps)
        self.m = b1 * self.m + (one - b1) * G
        if self.optimizer == "yogi":
            self.v -= (one - b2) * G * G * np.sign(self.v - G * G)
        else:
            error = G - self.m if self.optimizer == "adabelief" else G
            self.v = b2 * self.v + (one - b2) * error * error
        m, v = self.m / (one - b1**self.t), self.v / (one - b2**self.t)
        u = m / (np.sqrt(v) + eps)
        if self.optimizer == "lamb":
            for lo, hi in self.slices:
                a, b = np.linalg.norm(w[lo:hi]), np.linalg.norm(u[lo:hi])
                u[lo:hi] *= a / b if a > 0 and b > 0 else one
        return w - lr * u


# --- Flower, and the bound -----------------------------------------------------------------------


def flower_aggregations(
    layout: Layout, w: Vector, updates: list[Update]
) -> dict[str, Callable[[], Any]]:
    """Flower's own aggregate_train on the same arrays, as they come in from the network."""
    from flwr.app import Array, ArrayRecord, Message, Metadata, MetricRecord, RecordDict
    from flwr.serverapp.strategy import FedAdam, FedAvg

    logging.getLogger("flwr").setLevel(logging.WARNING)

    def record(x: Any) -> ArrayRecord:
        return ArrayRecord({name: Array(t) for name, t in layout.split(x).items()})

    def reply(u: Update) -> Message:
        metrics = MetricRecord({"num-examples": u.examples})
        content = RecordDict({"arrays": record(u.weights), "metrics": metrics})
        metadata = Metadata(
            run_id=1, message_id="", src_node_id=int(u.client) + 2, dst_node_id=1, group_id="1",
            reply_to_message_id="", created_at=0.0, ttl=60.0, message_type="train",
        )  # fmt: skip
        return Message(content=content, metadata=metadata)  # type: ignore[call-overload]

    sent = [reply(u) for u in updates]
    fedavg, fedadam = FedAvg(), FedAdam()
    # What FedAdam's configure_train would keep; it needs a grid with nodes.
    fedadam.current_arrays = {name: t.copy() for name, t in layout.split(w).items()}
    return {
        "flower-fedavg": lambda: fedavg.aggregate_train(1, sent),
        "flower-fedadam": lambda: fedadam.aggregate_train(1, sent),
    }


class Copier:
    """Moves bytes as fast as this machine does: a copy, on the number of threads that suits it."""

    def __init__(self, capacity: float) -> None:
        self._source = np.ones(int(capacity) // 2, np.uint8)
        self._target = np.zeros_like(self._source)
        counts = range(1, kernels.threads() + 1)
        self._threads = min(
            counts, key=lambda n: statistics.median(timed(partial(self.move, capacity, n), 5))
        )

    def move(self, number: float, threads: int | None = None) -> None:
        """Read half of that many bytes and write the other half."""
        threads = threads or self._threads
        half = int(number) // 2
        source, target = self._source[:half], self._target[:half]
        parts = zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
        workers = [threading.Thread(target=np.copyto, args=part) for part in parts]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def bytes_moved(layout: Layout, clients: int, codec: str, optimizer: str) -> float:
    """The bytes that a step must move: every array it needs, once a pass, read and written."""
    d = layout.size
    weights = 4 * (1 + clients)  # w and each w_i
    stored = 2 * clients * CODECS[codec].bits_per_value(layout) / 8  # the old read, the new written
    total = 2 * 8
    moments = {"sgd": 0, "adagrad": 8}.get(optimizer, 16)
    first, second = weights, weights + stored + total + moments + 4
    third = 16 if optimizer == "lamb" else 0  # w, m and v again, then the model; no write before
    return d * (first + second + third - (4 if optimizer == "lamb" else 0))


# --- measuring -----------------------------------------------------------------------------------


def timed(work: Callable[[], Any], repeats: int) -> list[float]:
    """Seconds of each of several calls."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return seconds


def side_by_side(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, called in turn after one call to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            seconds[name] += timed(work, 1)
    return {name: statistics.median(values) * 1000 for name, values in seconds.items()}


def cases() -> list[tuple[str, str]]:
    """The codecs and optimizers that are timed."""
    others = [(codec, "adam") for codec in CODECS if codec not in PAPER]
    return [(codec, optimizer) for codec in PAPER for optimizer in OPTIMIZERS] + others


def timings() -> int:
    """How many `measure` gives."""
    return 3 * len(cases()) + 6


def large(layout: Layout, rounds: int) -> Iterator[ServerTiming]:
    """Every codec and optimizer at a large model's size."""
    w, updates = replies(layout)
    copier = Copier(bytes_moved(layout, CLIENTS, "fp32", "lamb"))
    flower = importlib.util.find_spec("flwr") is not None
    out = np.empty_like(w)
    for codec, optimizer in cases():
        ours = FedAdaVR(layout, optimizer=optimizer, codec=codec, server_lr=0.01)
        works: dict[str, Callable[[], Any]] = {
            "ours": partial(ours.step, w, updates, out=out),
            "bound": partial(copier.move, bytes_moved(layout, CLIENTS, codec, optimizer)),
        }
        if codec in PAPER:
            plain = NumpyFedAdaVR(layout, codec, optimizer)
            works["numpy"] = partial(plain.step, w, updates)
        else:  # in turn with the one that it is to be held against
            int4 = FedAdaVR(layout, optimizer=optimizer, codec="int4", server_lr=0.01)
            works["int4"] = partial(int4.step, w, updates, out=out)
        for name, ms in side_by_side(works, rounds).items():
            yield ServerTiming(name, codec, optimizer, layout.size, CLIENTS, CLIENTS, ms)
    paper = FedAdaVR(layout, optimizer="adam", codec="int8", server_lr=0.01)
    plus = FedAdaVRPlus(layout, optimizer="adam", codec="int8", server_lr=0.01, centers=CENTERS)
    fill_centers(plus, w)
    both: dict[str, Callable[[], Any]] = {
        "fedadavr": partial(paper.step, w, updates, out=out),
        "fedadavr-plus": partial(plus.step, w, updates, out=out),
    }
    for name, ms in side_by_side(both, rounds).items():
        yield ServerTiming(name, "int8", "adam", layout.size, CLIENTS, CLIENTS, ms)
    if flower:
        for name, ms in side_by_side(flower_aggregations(layout, w, updates), rounds).items():
            yield ServerTiming(
                name, "", name.removeprefix("flower-"), layout.size, CLIENTS, CLIENTS, ms
            )


def fill_centers(server: FedAdaVRPlus, w: Vector) -> None:
    """Let clients come that have nothing in common, until every center is open."""
    rng = np.random.default_rng(3)
    moved = np.empty_like(w)
    for k in range(CENTERS):
        moved[:] = w - 0.01 * rng.standard_normal(len(w), dtype=np.float32)
        server.step(w, [Update(f"other {k}", moved, 100)])


def filled_server(layout: Layout, population: int, w: Vector) -> FedAdaVR:
    """A server that remembers every client of its population."""
    server = FedAdaVR(layout, codec="int4", population=population, server_lr=1e-6)
    rng = np.random.default_rng(1)
    moved = [w - 0.01 * rng.standard_normal(layout.size, dtype=np.float32) for _ in range(1000)]
    for lo in range(0, population, len(moved)):
        names = range(lo, min(lo + len(moved), population))
        server.step(w, [Update(str(i), moved[i - lo], examples=100) for i in names])
    return server


def small(rounds: int) -> Iterator[ServerTiming]:
    """A small model with a small and with a large population, every client of it stored."""
    layout = Layout({"x": (SMALL,)})
    w, sent = replies(layout)
    rng = np.random.default_rng(2)
    servers = {n: filled_server(layout, n, w) for n in POPULATIONS}

    def one_round(population: int) -> Callable[[], Any]:
        def run() -> None:
            names = drawn[population]
            chosen = [Update(str(i), u.weights, 100) for i, u in zip(names, sent, strict=True)]
            began = time.perf_counter()
            servers[population].step(w, chosen)
            seconds[population].append(time.perf_counter() - began)

        return run

    seconds: dict[int, list[float]] = {n: [] for n in POPULATIONS}
    works = [one_round(n) for n in POPULATIONS]
    for _ in range(rounds):
        drawn: dict[int, npt.NDArray[np.int64]] = {
            n: rng.choice(n, CLIENTS, replace=False) for n in POPULATIONS
        }
        for work in works:
            work()
    for n in POPULATIONS:
        yield ServerTiming(
            "ours", "int4", "adam", SMALL, CLIENTS, n, statistics.median(seconds[n]) * 1000
        )


def measure(rounds: int) -> Iterator[ServerTiming]:
    """One step at ResNet-18's size, and at two sizes of population."""
    yield from large(resnet18_layout(), rounds)
    yield from small(3000)
