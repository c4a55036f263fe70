"""Experiment: everything that one run depends on, in one flat dataclass."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedadavr import __version__
from fedadavr.algorithms import Algorithm, algorithm
from fedadavr.algorithms.registry import (
    ALGORITHMS,
    algorithm_class,
    check_settings,
    settings_in_use,
    settings_of,
    user_settings,
)
from fedadavr.availability import Clients, find_availability, find_dropout, spec_of
from fedadavr.data.registry import check_partition, datasets, protocol_of
from fedadavr.defaults import FIRST, as_meant, filled
from fedadavr.models.registry import models
from fedadavr.naming import unknown
from fedadavr.plugins import load_file
from fedadavr.settings import RawText, Setting, Settings, flag, plain
from fedadavr.settings import settings_of as fields_of
from fedadavr.stores import Store
from fedadavr.vector import Layout

__all__ = ["Experiment", "fields_of_experiment", "flag"]

OWN_FIELDS = ("client_lr", "momentum")
"""What may differ between the algorithms of one comparison, besides their settings."""
TOLD_FIRST = ("dataset", "partition", "clients", "clients_per_round", "algorithm", "optimizer",
              "server_lr", "client_lr")  # fmt: skip
"""The order in which an experiment is told; then come the other settings and fields."""
STEMS = ("imagenet", "cifar")
MOST = 2**31  # of any count


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
    buffer: int | None = None
    """Do not wait: clients-per-round are under way, and so many replies make a step."""
    availability: str = "uniform"
    """Who is there: uniform, independent, markov, day-night, trace, churn; NAME:key=value,..."""
    dropout: str | float = "none"
    """Replies that never come: a probability, or deadline:seconds=...; none: all come."""
    algorithm: str = "fedadavr"
    """The server's algorithm; `fedadavr algorithms` lists them."""
    settings: Mapping[str, Any] = field(default_factory=Settings)
    """What the algorithm is told, by the names of its fields; the others have their defaults."""
    client_lr: float = 0.01
    """Rate of the clients' steps."""
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
    """A Python file to import first, with your own algorithm, data set, partition or model."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", Settings(self.settings))

    # --- fields and settings together ---

    @staticmethod
    def of(**values: Any) -> Experiment:
        """An experiment from its fields and the settings of its algorithm, side by side."""
        return Experiment().updated(**values)

    def updated(self, **values: Any) -> Experiment:
        """With other values; a name that is no field is a setting of the algorithm."""
        own = {name: value for name, value in values.items() if name in fields_of_experiment()}
        own.setdefault("settings", self.settings)
        told = {name: value for name, value in values.items() if name not in own}
        return replace(self, **own | {"settings": Settings(own["settings"]) | told})

    def get(self, name: str) -> Any:
        """The value of a field, or of a setting; None if the algorithm has no such setting."""
        return getattr(self, name) if name in fields_of_experiment() else self.settings.get(name)

    def flat(self) -> dict[str, Any]:
        """Fields that are set and settings, side by side, as JSON holds them."""
        own = {k: v for k, v in asdict(self).items() if v is not None and k != "settings"}
        both = own | plain(self.settings)
        first = {name: both[name] for name in TOLD_FIRST if name in both}
        return first | {k: both[k] for k in self.settings} | both

    @staticmethod
    def read(values: Mapping[str, Any], version: str = FIRST, where: str = "") -> Experiment:
        """What `flat` or a config file told, with the defaults of the version that wrote it.

        Of an algorithm whose file is not loaded only the settings are known that are told.
        """
        told = dict(values)
        inner = told.pop("settings", {})
        if not isinstance(inner, Mapping):
            raise ValueError(f"{where}: settings must be a table".removeprefix(": "))
        told |= inner
        if version.startswith("0.1."):
            told = as_meant(told)
        name = told.get("algorithm", Experiment.algorithm)
        own = user_settings(name) if name in ALGORITHMS else {}
        known = fields_of_experiment() | own
        for key in told:
            if name in ALGORITHMS and key not in known:
                raise ValueError(f"{where}: {unknown('setting', key, known)}".removeprefix(": "))
        typed = {k: known[k].read(v, where) if k in known else v for k, v in told.items()}
        experiment = Experiment.of(**typed)
        if name in ALGORITHMS:
            full = filled(name, experiment.settings, version)
            experiment = replace(experiment, settings=full)
        return experiment

    # --- complete and checked ---

    def resolved(self) -> Experiment:
        """Complete: with its data set's protocol and every setting; raises before any work."""
        if self.load:
            load_file(self.load)
            self = replace(self, load=str(Path(self.load).resolve()))  # also from another folder
        if self.dataset not in datasets():
            raise ValueError(unknown("data set", self.dataset, datasets()))
        usual = asdict(protocol_of(self.dataset))
        full = replace(self, **{k: v for k, v in usual.items() if getattr(self, k) is None})
        if full.average_last is None:
            assert full.rounds is not None
            full = replace(full, average_last=max(1, full.rounds // 10))
        full._check()
        if full.buffer is not None:
            full.server(Layout({"probe": (1,)})).check_buffered()
        return replace(full.with_participation(), settings=full._all_settings())

    def _check(self) -> None:
        check_partition(self.partition)
        if self.model not in models():
            raise ValueError(unknown("model", self.model, models()))
        if self.stem is not None and (self.model != "resnet18" or self.stem not in STEMS):
            raise ValueError(
                f"--stem is for resnet18, imagenet or cifar, got {self.stem!r} with {self.model}"
            )
        for name in ("clients", "clients_per_round", "rounds", "local_epochs", "batch_size",
                     "buffer", "evaluate_clients", "evaluate_every", "evaluate_examples",
                     "average_last"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 1 <= value < MOST:
                bound = f"at least 1, got {value}" if value < 1 else f"below {MOST:,}"
                raise ValueError(f"{flag(name)} must be {bound}")
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
        if self.seed >= 2**63:
            raise ValueError(f"{flag('seed')} must be below 2^63")

    def with_participation(self) -> Experiment:
        """With every setting of who is there and whose replies come, checked."""
        assert self.clients is not None
        availability, dropout = find_availability(self.availability), find_dropout(self.dropout)
        clients = Clients(self.clients, self.seed)  # whose data is not loaded yet
        availability.check_clients(clients)
        dropout.check_clients(clients)
        return replace(self, availability=spec_of(availability), dropout=spec_of(dropout))

    def _all_settings(self) -> Settings:
        for name in user_settings(self.algorithm):
            if name in fields_of_experiment():
                raise ValueError(
                    f"the algorithm {self.algorithm} has a setting {name!r}, which is a field of "
                    "every experiment: give it another name"
                )
        return _in_use(algorithm_class(self.algorithm), replace(
            Experiment(), algorithm=self.algorithm, settings=self.settings,
            client_lr=self.client_lr, momentum=self.momentum, clients=self.clients,
        ))  # fmt: skip

    def with_algorithm(self, spec: str) -> Experiment:
        """With an algorithm as it is typed: a name, and after a colon settings of its own."""
        name, _, rest = spec.partition(":")
        known = user_settings(name) | {own: fields_of_experiment()[own] for own in OWN_FIELDS}
        for setting in self.settings:
            if setting not in known:
                raise ValueError(
                    f"{flag(setting)} is typed for all algorithms, but {name} has no such setting: "
                    f"give it to those that have it, as NAME:{setting.replace('_', '-')}=..."
                )
        own: dict[str, Any] = {}
        for pair in filter(None, rest.split(",")):
            key, equals, value = pair.partition("=")
            setting = key.strip().replace("-", "_")
            if not equals:
                raise ValueError(f"{spec}: give {key!r} a value, as {key}=...")
            if setting not in known:
                names = [known.replace("_", "-") for known in known]
                raise ValueError(f"{spec}: {unknown(f'setting of {name}', key, names)}")
            own[setting] = known[setting].read(RawText(value), spec)
        return self.updated(algorithm=name, **own)

    def server(
        self,
        layout: Layout,
        sizes: Mapping[str, int] | None = None,
        store: Store | None = None,
    ) -> Algorithm:
        """The algorithm, with the settings that are given; `sizes` are those of the clients."""
        known = settings_of(self.algorithm)
        own = user_settings(self.algorithm)
        for name in self.settings:
            if name not in own:
                raise ValueError(
                    f"{self.algorithm} has no setting {flag(name)}; it has: "
                    f"{', '.join(setting.flag for setting in own.values())}"
                )
        given = check_settings(self.algorithm, self.settings)
        if "population" in known:
            given["population"] = self.clients if sizes is None else sizes
        if "client_momentum" in known:
            given["client_momentum"] = self.momentum
        return algorithm(self.algorithm, layout, client_lr=self.client_lr, store=store, **given)

    def own_settings(self) -> dict[str, Any]:
        """What may differ between algorithms: settings, in the order of telling, and rates."""
        names = [name for name in TOLD_FIRST if name in self.settings]
        names = list(dict.fromkeys([*names, *self.settings, *OWN_FIELDS]))
        return {name: self.get(name) for name in names}

    def due(self, round: int) -> bool:
        """Whether a round is evaluated."""
        assert self.rounds is not None
        assert self.average_last is not None
        return round % self.evaluate_every == 0 or round > self.rounds - self.average_last

    def to_toml(self) -> str:
        """Everything needed to run it again, with every setting."""
        own = {k: v for k, v in asdict(self).items() if v is not None and k != "settings"}
        lines = [f"{name} = {_toml(value)}\n" for name, value in own.items()]
        settings = [f"{name} = {_toml(value)}\n" for name, value in self.settings.items()]
        return "".join([f"version = {_toml(__version__)}\n", *lines, "\n[settings]\n", *settings])

    @staticmethod
    def from_toml(text: str, where: str = "") -> Experiment:
        """What `to_toml` told, or the config file of a run of an older version."""
        values = tomllib.loads(text)
        version = str(values.pop("version", FIRST))
        # A run of a version that had no fast paths goes on without them, to the bit.
        return Experiment.read({"fast": False} | by_field(values), version, where)


def fields_of_experiment() -> dict[str, Setting]:
    """The fields of an experiment, as a user sees them."""
    return fields_of(Experiment)


def by_field(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the names of fields, which files may have with dashes."""
    found = {name.replace("-", "_"): value for name, value in values.items()}
    inner = found.get("settings")
    return found | ({"settings": by_field(inner)} if isinstance(inner, Mapping) else {})


@lru_cache(maxsize=4096)  # reports ask for the same runs over and over
def _in_use(cls: type[Algorithm], experiment: Experiment) -> Settings:
    """The settings of a server that is built for this."""
    return Settings(settings_in_use(experiment.server(Layout({"probe": (1,)}))))


def _toml(value: Any) -> str:
    """A value as TOML; None, which it cannot say, as the text none."""
    value = plain(value)
    if isinstance(value, dict):
        pairs = (f"{json.dumps(k, ensure_ascii=False)} = {_toml(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)  # also inf and nan
    text = json.dumps("none" if value is None else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
