"""Records: what is kept of a finished run, one line of JSON each, small enough to be committed."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedadavr import __version__
from fedadavr.algorithms.registry import ALGORITHMS, user_settings
from fedadavr.availability import find_availability, spec_of
from fedadavr.data.registry import NATURAL
from fedadavr.defaults import BEFORE, former
from fedadavr.experiments.experiment import Experiment, fields_of_experiment, flag
from fedadavr.experiments.folder import RunFolder
from fedadavr.settings import plain

RECORDS = "records.jsonl"
CONTENTS = "@sha256:"
QUARTERS = 4


@dataclass(frozen=True)
class RunRecord:
    """The settings of a run and what came of it."""

    settings: dict[str, Any]
    """The fields of its Experiment that are set, and beside them every setting of its algorithm;
    of version 0.1 only those that were given."""
    rounds: list[int] = field(default_factory=list)
    """The rounds that were evaluated, in order."""
    accuracy: list[float] = field(default_factory=list)
    """The accuracy in percent at each of them."""
    loss: list[float] = field(default_factory=list)
    """The loss at each of them."""
    final_accuracy: float | None = None
    """The mean over the averaging window."""
    final_loss: float | None = None
    """The same of the loss."""
    worst_decile: float | None = None
    """The mean accuracy of the worst tenth of the evaluated clients, over the same window."""
    by_visits: list[list[float]] | None = None
    """For each quarter of the clients, from those that came least to those that came most: how
    often they came, and their accuracy over the same window; None where others are evaluated."""
    seconds: float = 0.0
    """How long it took, all in all."""
    seconds_training: float = 0.0
    """Of that, the clients' training."""
    seconds_server: float = 0.0
    """Of that, the server's steps."""
    seconds_evaluating: float = 0.0
    """Of that, the evaluations."""
    memory_bytes: int = 0
    """What the server remembered of the clients, in the end."""
    there: float | None = None
    """Clients that were there in a round, in the mean; None where all are, and all answer."""
    asked: float | None = None
    """Of these, clients that were asked."""
    answered: float | None = None
    """Of these, clients whose replies came."""
    rates: list[float | None] | None = None
    """The server's rate in each round, where it is learned; None in one that made no step."""
    failure: str | None = None
    """Why it has no result: a sentence, for a run that diverged."""
    version: str = __version__
    """The version that ran it."""

    @cached_property
    def id(self) -> str:
        """The name of the run: a hash of its settings."""
        return run_id(self.experiment)

    @cached_property
    def experiment(self) -> Experiment:
        """The settings of the run, with the defaults of the version that ran it."""
        return Experiment.read(self.settings, self.version)

    def command(self) -> str:
        """What to type for the same run."""
        partial = any(name not in self.settings for name in self.experiment.settings)
        return command(self.experiment, self.settings if partial else ())

    def rounds_to(self, target: float) -> int | None:
        """The first evaluated round that reaches an accuracy; None if none does."""
        pairs = zip(self.rounds, self.accuracy, strict=True)
        return next((round for round, accuracy in pairs if accuracy >= target), None)

    def to_json(self) -> str:
        """One line."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


def given(experiment: Experiment) -> dict[str, Any]:
    """An experiment's fields that are set and its settings; of a file that it loads, its contents.

    Fast paths are told only where they were off, and who was there only where not all were, as
    older records know nothing of them.
    """
    settings = experiment.flat()
    for name in ("fast", "availability", "dropout"):
        if settings[name] == fields_of_experiment()[name].default:
            del settings[name]
    if experiment.load and CONTENTS not in experiment.load:
        settings["load"] = _with_contents(Path(experiment.load))
    if "availability" in settings and CONTENTS not in experiment.availability:
        with suppress(ValueError):  # it is of a file that is not loaded here, or its own is gone
            who = find_availability(experiment.availability)
            settings["availability"] = spec_of(who, _with_contents)
    return settings


def _with_contents(path: Path) -> str:
    """A file's name, and a hash of what is in it."""
    return f"{path.name}{CONTENTS}{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def run_id(run: Experiment | Mapping[str, Any]) -> str:
    """A hash of settings: runs with the same settings have the same name, wherever they are.

    A setting of the algorithm that is left to its default is the same as that default, spelled out.
    With and without fast paths it is the same run, to rounding. Runs have the names that they had
    in version 0.1, which hashed all settings that there were, also those of other algorithms.
    """
    experiment = run if isinstance(run, Experiment) else Experiment.read(run)
    known = user_settings(experiment.algorithm) if experiment.algorithm in ALGORITHMS else {}
    if not known.keys() <= experiment.settings.keys():
        experiment = experiment.resolved()
    told = {
        name: value
        for name, value in given(experiment).items()
        if value is not None and not (name in BEFORE and value == BEFORE[name])
    }
    told.pop("fast", None)
    canonical = json.dumps(dict.fromkeys(former()["settings"]) | told, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def command(experiment: Experiment, spelled: Collection[str] = ()) -> str:
    """What to type for one run: what the protocol of its data set and the defaults are not.

    Parameters
    ----------
    experiment : Experiment
        The run, complete.
    spelled : Collection[str]
        Settings to type also where they are the defaults.
    """
    usual, known = _usual(experiment), dict(fields_of_experiment())
    if experiment.algorithm in ALGORITHMS:
        known |= user_settings(experiment.algorithm)
    words = ["fedadavr", "run", "--dataset", experiment.dataset]
    for name, value in experiment.flat().items():
        follows = name == "average_last" and experiment.rounds != usual.rounds
        told = follows or value != plain(usual.get(name))
        if name not in fields_of_experiment():
            told = told or name in spelled
        if name == "dataset" or not told:
            continue
        if isinstance(value, bool) and (name not in known or known[name].type is bool):
            words += [flag(name if value else f"no_{name}")]
        else:
            text = repr(value) if isinstance(value, float) else _typed(value)
            words += [flag(name), re.sub(f"{CONTENTS}[0-9a-f]{{12}}", "", text)]
    return shlex.join(words)


def _usual(experiment: Experiment) -> Experiment:
    """What would be run if only the data set were typed, and what the settings depend on."""
    usual = Experiment(dataset=experiment.dataset)
    with suppress(ValueError):  # of a data set of one's own the file may not be here
        usual = usual.resolved()
    if experiment.algorithm not in ALGORITHMS:
        return replace(usual, settings={})
    known = user_settings(experiment.algorithm)
    told: dict[str, Any] = {n: experiment.get(n) for n in ("optimizer", "server_lr") if n in known}
    optimizer = {n: value for n, value in told.items() if n == "optimizer"}
    try:
        own, at_that_rate = (
            Experiment(algorithm=experiment.algorithm, settings=given).resolved().settings
            for given in (optimizer, told)
        )
    except ValueError:  # a setting has no default
        return replace(usual, settings={})
    left = {n: own[n] for n in told} | {n: known[n].default for n in optimizer}
    return replace(usual, settings={**at_that_rate, **left})


def _typed(value: Any) -> str:
    """A value as one types it."""
    if isinstance(value, list):
        return "+".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def varying(records: Sequence[RunRecord]) -> list[str]:
    """The fields and settings that differ between runs, but for the seed.

    A setting is one of its algorithm: it differs if two runs of the same algorithm differ in it.
    """
    told = [(record.experiment.algorithm, given(record.experiment)) for record in records]
    fields = fields_of_experiment()

    def differs(name: str) -> bool:
        values: dict[str, set[str]] = {}
        for algorithm, settings in told:
            if name in fields or name in settings:
                whose = "" if name in fields else algorithm
                values.setdefault(whose, set()).add(str(settings.get(name)))
        return any(len(found) > 1 for found in values.values())

    names = dict.fromkeys(name for _, settings in told for name in settings)
    return [name for name in names if name != "seed" and differs(name)]


def from_rows(
    experiment: Experiment,
    rows: Sequence[dict[str, Any]],
    memory: int = 0,
    settings: dict[str, Any] | None = None,
) -> RunRecord:
    """The record of a run from the lines of its rounds; its settings, if they were taken before."""
    evaluated = [row for row in rows if "loss" in row]
    last = rows[-1]["round"] if rows else 0
    window = [r for r in evaluated if r["round"] > last - (experiment.average_last or 1)]

    def total(key: str) -> float:
        return round(float(sum(row.get(key, 0.0) for row in rows)), 3)

    def mean(values: Iterable[float], digits: int) -> float | None:
        found = list(values)
        return round(float(np.mean(found)), digits) if found else None

    full = (experiment.availability, experiment.dropout) == ("uniform", "none")
    there, asked, answered = (
        None if full else mean((row[key] for row in rows if key in row), 3)
        for key in ("there", "asked", "answered")
    )
    return RunRecord(
        given(experiment) if settings is None else settings,
        [row["round"] for row in evaluated],
        [round(row["accuracy"], 3) for row in evaluated],
        [float(f"{row['loss']:.5g}") for row in evaluated],
        mean((row["accuracy"] for row in window), 4),
        mean((row["loss"] for row in window), 5),
        mean((worst_decile(row["client_accuracy"]) for row in window), 3),
        _by_visits(experiment, rows, window),
        round(rows[-1]["elapsed"], 3) if rows else 0.0,
        total("seconds_training"), total("seconds_server"), total("seconds_evaluating"), memory,
        there, asked, answered, _rates(rows),
    )  # fmt: skip


def _rates(rows: Sequence[dict[str, Any]]) -> list[float | None] | None:
    """The learned rates; None if no round tells one."""
    found = [row.get("server_lr") for row in rows]
    if not any(found):
        return None
    return [None if rate is None else float(f"{rate:.5g}") for rate in found]


def worst_decile(accuracies: Sequence[float]) -> float:
    """The mean of the worst tenth, rounded up to a whole client."""
    number = -(-len(accuracies) // 10)
    return float(np.mean(np.sort(np.asarray(accuracies))[:number])) if number else float("nan")


def _by_visits(
    experiment: Experiment, rows: Sequence[dict[str, Any]], window: Sequence[dict[str, Any]]
) -> list[list[float]] | None:
    """Accuracy by how often a client came, if those that train are those that are evaluated."""
    everyone = list(range(experiment.clients or 0))
    found: dict[int, list[float]] = {}
    for row in window:
        who, accuracies = row.get("evaluated", everyone), row["client_accuracy"]
        if len(who) != len(accuracies):  # others than those that train, or a row of version 0.1
            return None
        for client, accuracy in zip(who, accuracies, strict=True):
            found.setdefault(client, []).append(accuracy)
    if len(found) < QUARTERS or experiment.partition == NATURAL:
        return None
    came = Counter(client for row in rows for client in row["clients"])
    visits = np.array([came[client] for client in sorted(found)])
    accuracy = np.array([np.mean(found[client]) for client in sorted(found)])
    return [
        [round(float(visits[few].mean()), 2), round(float(accuracy[few].mean()), 2)]
        for few in np.array_split(np.argsort(visits, kind="stable"), QUARTERS)
    ]


def read(paths: Sequence[Path]) -> list[RunRecord]:
    """The records in files and folders: of a sweep, a comparison, or a single run.

    A run that is there twice, by its settings, counts once: the one with a result, else the last.
    """
    found: dict[str, RunRecord] = {}
    for path in paths:
        here = list(_records(path))
        for record in here:
            before = found.get(record.id)
            if before is None or before.failure is not None or record.failure is None:
                found[record.id] = record
        if not here:
            raise ValueError(f"{path} holds no finished run: name a run's folder, a comparison's, "
                             f"a sweep's, or a {RECORDS}")  # fmt: skip
    return list(found.values())


def _records(path: Path) -> Iterable[RunRecord]:
    if not path.exists():
        raise ValueError(f"there is no {path}")
    if path.is_file():
        yield from read_lines(path)
        return
    for file in sorted(path.rglob(RECORDS)):
        yield from read_lines(file)
    for file in sorted(path.rglob("metrics.jsonl")):
        if "unfinished" in file.relative_to(path).parts:
            continue
        folder = RunFolder(file.parent)
        experiment, rows = folder.experiment(), folder.rows()
        try:
            done = rows[-1]["round"] if rows else 0
            record = from_rows(experiment, rows)
        except (KeyError, TypeError, IndexError):
            raise ValueError(f"{file} has a line that is not a round's") from None
        if done < (experiment.rounds or 0):
            why = f"it has done {done} of its {experiment.rounds} rounds"
            record = replace(record, failure=why)
        yield record


def read_lines(path: Path) -> list[RunRecord]:
    """The records in a file; a last line that was cut off by a crash is passed over."""
    lines = path.read_text().split("\n")
    records = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            records.append(_checked(json.loads(line)))
        except (json.JSONDecodeError, TypeError, ValueError, KeyError) as error:
            if number == len(lines):  # it has no line break: it was being written
                break
            raise ValueError(
                f"{path}, line {number}, is not a run's record of this version ({error})"
            ) from None
    return records


def _checked(told: Any) -> RunRecord:
    """A record as it was written, if its parts are what they must be."""
    record = RunRecord(**told)
    record.experiment.seed  # noqa: B018, refuses settings that are unknown here
    numbers = [*record.accuracy, *record.loss, *record.rounds, record.seconds]
    numbers += [x for x in (record.final_accuracy, record.final_loss, record.worst_decile) if x]
    if not all(isinstance(x, int | float) for x in numbers) or "seed" not in record.settings:
        raise TypeError("a figure is no number, or the seed is missing")
    if not len(record.rounds) == len(record.accuracy) == len(record.loss):
        raise ValueError("it has not as many figures as rounds")
    return record
