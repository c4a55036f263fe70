"""Experiment: everything that one run depends on, in one flat dataclass."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedadavr.algorithms import Algorithm, algorithm, algorithms, settings_of
from fedadavr.data import PARTITIONS, datasets
from fedadavr.data.sources import CLIENTS
from fedadavr.models import models
from fedadavr.naming import unknown
from fedadavr.plugins import load_file
from fedadavr.stores import Store
from fedadavr.vector import Layout

PROTOCOLS: dict[str, dict[str, Any]] = {
    "mnist-5k": {"local_epochs": 2, "rounds": 100},
    "mnist": {"local_epochs": 1, "rounds": 60},
    "fmnist": {"local_epochs": 3, "rounds": 100},
    "cifar10": {"local_epochs": 5, "rounds": 200, "model": "resnet18"},
    "shakespeare": {
        "local_epochs": 5, "rounds": 200, "batch_size": 64, "model": "gru",
        "partition": "natural", "evaluate_clients": 225,
    },
}  # fmt: skip
"""The paper's protocol for each data set fills what is left open; mnist-5k's is the demo's."""

ALGORITHM_SETTINGS = (
    "optimizer", "server_lr", "codec", "weighting", "beta1", "beta2", "eps", "weight_decay",
    "trust_ratio", "mu", "tau", "warmup", "clusters", "clip", "max_norm",
    "max_examples", "max_steps", "max_share",
    "prune_after", "memories", "centers", "center_similarity", "center_rate", "trust",
    "trust_decay", "sampler",
)  # fmt: skip

OWN_SETTINGS = (*ALGORITHM_SETTINGS, "client_lr", "momentum")
"""What may differ between the algorithms of one comparison."""


@dataclass(frozen=True)
class Experiment:
    """Federated training of a model: the data, the algorithm, and how long."""

    dataset: str = "mnist-5k"
    """Data set: mnist-5k, mnist, fmnist, cifar10, shakespeare, or one that --load brings."""
    partition: str | None = None
    """Who holds what: iid, iid-noniid, dirichlet, lq-1, lq-2, lq-3, natural (default: lq-1)."""
    clients: int | None = None
    """How many clients there are (default: the data set's)."""
    clients_per_round: int = 5
    """How many of them train in a round."""
    algorithm: str = "fedadavr"
    """The server's algorithm; `fedadavr quadratic` lists them."""
    optimizer: str | None = None
    """Server optimizer: sgd, adagrad, adam, adabelief, yogi, lamb."""
    server_lr: float | None = None
    """Rate of the server's step."""
    client_lr: float = 0.01
    """Rate of the clients' steps."""
    codec: str | None = None
    """How the memory is stored: fp32, fp16, int8, int4."""
    weighting: str | None = None
    """Weights of the sums: cohort, population, ht (FedAdaVR); uniform, examples (FedVARP)."""
    beta1: float | None = None
    """Decay of the first moment."""
    beta2: float | None = None
    """Decay of the second moment."""
    eps: float | None = None
    """Added to the optimizer's denominator."""
    weight_decay: float | None = None
    """Weight decay of the server's optimizer."""
    trust_ratio: str | None = None
    """LAMB's ratio: tensor, global."""
    mu: float | None = None
    """FedProx's proximal weight."""
    tau: float | None = None
    """FedOpt's addition to the denominator."""
    warmup: str | None = None
    """MIFA's first round: all, zeros, seen."""
    clusters: int | None = None
    """ClusterFedVARP's number of clusters."""
    clip: float | None = None
    """Clip updates longer than so many times the median length of late; 0: never."""
    max_norm: float | None = None
    """Reject updates longer than this."""
    max_examples: int | None = None
    """Reject replies that claim more examples (default: a thousand times the median known)."""
    max_steps: int | None = None
    """Reject replies that claim more local steps (default: the same of steps)."""
    max_share: float | None = None
    """The largest share of a cohort's examples that one client counts with."""
    prune_after: int | None = None
    """Forget a client that was not seen for so many rounds."""
    memories: str | None = None
    """FedAdaVR+'s memories: own, centers, or own+centers."""
    centers: int | None = None
    """FedAdaVR+: how many kinds of clients at most."""
    center_similarity: float | None = None
    """FedAdaVR+: a reply whose cosine with every center is less opens a new one."""
    center_rate: float | None = None
    """FedAdaVR+: how far one reply moves its center."""
    trust: str | None = None
    """FedAdaVR+: how far memories are trusted: learned, or a number from 0 to 1."""
    trust_decay: float | None = None
    """FedAdaVR+: decay of the average that trust is learned from."""
    sampler: str | None = None
    """FedAdaVR+: cohorts drawn uniform, or by kinds."""
    model: str | None = None
    """Model: lenet5, cnn, simple-cnn, resnet18, gru, or --load's (default: the data set's)."""
    stem: str | None = None
    """ResNet-18's first layers: imagenet (default) or cifar."""
    rounds: int | None = None
    """How many rounds (default: the data set's)."""
    local_epochs: int | None = None
    """Epochs that a client trains in a round (default: the data set's)."""
    batch_size: int | None = None
    """Examples in a client's step (default: 20, shakespeare 64)."""
    momentum: float = 0.9
    """Momentum of the clients' SGD."""
    evaluate_clients: int | None = None
    """Clients whose test shares are evaluated, drawn anew each time (default: 250 or all)."""
    evaluate_every: int = 1
    """Evaluate every so many rounds; those of the average are evaluated always."""
    evaluate_examples: int | None = None
    """Evaluate at most so many examples (default: all)."""
    average_last: int | None = None
    """The final figures are means over so many last rounds (default: a tenth)."""
    seed: int = 42
    """Seed of the partition, the first weights, and every draw."""
    fast: bool = True
    """Fast paths on the CPU where a model has one: the same function, rounded differently."""
    load: str | None = None
    """A Python file to import first, with your own algorithm, data set or model."""

    def resolved(self) -> Experiment:
        """With the defaults of its data set filled in, and checked; raises before any work."""
        if self.load:
            load_file(self.load)
            self = replace(self, load=str(Path(self.load).resolve()))
        if self.dataset not in datasets():
            raise ValueError(unknown("data set", self.dataset, datasets()))
        mine: dict[str, Any] = {
            "partition": "lq-1",
            "clients": CLIENTS.get(self.dataset, 100),
            "model": "lenet5",
            "rounds": 100,
            "local_epochs": 1,
            "batch_size": 20,
            "evaluate_clients": 250,
        }
        mine |= PROTOCOLS.get(self.dataset, {})
        open_fields = {k: v for k, v in mine.items() if getattr(self, k) is None}
        if self.load:
            open_fields["load"] = str(Path(self.load).resolve())  # also from another folder
        full = replace(self, **open_fields)
        if full.average_last is None:
            assert full.rounds is not None
            full = replace(full, average_last=max(1, full.rounds // 10))
        full._check()
        return full

    def _check(self) -> None:
        partitions = [*PARTITIONS, "natural"]
        if self.partition not in partitions:
            raise ValueError(unknown("partition", self.partition, partitions))
        if self.model not in models():
            raise ValueError(unknown("model", self.model, models()))
        if self.stem is not None and (self.model != "resnet18" or self.stem not in STEMS):
            raise ValueError(
                f"--stem is for resnet18, imagenet or cifar, got {self.stem!r} with {self.model}"
            )
        for name in ("clients", "clients_per_round", "rounds", "local_epochs", "batch_size",
                     "evaluate_clients", "evaluate_every", "evaluate_examples",
                     "average_last"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{flag(name)} must be at least 1, got {value}")
        assert self.clients is not None
        assert self.rounds is not None
        assert self.average_last is not None
        if self.clients_per_round > self.clients:
            raise ValueError(
                f"{flag('clients_per_round')} {self.clients_per_round} is more than the "
                f"{self.clients} clients there are"
            )
        if self.average_last > self.rounds:
            raise ValueError(
                f"{flag('average_last')} {self.average_last} is more than the {self.rounds} rounds"
            )
        if not 0 <= self.momentum < 1:
            raise ValueError(f"{flag('momentum')} must lie in [0, 1), got {self.momentum}")
        if self.seed < 0:
            raise ValueError(f"{flag('seed')} must not be negative, got {self.seed}")
        self.server(Layout({"probe": (1,)}))

    def with_algorithm(self, spec: str) -> Experiment:
        """With an algorithm as it is typed: a name, and after a colon settings of its own."""
        name, _, rest = spec.partition(":")
        own: dict[str, Any] = {}
        for pair in filter(None, rest.split(",")):
            key, equals, value = pair.partition("=")
            if not equals:
                raise ValueError(f"{spec}: give {key!r} a value, as {key}=...")
            setting, typed = setting_of(key, value, spec, OWN_SETTINGS)
            own[setting] = typed
        for setting in ALGORITHM_SETTINGS:
            if getattr(self, setting) is not None and setting not in settings_of(name):
                raise ValueError(
                    f"{flag(setting)} is typed for all algorithms, but {name} has no such setting: "
                    f"give it to those that have it, as NAME:{setting.replace('_', '-')}=..."
                )
        return replace(self, algorithm=name, **own)

    def server(
        self,
        layout: Layout,
        sizes: Mapping[str, int] | None = None,
        store: Store | None = None,
    ) -> Algorithm:
        """The algorithm, with the settings that are given; `sizes` are those of the clients."""
        known = settings_of(self.algorithm)
        given = {
            name: getattr(self, name)
            for name in ALGORITHM_SETTINGS
            if getattr(self, name) is not None
        }
        for name in given:
            if name not in known:
                raise ValueError(
                    f"{self.algorithm} has no setting {flag(name)}; it has: "
                    f"{', '.join(flag(k) for k in known if k in ALGORITHM_SETTINGS)}"
                )
        if "population" in known:
            given["population"] = self.clients if sizes is None else sizes
        if "client_momentum" in known:
            given["client_momentum"] = self.momentum
        return algorithm(self.algorithm, layout, client_lr=self.client_lr, store=store, **given)

    def own_settings(self) -> dict[str, Any]:
        """What is the algorithm's own, as the run has it: its defaults where nothing is given.

        Of an algorithm whose file is not loaded here only what is given is known.
        """
        own = {name: getattr(self, name) for name in OWN_SETTINGS}
        return own | _filled(self) if self.algorithm in algorithms() else own

    def due(self, round: int) -> bool:
        """Whether a round is evaluated."""
        assert self.rounds is not None
        assert self.average_last is not None
        return round % self.evaluate_every == 0 or round > self.rounds - self.average_last

    def to_toml(self) -> str:
        """Everything needed to run it again."""
        settings = {name: value for name, value in asdict(self).items() if value is not None}
        # A JSON string or number is a TOML one, too.
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


STEMS = ("imagenet", "cifar")


@lru_cache(maxsize=4096)  # reports ask for the same runs over and over
def _filled(experiment: Experiment) -> dict[str, Any]:
    """The settings of a server that is built for this."""
    server = experiment.server(Layout({"probe": (1,)}))
    step = server.server_optimizer
    usual = {"server_lr": step.lr, "beta1": step.beta1, "beta2": step.beta2, "eps": step.eps}
    found = {}
    for name in settings_of(experiment.algorithm):
        if name in ALGORITHM_SETTINGS:
            value = getattr(server, name)
            found[name] = usual.get(name) if value is None else value
    return found


def flag(name: str) -> str:
    """A field's name as one types it."""
    return "--" + name.replace("_", "-")


def setting_of(
    key: str, text: str, where: str, among: Collection[str] | None = None
) -> tuple[str, Any]:
    """A field and its value from what was typed: server-lr and 0.005."""
    kinds = {f.name: str(f.type).removesuffix(" | None") for f in fields(Experiment)}
    name = key.strip().replace("-", "_")
    if name not in (kinds if among is None else among):
        known = [known.replace("_", "-") for known in (among or kinds)]
        raise ValueError(f"{where}: {unknown('setting', key, known)}")
    try:
        types: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": _truth}
        return name, types.get(kinds[name], str)(text)
    except ValueError:
        raise ValueError(f"{where}: {key} must be of type {kinds[name]}, got {text!r}") from None


def _truth(text: str) -> bool:
    """A yes or no, as it is typed."""
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def read_toml(path: Path, kind: type = Experiment) -> dict[str, Any]:
    """The settings in a TOML file, by field name; wrong names and types are refused."""
    try:
        given = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    kinds = {field.name: str(field.type).removesuffix(" | None") for field in fields(kind)}
    settings = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in kinds:
            raise ValueError(f"{path}: {unknown('setting', key, kinds)}")
        settings[name] = _typed(value, kinds[name], f"{path}: {key}")
    return settings


def _typed(value: Any, kind: str, where: str) -> Any:
    """A value of a TOML file as a field of that type."""
    if kind == "tuple[str, ...]" and isinstance(value, dict):  # a grid: its values by field
        return tuple(
            f"{key}={','.join(map(str, values if isinstance(values, list) else [values]))}"
            for key, values in value.items()
        )
    if kind.startswith("tuple[") and isinstance(value, list):
        return tuple(_typed(one, kind[6:-6], where) for one in value)
    if kind == "float" and type(value) is int:
        return float(value)
    if kind == "Path" and isinstance(value, str):
        return Path(value)
    if type(value).__name__ != kind:
        raise ValueError(f"{where} must be of type {kind}, got {value!r}")
    return value
