"""Every algorithm of the package in a few float64 lines, with the paper's symbols.

Nothing here is fast, and nothing is shared with the package: memory is a dictionary, sums are
taken over all clients every time. The fast implementations are pinned to these.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]


def tensors(shapes: Shapes, x: Array) -> list[Array]:
    """A flat vector, cut into its tensors."""
    return np.split(x, np.cumsum([int(np.prod(s)) for s in shapes.values()])[:-1])


def quant(mode: str, x: Array) -> tuple[Array, np.float32]:
    """The paper's Quant of one tensor, before packing: integers and their scale."""
    top = {"int8": 127, "int4": 7}[mode]
    alpha = np.abs(x).max().astype(np.float32) / np.float32(top)
    alpha = np.float32(1.0) if alpha == 0 else alpha
    return np.clip(np.round(x / alpha), -top, top).astype(np.int8), alpha


NF4 = np.array(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
     -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
     0.7229568362236023, 1.0], np.float32,
)  # fmt: skip
GROUPED = {"int8-block": 127, "int4-block": 7, "nf4": 1}


def bfloat16_up(x: Array) -> Array:
    """The next bfloat16 that is not below a positive float32, as a float32."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0xFFFF)) >> np.uint32(16) << np.uint32(16)).view(np.float32)


def grouped(mode: str, x: Array) -> Array:
    """One tensor, quantized and back, with a scale for every 64 values."""
    top, read = np.float32(GROUPED[mode]), []
    for group in np.split(x, range(64, len(x), 64)):
        alpha = bfloat16_up(np.abs(group).max(keepdims=True) / top)
        ratio = group / np.where(alpha > 0, alpha, np.float32(1))
        if mode == "nf4":
            bounds = (NF4[1:] + NF4[:-1]) / np.float32(2)
            q = NF4[np.searchsorted(bounds, ratio, side="left")]
        else:
            q = np.clip(np.round(ratio), -top, top)
        read.append(q * alpha)
    return np.concatenate(read)


ROTATED = {"rot4": 4, "rot3": 3, "rot2": 2, "rot1": 1}
LLOYD_MAX = {  # magnitudes
    1: [0.7978846], 2: [0.4527800, 1.5104176], 3: [0.2450942, 0.7560053, 1.3439093, 2.1519457],
    4: [0.1283950, 0.3880483, 0.6567591, 0.9423405, 1.2562309, 1.6180464, 2.0690172, 2.7326357],
}  # fmt: skip
SIGNS = np.unpackbits(
    np.frombuffer(hashlib.shake_128(b"fedadavr rot").digest(256), np.uint8), bitorder="little"
)


def hadamard(x: Array) -> Array:
    """The fast Hadamard transform over the rows, whose number is a power of two, times its root."""
    h = 1
    while h < len(x):
        a, b = (x.reshape(-1, 2, h, 8)[:, k] for k in (0, 1))
        x, h = np.stack([a + b, a - b], 1).reshape(-1, 8), 2 * h
    return x


def rotation(x: Array, back: bool) -> tuple[Array, np.float32]:
    """The columns rotated, or back, and the factor that is still missing."""
    power = 1 << (len(x).bit_length() - 1)
    factor = np.float32(1) / np.sqrt(np.float32(power))
    if power == len(x):
        return hadamard(x), factor
    parts = [slice(0, power), slice(len(x) - power, None)]
    x = x.copy()
    for part in parts[::-1] if back else parts:
        x[part] = hadamard(x[part]) * factor
    return x, np.float32(1)


def summed(x: Array) -> Array:
    """The sums of the columns: each eight rows as a tree, then one after the other."""
    eights = x.reshape(-1, 8, 8)
    while eights.shape[1] > 1:
        eights = eights[:, 0::2] + eights[:, 1::2]
    total: Array = np.zeros(8, np.float32)
    for row in eights[:, 0]:
        total = total + row
    return total


def rotated(bits: int, x: Array) -> Array:
    """One tensor, rotated, quantized and back, in float32 and in the order of the codec."""
    levels = np.array(LLOYD_MAX[bits], np.float32)
    bounds = ((np.array(LLOYD_MAX[bits])[1:] + np.array(LLOYD_MAX[bits])[:-1]) / 2).astype("f4")
    exponent = min(max(int(np.frexp(np.abs(x).max())[1]) - 1, -126), 126)
    factor, inverse = np.float32(2.0**-exponent), np.float32(2.0**exponent)
    read = []
    for block in np.split(x, range(2048, len(x), 2048)):
        rows = -(-len(block) // 64) * 8
        v: Array = np.zeros(8 * rows, np.float32)
        v[: len(block)] = block
        v = (v * factor).reshape(rows, 8)
        sign = np.where(SIGNS[: 8 * rows], np.float32(-1), np.float32(1)).reshape(rows, 8)
        z, missing = rotation(v * sign, back=False)
        size = np.sqrt(summed(v * v) / np.float32(rows))
        over = np.abs(z) * np.where(size > 0, missing / np.where(size > 0, size, 1), 0).astype("f4")
        level = levels[np.searchsorted(bounds, over, side="left")]
        scale = summed(np.abs(z) * level) / summed(level * level) * missing * inverse
        raw = scale.view(np.uint32)
        raw = (raw + np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        scale = (raw << np.uint32(16)).view(np.float32)
        y, missing = rotation(np.where(np.signbit(z), -level, level), back=True)
        read.append((y * (scale * missing) * sign).ravel()[: len(block)])
    return np.concatenate(read)


def roundtrip(mode: str, shapes: Shapes, x: Array) -> Array:
    """Dequant(Quant(x)), tensor by tensor, in the paper's float32."""
    x = x.astype(np.float32)
    if mode == "fp32":
        return x
    if mode == "fp16":
        return np.clip(x, -65504, 65504).astype(np.float16).astype(np.float32)
    if mode in ROTATED:
        return np.concatenate([rotated(ROTATED[mode], t) for t in tensors(shapes, x)])
    if mode in GROUPED:
        return np.concatenate([grouped(mode, t) for t in tensors(shapes, x)])
    pairs = [quant(mode, t) for t in tensors(shapes, x)]
    return np.concatenate([q.astype(np.float32) * alpha for q, alpha in pairs])


@dataclass
class Optimizer:
    """The optimizers of the paper's appendix, and Flower's three."""

    name: str
    shapes: Shapes
    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    trust_ratio: str = "tensor"
    t: int = 0
    m: Any = 0.0
    v: Any = 0.0
    learned: bool = False
    a: float = 0.0
    p: Any = 0.0
    first: float = 0.0

    def step(self, w: Array, G: Array) -> Array:
        if self.learned and self.t == 0:
            self.first = float(np.linalg.norm(w))
            u = float(np.linalg.norm(w)) if self.name == "lamb" else np.sqrt(w.size)
            self.lr = min(self.lr, self.longest(w, G) / u)
        lr, after = self.lr, self.move(w, G)
        if self.learned:
            length = float(np.linalg.norm(w - after)) / lr
            self.learn(w, G + self.weight_decay * w, length, self.longest(w, G))
        return after

    def longest(self, w: Array, G: Array) -> float:
        """A tenth of the model, or of the first; as long as G, where the first is hardly there."""
        root, length = float(np.sqrt(w.size)), float(np.linalg.norm(w))
        if self.first >= 0.01 * root:
            return 0.1 * max(min(length, self.first), 0.01 * root)
        return max(0.1 * length, float(np.linalg.norm(G)) / max(self.t, 1), 0.001 * root)

    def learn(self, w: Array, G: Array, u: float, longest: float) -> None:
        """lr exp(a / 2), where a averages the cosines of G and the mean p of those before."""
        P = 1 / (np.sqrt(self.v * self.second) + self.eps)
        lengths = np.sum(G * P * G) * np.sum(self.p * P * self.p)
        if lengths > 0:
            self.a = (self.a + np.sum(G * P * self.p) / np.sqrt(lengths)) / 2
        self.p = self.beta1 * self.p + (1 - self.beta1) * G
        self.lr *= np.exp(self.a / 2)
        if u > 0:
            self.lr = min(self.lr, longest / u)

    @property
    def second(self) -> float:
        """The factor on v that corrects its bias."""
        corrected = self.name in ("adam", "adabelief", "yogi", "lamb")
        return 1 / (1 - self.beta2**self.t) if corrected else 1.0

    def move(self, w: Array, G: Array) -> Array:
        w, G = w.astype(np.float64), G + self.weight_decay * w
        b1, b2, self.t = self.beta1, self.beta2, self.t + 1
        if self.name == "sgd":
            return w - self.lr * G
        if self.name == "momentum":
            self.m = b1 * self.m + G
            return w - self.lr * self.m
        if self.name in ("adagrad", "fedadagrad"):
            self.v = self.v + G * G
            return w - self.lr * G / (np.sqrt(self.v) + self.eps)
        self.m = b1 * self.m + (1 - b1) * G
        if self.name in ("yogi", "fedyogi"):
            self.v = self.v - (1 - b2) * G * G * np.sign(self.v - G * G)
        elif self.name == "adabelief":
            self.v = b2 * self.v + (1 - b2) * (G - self.m) ** 2
        else:
            self.v = b2 * self.v + (1 - b2) * G * G
        if self.name == "fedyogi":
            return w - self.lr * self.m / (np.sqrt(self.v) + self.eps)
        if self.name == "fedadam":
            rate = self.lr * np.sqrt(1 - b2 ** (self.t + 1)) / (1 - b1 ** (self.t + 1))
            return w - rate * self.m / (np.sqrt(self.v) + self.eps)
        r = (self.m / (1 - b1**self.t)) / (np.sqrt(self.v / (1 - b2**self.t)) + self.eps)
        if self.name != "lamb":
            return w - self.lr * r
        if self.trust_ratio == "global":
            return w - self.lr * trust(w, r) * r
        pairs = zip(tensors(self.shapes, w), tensors(self.shapes, r), strict=True)
        return np.concatenate([wt - self.lr * trust(wt, rt) * rt for wt, rt in pairs])


def trust(w: Array, r: Array) -> float:
    """LAMB's ratio."""
    a, b = np.linalg.norm(w), np.linalg.norm(r)
    return float(a / b) if a > 0 and b > 0 else 1.0


@dataclass
class Clip:
    """How long an update may be: a multiple of the median of those accepted, older ones faded."""

    multiple: float
    accepted: list[list[float]] = field(default_factory=list)  # the lengths of each round
    steps: list[list[float]] = field(default_factory=list)  # and the steps that were claimed
    examples: list[list[float]] = field(default_factory=list)  # and the examples

    @staticmethod
    def median(weighted: list[tuple[float, float]]) -> float:
        """The lower median, rounded up to 2^k or 2^k / sqrt 2; zero if there are fewer than 3."""
        total = sum(weight for _, weight in weighted)
        if total <= 2.5:
            return 0.0
        x = next(x for x, _ in sorted(weighted)
                 if sum(v for y, v in weighted if y <= x) >= total / 2 - 1e-9)  # fmt: skip
        power = int(np.floor(np.log2(x))) + 1
        root = np.sqrt(0.5)
        return float(2.0**power * (1 if x / 2.0**power > root else root))

    @staticmethod
    def faded(rounds: list[list[float]]) -> list[tuple[float, float]]:
        """Values with their weights: half of it is gone after twenty rounds."""
        told = [round for round in rounds if any(round)]
        return [
            (x, 2 ** (-age / 20))
            for age, round in enumerate(reversed(told))
            for x in round
            if x > 0
        ]

    def fractions(self, K: list[float], m: float) -> list[float]:
        """Of the bound: a_i / a of the median steps, at most one."""
        usual = self.median(self.faded(self.steps)) or sorted(K)[(len(K) - 1) // 2]
        a = [(k - m * (1 - m**k) / (1 - m)) / (1 - m) for k in [*K, usual]]
        return [min(1.0, x / a[-1]) for x in a[:-1]]

    def scale(self, lengths: list[float], model: float, blank: bool = False) -> float:
        """The scale for a cohort."""
        now = [(x, 1.0) for x in lengths if x > 0]
        faded = self.faded(self.accepted)
        history = self.median(faded)
        if len(now) < 3:
            both = self.median(faded + now)
            few = sum(weight for _, weight in faded + now) < 10
            pair = self.median([min(now)] * 3) if len(now) == 2 else 0.0  # the shorter, rounded up
            pair = min(pair, 1000 * (history or model))
            return max(history, both, model, pair) if few else history or both
        if blank and not history:
            return self.median(now)
        early = len(self.accepted) < 3 or sum(weight for _, weight in faded) < 10
        return max(history, min(self.median(now), (1000 if early else 10) * (history or model)))

    def factors(
        self, g: list[Array], model: float, eta_c: float, K: list[float], m: float | None,
        blank: bool = False,
    ) -> list[float]:  # fmt: skip
        """What is left of each g_i; m is the momentum, where g_i is divided by local steps."""
        lengths = [float(np.linalg.norm(x)) for x in g]
        bound = self.multiple * self.scale(lengths, model / eta_c, blank)
        part = [1.0] * len(g) if m is None else self.fractions(K, m)
        long = [x > bound * f for x, f in zip(lengths, part, strict=True)]
        told = list(zip(lengths, part, long, strict=True))
        known = sum(weight for _, weight in self.faded(self.accepted))
        self.steps.append(K)
        self.accepted.append([0.1 * bound * f if too else x for x, f, too in told])
        guess = known < 10 and sum(x > 0 for x in lengths) < 3
        most = np.inf if guess else 5 * bound / self.multiple  # that is remembered
        self.parts = [1.0 if too or x <= most * f else most * f / x for x, f, too in told]
        return [bound / self.multiple * f / x if too else 1.0 for x, f, too in told]

    def remembered(
        self, n: dict[str, int], before: Mapping[str, int], waiting: Mapping[str, Any], P: float
    ) -> dict[str, int]:
        """The examples that each client is remembered with: no more than a few times the usual."""
        now, faded = [(float(x), 1.0) for x in n.values()], self.faded(self.examples)
        known = faded if sum(weight for _, weight in faded) >= 10 else faded + now
        usual, anybody = self.median(known), 2.0
        if not usual:
            anybody = 10.0
            part, power = np.frexp(min(x for x, _ in known))
            usual = 2.0 ** (power - (0.5 if part > np.sqrt(0.5) else 1))
        everyone = max(P, sum(min(x, 10 * usual) for x in n.values()))
        if max(n.values()) > anybody * usual:
            for i, x in n.items():
                others = everyone - max(before.get(i, 0), min(x, 10 * usual))
                most = min(10 * usual, max(anybody * usual, others / 4))
                most = max(most, 3 * before.get(i, 0), waiting.get(i) or 0, 1)
                n = n | {i: int(min(x, most))}
        return n


@dataclass
class Server:
    """The state of every algorithm: y_j and n_j of the clients seen, and who else there is."""

    shapes: Shapes
    optimizer: Optimizer
    eta_c: float = 1.0
    codec: str = "fp32"
    population: int | Mapping[str, int] | None = None
    clip: Clip | None = None
    half_life: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    y: dict[str, Array] = field(default_factory=dict)
    n: dict[str, int] = field(default_factory=dict)  # of the seen
    waiting: dict[str, int | None] = field(default_factory=dict)
    anonymous: int = 0
    left: set[str] = field(default_factory=set)
    past: list[Array] = field(default_factory=list)  # each round's mean gradient, FedCM's
    came: list[set[str]] = field(default_factory=list)  # who came in each round, FedAU's
    c: list[Array] = field(default_factory=list)  # centers, and the kind of each client
    kind: dict[str, int] = field(default_factory=dict)
    C: Any = None
    alpha: Any = (0.0, 0.0)

    def __post_init__(self) -> None:
        if isinstance(self.population, Mapping):
            self.waiting = dict(self.population)
        elif self.population is not None:
            self.anonymous = self.population

    @property
    def N(self) -> int:
        return len(self.n) + len(self.waiting) + self.anonymous

    @property
    def P(self) -> float:
        sized = [*self.n.values()] or [s for s in self.waiting.values() if s is not None]
        mean = np.mean(sized) if sized else 0.0
        named = [mean if size is None else size for size in self.waiting.values()]
        return float(sum(self.n.values()) + sum(named) + self.anonymous * mean)

    def place(self, client: str) -> None:
        """Room for a client that is not counted yet."""
        if client in self.left:
            self.left.remove(client)
        elif self.anonymous:
            self.anonymous -= 1

    def join(self, client: str, size: int | None = None) -> None:
        if client in self.n:
            return
        if client not in self.waiting:
            self.place(client)
        self.waiting[client] = size or self.waiting.get(client)

    def forget(self, client: str) -> None:
        if client in self.left:
            self.left.remove(client)
            return
        self.anonymous += 1
        self.came = [who - {client} for who in self.came]
        for names in (self.y, self.n, self.waiting):
            names.pop(client, None)

    def leave(self, client: str) -> None:
        if client in self.left:
            return
        if client not in self.n and client not in self.waiting:
            self.anonymous -= 1
        self.came = [who - {client} for who in self.came]
        for names in (self.y, self.n, self.waiting):
            names.pop(client, None)
        self.left.add(client)

    def see(self, client: str, size: int) -> None:
        if client not in self.n and self.waiting.pop(client, 0) == 0:
            self.place(client)
        self.n[client] = size

    def old(self, client: str) -> Array:
        size = sum(int(np.prod(s)) for s in self.shapes.values())
        return self.y.get(client, np.zeros(size))

    def bounded(self, g: Mapping[str, Array]) -> dict[str, Array]:
        """What is remembered of each: five times the usual length at most."""
        return {i: self.parts.get(i, 1.0) * x for i, x in g.items()}

    def keep(self, news: Mapping[str, Array]) -> None:
        for client, x in news.items():
            self.y[client] = roundtrip(self.codec, self.shapes, x).astype(np.float64)

    def sum(self, weight: Callable[[str], float]) -> Array:
        return sum((weight(j) * y for j, y in self.y.items()), self.old(""))

    def step(self, rule: str, w: Array, updates: Iterable[Any], **o: Any) -> Array:
        """One round of the algorithm called `rule`."""
        S = sorted(updates, key=lambda u: u.client)
        # g_i as float32, so that a codec sees the very same numbers
        inverse = np.float32(1 / self.eta_c)
        g = {u.client: ((w - u.weights) * inverse).astype(np.float64) for u in S}
        if self.clip is not None:
            length, root = float(np.linalg.norm(w.astype(np.float64))), np.sqrt(len(w))
            model = 0.1 * (length if length > 1e-3 * root else root)
            claimed = [float(u.steps or 0) for u in S]
            blank = not length > 1e-3 * root
            left = self.clip.factors([*g.values()], model, self.eta_c, claimed, o.get("m"), blank)
            self.parts = dict(zip(g, self.clip.parts, strict=True))
            for u, factor in zip(S, left, strict=True):
                if factor < 1:  # and never more, in float32
                    exact = factor / self.eta_c
                    short = np.float32(exact)
                    short = np.nextafter(short, np.float32(0)) if short > exact else short
                    g[u.client] = ((w - u.weights) * short).astype(np.float64)
        n = {u.client: int(u.examples) for u in S}
        K = {u.client: u.steps for u in S}
        N_sent, c_sent = self.N, self.sum(lambda j: 1.0)
        if rule != "cluster-fedvarp":
            by_examples = rule.startswith("fedadavr") or o.get("weighting") == "examples"
            kept = n
            if self.clip is not None and by_examples:
                kept = self.clip.remembered(n, self.n, self.waiting, self.P)
            for i in g:
                self.see(i, kept[i])
        if self.clip is not None:
            self.clip.examples.append([float(x) for x in n.values()])
        a, N, P = sum(n.values()), self.N, self.P
        r = getattr(self, rule.replace("-", "_"))(g, n, K, a, N, P, c=c_sent / max(N_sent, 1), **o)
        for j in set(self.y) - set(g):  # what is not renewed fades, wherever it enters
            self.y[j] = self.y[j] * (2 ** (-1 / self.half_life) if self.half_life else 1)
        return self.optimizer.step(w, self.eta_c * r)

    def correction(self, rule: str, client: str, **o: Any) -> Array:
        """What a client is to add to its gradients."""
        if rule == "scaffold":
            return self.sum(lambda j: 1.0) / max(self.N, 1) - self.old(client)
        if rule == "feddyn":
            return -self.old(client)
        if rule == "fedcm":
            return (1 - o.get("alpha", 0.1)) * self.past[-1]
        tau = o.get("tau", 10)
        return 0.9 * np.mean(self.past[-tau:], axis=0) * (len(self.past) >= tau)

    # --- the algorithms: each returns r and remembers ---

    def fedavg(self, g: Any, n: Any, K: Any, a: int, N: int, P: float, **_: Any) -> Array:
        return sum(n[i] / a * g[i] for i in g)

    fedprox = fedavgm = fedadagrad = fedadam = fedyogi = fedadavr_novr = fedavg

    def fedbuff(self, g: Any, n: Any, K: Any, a: int, N: int, P: float, **_: Any) -> Array:
        return sum(g.values()) / len(g)  # where all started from the same model

    fedawe = fedbuff  # what its clients make up for is theirs

    def fedexp(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, eps: float = 1e-3, **_: Any
    ) -> Array:
        D = {i: self.eta_c * g[i] for i in g}
        mean = sum(n[i] / a * D[i] for i in g)
        squares = sum(n[i] / a * (D[i] @ D[i]) for i in g)
        return max(1.0, squares / (2 * (mean @ mean + eps))) * mean / self.eta_c

    def fedcm(self, g: Any, n: Any, K: Any, a: int, N: int, P: float, m: float, **_: Any) -> Array:
        A = [sum(sum(m**q for q in range(K[i] - k)) for k in range(K[i])) for i in g]
        self.past.append(sum(g.values()) / len(g) / np.mean(A))
        return sum(g.values()) / len(g)

    def ghbm(self, g: Any, n: Any, K: Any, a: int, N: int, P: float, m: float, **_: Any) -> Array:
        A = [sum(sum(m**q for q in range(K[i] - k)) for k in range(K[i])) for i in g]
        r = self.fedavg(g, n, K, a, N, P)
        self.past.append(self.optimizer.lr * r / np.mean(A))
        return r

    def fednova(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, m: float, **_: Any
    ) -> Array:
        A = {i: sum(sum(m**q for q in range(K[i] - k)) for k in range(K[i])) for i in g}
        tau = sum(n[i] / a * A[i] for i in g)
        return tau * sum(n[i] / a * g[i] / A[i] for i in g)

    def scaffold(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, m: float, c: Array
    ) -> Array:
        A = {i: sum(sum(m**q for q in range(K[i] - k)) for k in range(K[i])) for i in g}
        self.keep({i: self.old(i) - c + g[i] / A[i] for i in g})
        return sum(g.values()) / len(g)

    def fedau(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, cutoff: int = 50, **_: Any
    ) -> Array:
        omega = {}
        for i in g:
            intervals, since = [], 0
            for who in self.came:
                since += 1
                if i in who or since == cutoff:
                    intervals.append(since)
                    since = 0
            omega[i] = np.mean(intervals) if intervals else 1.0
        self.came.append(set(g))
        return sum(omega[i] * g[i] for i in g) / N

    def feddyn(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, alpha: float = 0.01, **_: Any
    ) -> Array:
        D = {i: self.eta_c * g[i] for i in g}
        h = {i: self.old(i) + alpha * D[i] for i in g}
        mean = (self.sum(lambda j: 0.0 if j in g else 1.0) + sum(h.values())) / N
        self.keep(h)
        return (sum(D.values()) / len(g) + mean / alpha) / self.eta_c

    def mifa(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, warmup: str = "all", **_: Any
    ) -> Array:
        r = sum(g.values()) + self.sum(lambda j: 0.0 if j in g else 1.0)
        self.keep(self.bounded(g))
        return r / (len(self.n) if warmup == "seen" else N)

    def fedstale(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float,
        weighting: str = "uniform", beta: float = 0.5, **_: Any,
    ) -> Array:  # fmt: skip
        p = {i: 1 / len(g) if weighting == "uniform" else n[i] / a for i in g}
        q = {j: 1 / N if weighting == "uniform" else self.n[j] / P for j in self.n}
        r = sum(p[i] * (g[i] - beta * self.old(i)) for i in g) + beta * self.sum(lambda j: q[j])
        self.keep(self.bounded(g))
        return r

    def fedvarp(self, *args: Any, **o: Any) -> Array:
        return self.fedstale(*args, **o | {"beta": 1.0})

    def cluster_fedvarp(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, clusters: Any, **_: Any
    ) -> Array:
        if isinstance(clusters, Mapping):
            k = {i: str(clusters[i]) for i in g}
            share = {q: [*map(str, clusters.values())].count(q) / len(clusters) for q in self.y}
        else:
            k = {i: str(zlib.crc32(i.encode()) % clusters) for i in g}
            share = dict.fromkeys(self.y, 1 / clusters)
        r = sum((g[i] - self.old(k[i])) / len(g) for i in g) + self.sum(lambda q: share[q])
        h = self.bounded(g)
        self.keep({q: np.mean([h[i] for i in g if k[i] == q], axis=0) for q in set(k.values())})
        return r

    def fedadavr(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float, weighting: str = "cohort", **_: Any
    ) -> Array:
        p = {"cohort": 1 / a, "population": 1 / P, "ht": N / (len(g) * P)}[weighting]
        r = sum(p * n[i] * (g[i] - self.old(i)) for i in g) + self.sum(lambda j: self.n[j] / P)
        self.keep(self.bounded(g))
        return r

    fedadavr_quant = fedadavr_noopt = fedadavr

    def fedadavr_plus(
        self, g: Any, n: Any, K: Any, a: int, N: int, P: float,
        memories: Any = ("own", "centers"), centers: int = 10, similarity: float = 0.5,
        rate: float = 0.5, decay: float = 0.9, trust: float | None = None, **_: Any,
    ) -> Array:  # fmt: skip
        c, k = self.c, {}
        opened: list[Array] = []
        for i in sorted(g):
            near = [g[i] @ x / np.sqrt((g[i] @ g[i]) * (x @ x)) for x in [*c, *opened]]
            k[i] = int(np.argmax(near)) if near else 0
            if (not near or max(near) < similarity) and len(near) < centers:
                k[i] = len(near)
                opened.append(g[i])
        self.kind = {j: q for j, q in {**self.kind, **k}.items() if j in self.n}
        c = c + [0 * x for x in opened]  # a new center predicts nothing yet
        W = [sum(self.n[j] for j in self.n if self.kind.get(j) == q) for q in range(len(c))]
        y = {"own": {i: self.old(i) for i in g}, "centers": {i: c[k[i]] for i in g}}
        Y = {
            "own": self.sum(lambda j: self.n[j] / P),
            "centers": sum(w * x for w, x in zip(W, c, strict=True)) / sum(W),
        }
        alpha = dict(zip(memories, self.alpha if trust is None else [trust] * 9, strict=False))
        p = {i: n[i] / a for i in g}
        r = sum(p[i] * (g[i] - sum(alpha[m] * y[m][i] for m in memories)) for i in g)
        r = r + sum(alpha[m] * Y[m] for m in memories)
        # what is learned holds from the next round on
        X = [[x - sum(p[j] * v[j] for j in g) for i, x in v.items()]
             for v in [g, *(y[m] for m in memories)]]  # fmt: skip
        C = np.array([[sum(p[i] * (u @ v) for i, u, v in zip(g, U, V, strict=True)) for V in X]
                      for U in X])  # fmt: skip
        if len(g) > 1 and C[0, 0] > 0:
            self.C = decay * self.C + (1 - decay) * C / C[0, 0] if self.C is not None else (
                (1 - decay) * C / C[0, 0])  # fmt: skip
            self.alpha = least_variance(self.C)
        for q in range(len(c)):
            mine = [g[i] for i in g if k[i] == q]
            rho = 1.0 if q >= len(self.c) else 1 - (1 - rate) ** len(mine)
            c[q] = (1 - rho) * c[q] + rho * np.mean(mine, axis=0) if mine else c[q]
        self.c = c
        self.keep(self.bounded(g))
        return r


def least_variance(C: Array) -> Array:
    """alpha in the unit cube, by looking everywhere."""
    M = C[1:, 1:] + 1e-3 * np.mean(np.diag(C[1:, 1:])) * np.eye(len(C) - 1)
    grid = np.linspace(0, 1, 401)
    points = np.stack(np.meshgrid(*[grid] * len(M)), axis=-1).reshape(-1, len(M))
    value = np.einsum("ab,bc,ac->a", points, M, points) - 2 * points @ C[1:, 0]
    return points[np.argmin(value)]
