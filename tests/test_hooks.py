"""Hooks: what they write is what the rounds had, also where a run is resumed.

They are called as `start` calls them; WandB and MLflow where they are installed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, MetricRecord

from fedadavr.flower.hooks import EarlyStopping, Hook, KeepBest, MLflow, TensorBoard, WandB, scalars
from fedadavr.flower.hooks.hook import History, Metrics
from tests.flower_grid import federation, first_model, strategy_on
from tests.test_model_files import read

DOCUMENT = Path(__file__).parent.parent / "docs" / "flower-hooks.md"

nan = math.nan


def model(round: int) -> ArrayRecord:
    """A model that tells its round."""
    arrays: dict[str, Any] = {
        "w": np.full((2, 3), round, np.float32),
        "count": np.array(round, np.int64),
    }
    return ArrayRecord({name: Array(values) for name, values in arrays.items()})


def play(hook: Any, rounds: Mapping[int, Metrics], history: History | None = None) -> int:
    """Call a hook as `start` does; the last round."""
    last = -1
    try:
        if hasattr(hook, "begin"):
            hook.begin(dict(history or {}))
        for round, metrics in rounds.items():
            last = round
            if hook(round, model(round), metrics):
                break
    finally:
        if hasattr(hook, "end"):
            hook.end()
    return last


def course(*values: float, start: int = 1, name: str = "evaluate/accuracy") -> History:
    """Rounds with these values of a metric."""
    return {start + k: {"train/loss": 1.0, name: value} for k, value in enumerate(values)}


def kept(path: Path) -> int:
    """The round whose model is in a file."""
    arrays = read(path)
    (round,) = {*arrays["w"].ravel().tolist(), int(arrays["count"])}
    assert arrays["w"].dtype == np.float32
    assert arrays["count"].shape == ()
    return int(round)


# --- what all share ---


def test_lists_are_single_numbers() -> None:
    """NAME/0, NAME/1; whole numbers are numbers, too."""
    metrics: Metrics = {"train/loss": 0.5, "evaluate/n": 3, "evaluate/recall": [0.25, 1.0], "e": []}
    assert scalars(metrics) == {
        "train/loss": 0.5, "evaluate/n": 3.0, "evaluate/recall/0": 0.25, "evaluate/recall/1": 1.0,
    }  # fmt: skip


def test_the_ready_ones_are_hooks(tmp_path: Path) -> None:
    """For mypy, too."""
    hooks: list[Hook] = [
        TensorBoard(tmp_path), KeepBest(tmp_path / "m.npz", "a"), EarlyStopping("a", 3),
    ]  # fmt: skip
    assert all(callable(hook) for hook in hooks)


def test_hooks_are_imported_without_what_they_log_to() -> None:
    """Neither by name nor by `fedadavr.flower`, which does not import the hooks either."""
    program = (
        "import sys, fedadavr.flower\n"
        "assert 'fedadavr.flower.hooks' not in sys.modules\n"
        "from fedadavr.flower.hooks import EarlyStopping, KeepBest, MLflow, TensorBoard, WandB\n"
        "KeepBest('m.npz', 'a')\n"
        "heavy = {'tensorboard', 'wandb', 'mlflow', 'torch', 'safetensors'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    ("hook", "module", "package"),
    [
        (TensorBoard, "tensorboard", "tensorboard"),
        (WandB, "wandb", "wandb"),
        (MLflow, "mlflow", "mlflow-skinny"),
    ],
)
def test_a_missing_package_is_named(
    hook: Any, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the hook is made, not after a round."""
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    message = f"{hook.__name__} needs {module}, which is not installed: pip install {package}"
    with pytest.raises(ModuleNotFoundError, match=f"^{message}$"):
        hook("x")


def test_a_broken_package_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it lacks is said as Python says it."""
    (tmp_path / "wandb.py").write_text("import not_there\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'not_there'"):
        WandB("x")


# --- TensorBoard ---


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_tensorboard_shows_every_round(tmp_path: Path) -> None:
    """Also the initial model's, lists, and rounds that have nothing to show."""
    rounds: History = {
        0: {"server/accuracy": 0.125},
        1: {"train/loss": 2.0, "evaluate/recall": [0.5, 0.25]},
        2: {},
        3: {"train/loss": 1.5, "evaluate/count": 7, "server/accuracy": 0.75},
    }
    play(TensorBoard(tmp_path / "new" / "log"), rounds)
    assert points(tmp_path / "new" / "log") == {
        "server/accuracy": [(0, 0.125), (3, 0.75)],
        "train/loss": [(1, 2.0), (3, 1.5)],
        "evaluate/recall/0": [(1, 0.5)],
        "evaluate/recall/1": [(1, 0.25)],
        "evaluate/count": [(3, 7.0)],
    }


def test_tensorboard_shows_a_round_at_once(tmp_path: Path) -> None:
    """Not only at the end, which a killed server does not reach."""
    hook = TensorBoard(tmp_path)
    hook.begin({})
    for round in (1, 2):
        hook(round, model(round), {"train/loss": float(round)})
        assert points(tmp_path)["train/loss"][-1] == (round, round)
    hook.end()


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "killed"])
def test_tensorboard_goes_on_without_double_points(ended: bool, tmp_path: Path) -> None:
    """Rounds 4 and 5 had not been committed: they are made again, and those after 3 are gone."""
    first = course(0.0, 0.25, 0.5, 0.125, 0.125)
    first[5]["train/gone"] = 1.0
    before = TensorBoard(tmp_path)
    before.begin({})
    for round, metrics in first.items():
        before(round, model(round), metrics)
    if ended:
        before.end()
    stored = {round: first[round] for round in (1, 2, 3)}
    play(TensorBoard(tmp_path), course(0.75, start=4), stored)
    shown = points(tmp_path)
    assert shown["evaluate/accuracy"] == [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75)]
    assert shown.get("train/gone", []) == []
    before.end()


def test_tensorboard_shows_the_new_run_of_two_in_a_folder(tmp_path: Path) -> None:
    """The same hook may be used twice; nothing of the old run is mixed into the new one's."""
    hook = TensorBoard(tmp_path)
    play(hook, course(0.5, 0.25, 0.25, 0.25, start=0))
    play(hook, course(0.5, 0.75))
    assert points(tmp_path)["evaluate/accuracy"] == [(1, 0.5), (2, 0.75)]


# --- KeepBest ---


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize(
    ("mode", "values", "best"),
    [
        ("max", (0.5, 0.75, 0.75, 0.25), 2),
        ("min", (0.5, 0.75, 0.25, 0.5), 3),
        ("max", (nan, 0.25, nan), 2),
        ("min", (nan, 0.25, nan, 0.125), 4),
    ],
)
def test_the_best_model_is_kept(
    suffix: str, mode: str, values: tuple[float, ...], best: int, tmp_path: Path
) -> None:
    """The first of equals; NaN is never the best; the folder is made."""
    path = tmp_path / "new" / f"best{suffix}"
    play(KeepBest(path, "evaluate/accuracy", mode), course(*values))
    assert kept(path) == best


def test_without_a_value_that_is_a_number_nothing_is_kept(tmp_path: Path) -> None:
    """All NaN."""
    play(KeepBest(tmp_path / "best.npz", "evaluate/accuracy"), course(nan, nan))
    assert not list(tmp_path.iterdir())


def test_the_initial_model_may_be_the_best(tmp_path: Path) -> None:
    """Where `evaluate_fn` has seen it."""
    path = tmp_path / "best.npz"
    play(KeepBest(path, "server/accuracy"), course(0.5, 0.25, start=0, name="server/accuracy"))
    assert kept(path) == 0


def test_a_lists_number_is_kept_by(tmp_path: Path) -> None:
    """As TensorBoard names it."""
    rounds: History = {1: {"evaluate/recall": [0.5, 0.25]}, 2: {"evaluate/recall": [0.25, 0.5]}}
    play(KeepBest(tmp_path / "best.npz", "evaluate/recall/1"), rounds)
    assert kept(tmp_path / "best.npz") == 2


@pytest.mark.parametrize(("value", "best"), [(0.5, 2), (0.75, 2), (1.0, 4)])
def test_a_resumed_run_knows_the_best_before(value: float, best: int, tmp_path: Path) -> None:
    """A worse or an equal model does not take its place, a better one does."""
    path, before = tmp_path / "best.npz", course(0.25, 0.75, 0.5)
    play(KeepBest(path, "evaluate/accuracy"), before)
    play(KeepBest(path, "evaluate/accuracy"), course(value, start=4), before)
    assert kept(path) == best


def test_a_resumed_run_whose_file_is_missing_starts_anew(tmp_path: Path) -> None:
    """Or there would be none, if all that comes is worse."""
    path = tmp_path / "best.npz"
    hook = KeepBest(path, "evaluate/accuracy")
    play(hook, course(0.25, 0.5, start=4), course(0.25, 0.75, 0.5))
    assert kept(path) == 5


@pytest.mark.parametrize("before", [{}, {"evaluate/accuracy": 0.75}], ids=["trained", "evaluated"])
def test_a_best_round_that_is_told_again_is_kept(before: Metrics, tmp_path: Path) -> None:
    """A run killed in its third round is resumed with it: its model may not be in the file yet."""
    path, rounds = tmp_path / "best.npz", course(0.25, 0.5)
    play(KeepBest(path, "evaluate/accuracy"), rounds)
    play(KeepBest(path, "evaluate/accuracy"), course(0.75, 0.5, start=3), {**rounds, 3: before})
    assert kept(path) == 3


def test_a_new_run_forgets_the_best_of_the_last(tmp_path: Path) -> None:
    """One hook, two runs."""
    hook = KeepBest(tmp_path / "best.npz", "evaluate/accuracy")
    play(hook, course(0.25, 0.25, 0.75))
    play(hook, course(0.5))
    assert kept(tmp_path / "best.npz") == 1


def test_one_line_is_logged_for_each_new_best(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the round, the value and the file."""
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    path = tmp_path / "best.npz"
    with caplog.at_level(logging.INFO, "flwr"):
        play(KeepBest(path, "evaluate/accuracy"), course(0.25, 0.75, 0.5))
    assert [record.getMessage() for record in caplog.records] == [
        f"round 1 is the best so far, evaluate/accuracy 0.25: kept in {path}",
        f"round 2 is the best so far, evaluate/accuracy 0.75: kept in {path}",
    ]


# --- EarlyStopping ---


@pytest.mark.parametrize(
    ("options", "values", "last"),
    [
        ({}, (0.5, 0.5, 0.25, 0.75, 0.5, 0.75, 0.5, 1.0), 7),
        ({"mode": "min"}, (0.5, 0.5, 0.25, 0.75, 0.5, 0.75, 0.5), 6),
        ({"min_delta": 0.25}, (0.5, 0.625, 0.75, 0.75, 1.0), 4),
        ({}, (0.5, nan, nan, nan, 1.0), 4),
        ({}, (nan, nan, nan, 1.0), 3),
        ({}, (1.0, 2.0, 3.0, 4.0), 4),
    ],
)
def test_a_run_ends_after_its_patience(
    options: dict[str, Any], values: tuple[float, ...], last: int
) -> None:
    """Three rounds without improvement, NaN among them, by more than `min_delta`."""
    assert play(EarlyStopping("evaluate/accuracy", 3, **options), course(*values)) == last


def test_rounds_without_the_metric_do_not_count() -> None:
    """Where it is not evaluated in each round."""
    rounds = course(0.5, 0.25, 0.25, 0.25, 0.25, 0.25)
    for round in (2, 4):
        del rounds[round]["evaluate/accuracy"]
    assert play(EarlyStopping("evaluate/accuracy", 2), rounds) == 5


@pytest.mark.parametrize("again", [0, 1], ids=["next", "again"])
@pytest.mark.parametrize("cut", range(1, 6))
def test_a_resumed_run_ends_where_it_would_have(cut: int, again: int) -> None:
    """Wherever it was interrupted, and if its last round is told again; with a used hook, too."""
    rounds = course(0.5, 0.75, 0.25, nan, 0.75, 0.5, 0.25)
    used = EarlyStopping("evaluate/accuracy", 4)
    assert play(used, rounds) == 6
    before = {round: metrics for round, metrics in rounds.items() if round <= cut}
    after = {round: metrics for round, metrics in rounds.items() if round > cut - again}
    for hook in (used, EarlyStopping("evaluate/accuracy", 4)):
        assert play(hook, after, before) == 6


def test_a_new_run_does_not_go_on_counting() -> None:
    """One hook, two runs."""
    hook = EarlyStopping("evaluate/accuracy", 2)
    assert play(hook, course(0.5, 0.25, 0.25)) == 3
    assert play(hook, course(nan, 0.25)) == 2


# --- both ---


@pytest.mark.parametrize("which", ["best", "stopping"])
def test_a_metric_that_never_comes_is_named_after_the_first_round(
    which: str, tmp_path: Path
) -> None:
    """With those there are; a list's name is its numbers'. Round 0 is no round."""

    def make(metric: str) -> Any:
        return KeepBest(tmp_path / "m.npz", metric) if which == "best" else EarlyStopping(metric, 2)

    rounds: History = {0: {"server/loss": 1.0}, 1: {"train/loss": 1.0, "evaluate/recall": [1.0]}}
    message = "round 1 has no metric 'evaluate/recall', nor had one before it; there are: "
    with pytest.raises(ValueError, match=message + "evaluate/recall/0, train/loss$"):
        play(make("evaluate/recall"), rounds)
    with pytest.raises(ValueError, match=r"there are: none$"):
        play(make("evaluate/accuracy"), {4: {}}, {3: {"train/loss": 1.0}})
    play(make("server/loss"), rounds)
    play(make("evaluate/accuracy"), {4: {}}, course(0.5, 0.5, 0.5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KeepBest("best.pt", "a"), r"as \.npz or \.safetensors, not as '.*best\.pt'"),
        (lambda: KeepBest("best.npz", "a", "most"), "mode must be 'max' or 'min', got 'most'"),
        (lambda: EarlyStopping("a", 0), "patience must be a whole number from 1 up, got 0"),
        (lambda: EarlyStopping("a", 3, "up"), "mode must be 'max' or 'min', got 'up'"),
        (lambda: EarlyStopping("a", 3, min_delta=-1), "min_delta must be a finite number from 0"),
        (lambda: EarlyStopping("a", 3, min_delta=nan), "min_delta must be a finite number from 0"),
    ],
)
def test_a_wrong_setting_is_said_when_the_hook_is_made(make: Any, message: str) -> None:
    """Before any round."""
    with pytest.raises(ValueError, match=message):
        make()


# --- under a strategy ---


class Killed(BaseException):
    """Whatever ends a process."""


@pytest.mark.parametrize("how", ["ended", "killed while evaluating"])
def test_under_a_strategy_a_resumed_run_goes_on_with_its_hooks(how: str, tmp_path: Path) -> None:
    """One point per round, the best model, and an end as of a run that was never interrupted."""
    values = dict(enumerate([0.125, 0.25, 0.5, 0.75, 0.5, 0.25, 1.0]))
    sums: dict[int, float] = {}

    def measure(round: int, arrays: ArrayRecord) -> MetricRecord:
        if stop_at == round:
            raise Killed
        sums[round] = float(arrays["x"].numpy().sum())
        return MetricRecord({"accuracy": values[round]})

    rounds, stop_at = (3, -1) if how == "ended" else (9, 3)
    for _ in range(2):
        strategy = strategy_on(
            f"lmdb:{tmp_path / 'store'}",
            on_round=[TensorBoard(tmp_path / "log"), EarlyStopping("server/accuracy", 2),
                      KeepBest(tmp_path / "best.npz", "server/accuracy")],
        )  # fmt: skip
        with contextlib.suppress(Killed):
            strategy.start(federation(), first_model(50), rounds, evaluate_fn=measure)
        rounds, stop_at = 9, -1
    shown = points(tmp_path / "log")["server/accuracy"]
    assert shown == [(round, values[round]) for round in range(6)]
    assert [round for round, _ in points(tmp_path / "log")["train/loss"]] == [1, 2, 3, 4, 5]
    assert float(read(tmp_path / "best.npz")["x"].sum()) == sums[3]
    assert len(set(sums.values())) == 6


# --- the document ---


def shown(word: str, folder: Path) -> Any:
    """What a block of the document defines last, its files in a folder of ours."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (code,) = [block for block in blocks if word in block]
    for name in ("log", "best.safetensors"):
        code = code.replace(f'"{name}"', repr(str(folder / name)))
    known: dict[str, Any] = {}
    exec(code, known)
    return list(known.values())[-1]


@pytest.mark.parametrize(
    ("code", "made"), [('"log")\n', "log"), ('"best.safetensors"', "best.safetensors"),
                       ('"evaluate/loss"', None)],
)  # fmt: skip
def test_the_hooks_of_the_document_run(code: str, made: str | None, tmp_path: Path) -> None:
    """As they are shown."""
    play(shown(code, tmp_path), {1: {"evaluate/accuracy": 0.5, "evaluate/loss": 1.0}})
    assert [path.name for path in tmp_path.iterdir()] == ([made] if made else [])


def test_the_strategy_of_the_document_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is shown, but for fewer rounds."""
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text().replace("num_rounds=200", "num_rounds=2")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    exec(code, {"grid": federation(), "arrays": first_model(40)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.npz", "log", "state"]


def test_ones_own_hooks_of_the_document_run(tmp_path: Path) -> None:
    """The function stops, the class writes all rounds."""
    function = shown("def stop_at_90", tmp_path)
    assert play(function, course(0.5, 0.75, 0.9, 1.0, name="server/accuracy")) == 3
    path = tmp_path / "rounds.jsonl"
    play(shown("class Lines", tmp_path)(str(path)), course(0.5, start=2), course(0.25))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["round"], row["evaluate/accuracy"]) for row in rows] == [(1, 0.25), (2, 0.5)]


# --- WandB ---


class Broken(Exception):
    """Of the user's own."""


def failing(hook: Any, how: str) -> None:
    """A run of one round; with "fails", its second raises, with "retried", another one had."""
    if how == "fails":

        def rounds() -> Iterator[tuple[int, Metrics]]:
            yield 1, {"train/loss": 1.0}
            raise Broken

        class Failing(dict[int, Metrics]):
            def items(self) -> Any:
                return rounds()

        with pytest.raises(Broken):
            play(hook, Failing())
        return
    try:
        raise Broken
    except Broken:
        play(hook, {1: {"train/loss": 1.0}})


def wandb_records(path: Path) -> Iterator[Any]:
    """What wandb wrote into a file: LevelDB's log format, after seven bytes."""
    proto = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    data, at, record = path.read_bytes(), 7, b""
    while at < len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield proto.Record.FromString(record)
            record = b""


def wandb_runs(folder: Path) -> list[tuple[str, dict[int, dict[str, float]], int]]:
    """The runs in a folder, in order: id, the metrics by step, and how it ended."""
    runs = []
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda p: p.stat().st_mtime):
        id, steps, ended = "", {}, -1
        for record in wandb_records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                id = record.run.run_id
            elif kind == "history":
                row = {item.nested_key[0]: float(item.value_json) for item in record.history.item}
                metrics = {name: value for name, value in row.items() if name[0] != "_"}
                steps[int(row["_step"])] = metrics
            elif kind == "exit":
                ended = record.exit.exit_code
        runs.append((id, steps, ended))
    return runs


def test_wandb_keeps_every_round_offline(tmp_path: Path) -> None:
    """In files of its own; a resumed run with an id goes on with it."""
    pytest.importorskip("wandb", reason="wandb is not installed")
    rounds: History = {
        0: {"server/accuracy": 0.125}, 1: {"train/loss": 2.0, "evaluate/recall": [0.5, 0.25]},
    }  # fmt: skip
    for start, history in ((rounds, {}), (course(0.75, start=2), rounds)):
        play(WandB("tests", dir=str(tmp_path), id="mine"), start, history)
    assert wandb_runs(tmp_path) == [
        ("mine", {0: {"server/accuracy": 0.125},
                  1: {"train/loss": 2.0, "evaluate/recall/0": 0.5, "evaluate/recall/1": 0.25}}, 0),
        ("mine", {2: {"train/loss": 1.0, "evaluate/accuracy": 0.75}}, 0),
    ]  # fmt: skip


def test_wandb_has_a_round_at_once(tmp_path: Path) -> None:
    """Not only when the next is logged, which a killed server does not reach."""
    pytest.importorskip("wandb", reason="wandb is not installed")
    hook = WandB("tests", dir=str(tmp_path))
    hook.begin({})
    hook(1, model(1), {"train/loss": 2.0})
    assert hook.run.summary["train/loss"] == 2.0
    hook.end()


@pytest.mark.parametrize(("how", "code"), [("fails", 1), ("retried", 0)])
def test_wandb_knows_how_a_run_ended(how: str, code: int, tmp_path: Path) -> None:
    """An exception of the run's own makes it a failed one; and a run of the user's stays open."""
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    mine = wandb.init(project="mine", mode="offline", dir=str(tmp_path / "mine"))
    failing(WandB("tests", dir=str(tmp_path)), how)
    mine.log({"still": 1.0})
    mine.finish()
    ((_, steps, ended),) = wandb_runs(tmp_path)
    assert (steps, ended) == ({1: {"train/loss": 1.0}}, code)


# --- MLflow ---


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data base of MLflow's."""
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


def logged(uri: str, run_id: str | None, name: str) -> list[tuple[int, float]]:
    """What MLflow has of a metric."""
    mlflow = pytest.importorskip("mlflow")
    history = mlflow.MlflowClient(uri).get_metric_history(run_id, name)
    return sorted((metric.step, metric.value) for metric in history)


def test_mlflow_has_every_round(tracking: str) -> None:
    """A resumed run goes on with the run, no round twice; names that MLflow refuses are changed."""
    hook = MLflow("tests", uri=tracking, run_name="first", tags={"who": "me"})
    play(hook, {0: {"train/loss": 2.0}, 1: {"train/loss": 1.5, "evaluate/top@5//x": [0.5, 0.25]}})
    again = MLflow("tests", uri=tracking, run_id=hook.run_id)
    play(again, {1: {"train/loss": 1.25, "train/new": 3.0}, 2: {"train/loss": 1.0}})
    assert logged(tracking, hook.run_id, "train/loss") == [(0, 2.0), (1, 1.5), (2, 1.0)]
    assert logged(tracking, hook.run_id, "evaluate/top_5/x/1") == [(1, 0.25)]
    assert logged(tracking, hook.run_id, "train/new") == [(1, 3.0)]
    client = pytest.importorskip("mlflow").MlflowClient(tracking)
    run = client.get_run(hook.run_id)
    assert (run.info.run_name, run.data.tags["who"], run.info.status) == ("first", "me", "FINISHED")
    assert client.get_experiment(run.info.experiment_id).name == "tests"


@pytest.mark.parametrize(("how", "status"), [("fails", "FAILED"), ("retried", "FINISHED")])
def test_mlflow_knows_how_a_run_ended(how: str, status: str, tracking: str) -> None:
    """An exception of the run's own makes it a failed one; a new start is a new run."""
    hook = MLflow("tests", uri=tracking)
    failing(hook, how)
    client = pytest.importorskip("mlflow").MlflowClient(tracking)
    assert client.get_run(hook.run_id).info.status == status
    first = hook.run_id
    play(hook, {1: {"train/loss": nan}})
    assert hook.run_id != first
    assert math.isnan(logged(tracking, hook.run_id, "train/loss")[0][1])
