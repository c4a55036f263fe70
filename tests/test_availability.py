"""Who is there and whose replies come: the same bits always, rates as promised, clear refusals."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import algorithm
from fedadavr.algorithms.registry import ALGORITHMS
from fedadavr.availability import (
    AVAILABILITIES,
    DROPOUTS,
    Clients,
    find_availability,
    find_dropout,
    spec_of,
)
from fedadavr.availability.markov import Markov
from fedadavr.availability.picture import COLORS, told
from fedadavr.availability.picture import raster as raster_of
from fedadavr.cli.data import show
from fedadavr.clients import LocalSGD, layout_of
from fedadavr.data import federate, load
from fedadavr.data.registry import DATASETS
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.grid import grid
from fedadavr.experiments.records import command, from_rows, given, run_id
from fedadavr.experiments.run import RunOptions, run
from fedadavr.memory import ClientMemory
from fedadavr.memory.verify import check
from fedadavr.models import build
from fedadavr.models.registry import MODELS
from fedadavr.plugins import load_file
from fedadavr.report import html
from fedadavr.report.elements import Picture, Text
from fedadavr.report.output import write
from fedadavr.report.standard import standard_page
from fedadavr.simulation import Engine
from fedadavr.simulation.participation import Participation
from tests.rounds import opened
from tests.test_runs import outcome, small

DOCUMENT = Path(__file__).parent.parent / "docs" / "availability.md"
TRACE = "client,from,to\n0,1,4\n3,2,\n5,1,2\n5,4,9\n17,3,3\n6,8,10\n"
"""In rounds 1 to 12 there are 2, 3, 3, 3, 2, 2, 2, 3, 3, 2, 1 and 1 clients."""


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    path.write_text(TRACE)
    return path


CASES = [
    ("independent:p=0.05", "none"),  # with rounds in which nobody is there
    ("independent:p=0.3,each=label", "none"),
    ("markov:on=0.1,off=0.3", "0.3"),
    ("day-night:p=0.3,period=6", "none"),
    ("trace:file=TRACE", "none"),
    ("churn:joining=0.5,leaving=0.5,rounds=10,p=0.7", "none"),
    ("uniform", "deadline:seconds=4,tail=pareto,jitter=0.3"),
]


@pytest.mark.parametrize(("who", "lost"), CASES)
def test_a_run_in_two_parts_is_the_same_run(
    who: str, lost: str, trace: Path, mine: str, tmp_path: Path
) -> None:
    """Stopped after round 5 and continued; a round's line tells who was there, asked, answered."""
    whole = small(mine, availability=who.replace("TRACE", str(trace)), dropout=lost,
                  evaluate_every=3, average_last=2)  # fmt: skip
    run(whole, RunOptions(), tmp_path / "whole")

    def stop(row: dict[str, Any]) -> None:
        if row["round"] == 5:
            signal.raise_signal(signal.SIGINT)

    run(whole, RunOptions(checkpoint_every=2), tmp_path / "parts", on_row=stop)
    experiment = RunFolder(tmp_path / "parts").experiment()
    run(experiment, RunOptions(), tmp_path / "parts", resume=True)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    rows = RunFolder(tmp_path / "whole").rows()
    assert len(rows) == 12
    assert all(r["answered"] <= r["asked"] == min(4, r["there"]) for r in rows)
    if "0.05" in who:
        assert [r["train_loss"] is None for r in rows] == [r["there"] == 0 for r in rows]
        assert any(r["there"] == 0 for r in rows)
    if "TRACE" in who:
        assert [r["there"] for r in rows] == [2, 3, 3, 3, 2, 2, 2, 3, 3, 2, 1, 1]
    if lost != "none":
        assert sum(r["answered"] for r in rows) < sum(r["asked"] for r in rows)


def test_any_number_of_workers_gives_the_same_bits(trace: Path, mine: str) -> None:
    """Four rounds of each, one after the other, in this process and in two others."""
    load_file(mine)
    federation = federate(load("blobs"), "lq-1", 20, seed=0)
    models = []
    for workers in (1, 2):
        module = build("mlp", 4, 0)
        sizes = {str(k): len(part) for k, part in enumerate(federation.train_parts)}
        server = algorithm("fedadavr", layout_of(module), client_lr=0.05, population=sizes)
        with Engine(server, module, federation, LocalSGD(0.05, 0.9, 1, 20), seed=1,
                    clients_per_round=5, workers=workers) as engine:  # fmt: skip
            found = []
            for who, lost in CASES:
                engine.participation = Participation(
                    find_availability(who.replace("TRACE", str(trace))),
                    find_dropout(lost),
                    engine.participation.clients,
                )
                found += [(r.clients, r.there, r.asked, r.loss, engine.w.tobytes())
                          for r in engine.rounds(4)]  # fmt: skip
            models.append(found)
    assert models[0] == models[1]
    assert len({bits for *_, bits in models[0]}) > 20


def test_uniform_cohorts_are_those_that_they_always_were(mine: str) -> None:
    """Drawn from all clients, by seed and round; the numbers are of a version before this."""
    load_file(mine)
    federation = federate(load("blobs"), "lq-1", 20, seed=0)
    module = build("mlp", 4, 0)
    server = algorithm("fedadavr", layout_of(module))
    with Engine(server, module, federation, LocalSGD(0.05, 0.9, 1, 20), seed=42,
                clients_per_round=5) as engine:  # fmt: skip
        asked = [engine.participation.attendance(engine.server, r, engine.clients_per_round).asked
                 for r in (1, 2, 300)]  # fmt: skip
    assert asked == [[3, 11, 9, 10, 18], [0, 8, 17, 2, 10], [12, 16, 2, 10, 1]]


# --- rates ---


def clients(number: int = 2000, seed: int = 3, **more: Any) -> Clients:
    return Clients(number, seed, **more)


def raster(who: str, rounds: int, all_of_them: Clients) -> Any:
    """Rounds by clients."""
    availability = find_availability(who)
    return np.array([availability.there(t, all_of_them) for t in range(1, rounds + 1)])


def test_independent_rates_are_those_of_the_settings() -> None:
    """A fixed probability; Beta's mean and spread; by label, the mean and the least."""
    same = raster("independent:p=0.3", 200, clients())
    assert same.mean() == pytest.approx(0.3, abs=0.004)
    assert same.mean(axis=0).std() == pytest.approx(np.sqrt(0.3 * 0.7 / 200), rel=0.1)
    # each round is drawn anew: being there says nothing of the next round
    assert (same[1:] & same[:-1]).mean() == pytest.approx(0.09, abs=0.004)
    beta = find_availability("independent:p=0.3,each=beta,concentration=2,least=0")
    p = beta.probabilities(clients())  # type: ignore[attr-defined]
    assert p.mean() == pytest.approx(0.3, abs=0.02)
    assert p.var() == pytest.approx(0.3 * 0.7 / (4 + 1), rel=0.1)
    rates = raster(spec_of(beta), 400, clients()).mean(axis=0)
    assert np.abs(rates - p).max() < 5 * np.sqrt(0.25 / 400)


def test_who_is_there_can_depend_on_the_data() -> None:
    """Clients of one class come equally often, the mean is p, and nobody is below the least."""
    labels = np.arange(600) % 10
    counts = np.zeros((10, 600), np.int64)
    counts[labels, np.arange(600)] = 50
    everyone = clients(600, count=lambda: counts)
    who = find_availability("independent:p=0.1,each=label,concentration=0.3,least=0.02")
    p = who.probabilities(everyone)  # type: ignore[attr-defined]
    assert p.mean() == pytest.approx(0.1, abs=1e-9)
    assert p.min() == 0.02
    assert p.max() > 0.2
    assert all(np.ptp(p[labels == c]) < 1e-12 for c in range(10))
    with pytest.raises(ValueError, match="depends on the clients' data, which is not at hand"):
        who.there(1, clients(600))
    night = find_availability("day-night:p=0.5,zones=10,zone=label,period=10")
    there = np.array([night.there(t, everyone) for t in range(1, 41)])
    by_class = np.array([there[:, labels == c].mean(axis=1) for c in range(10)])
    assert (by_class[0] - by_class[5]).max() > 0.7  # it is day here and night there


@pytest.mark.parametrize(("on", "off"), [(0.05, 0.2), (0.3, 0.3), (0.9, 0.8), (1.0, 0.5)])
def test_markov_rates_are_those_of_the_chain(on: float, off: float) -> None:
    """From the first round on: the share, and how often clients come and go."""
    there = raster(f"markov:on={on},off={off}", 150, clients())
    share = on / (on + off)
    assert there[0].mean() == pytest.approx(share, abs=0.04)
    assert there.mean() == pytest.approx(share, abs=0.01)
    was, comes = there[:-1], there[1:]
    assert comes[~was].mean() == pytest.approx(on, abs=0.01)
    assert (~comes[was]).mean() == pytest.approx(off, abs=0.01)


@pytest.mark.parametrize(("on", "off"), [(0.02, 0.03), (0.9, 0.8), (1.0, 1.0), (0.0, 0.5)])
def test_a_round_of_a_chain_is_found_without_those_before_it(on: float, off: float) -> None:
    """Looking back from any round gives the bits of going through all rounds in order."""
    who, forward = Markov(on=on, off=off), raster(f"markov:on={on},off={off}", 60, clients(300))
    for t in (60, 7, 1, 33):
        np.testing.assert_array_equal(who.there(t, clients(300)), forward[t - 1])


def test_day_and_night_take_turns() -> None:
    """The mean is p; with one zone all nights are one, with many they are spread."""
    one = raster("day-night:p=0.4,swing=0.9,period=20,zones=1", 200, clients())
    assert one.mean() == pytest.approx(0.4, abs=0.005)
    day = one.mean(axis=1).reshape(10, 20).mean(axis=0)
    expected = 0.4 * (1 + 0.9 * np.sin(2 * np.pi * np.arange(1, 21) / 20))
    np.testing.assert_allclose(day, expected, atol=0.02)
    many = raster("day-night:p=0.4,period=20", 40, clients()).mean(axis=1)
    assert np.abs(many - 0.4).max() < 0.06


def test_churn_joins_and_leaves_for_good() -> None:
    """The shares that are promised; each client's rounds are one stretch."""
    there = raster("churn:joining=0.4,leaving=0.25,rounds=50", 60, clients())
    assert 1 - there[0].mean() == pytest.approx(0.4, abs=0.03)
    assert 1 - there[-1].mean() == pytest.approx(0.25, abs=0.03)
    turns = np.abs(np.diff(there.astype(int), axis=0)).sum(axis=0)
    assert there.any(axis=0).all()
    assert turns.max() == 2
    assert not np.diff(there[50:], axis=0).any()
    away = raster("churn:joining=0,leaving=0,p=0.3", 60, clients())
    assert away.mean() == pytest.approx(0.3, abs=0.01)


def test_deadlines_are_met_by_the_fast() -> None:
    """At the median duration one half makes it, always the same; tails are as heavy as promised."""
    everyone = clients(4000, examples=[100] * 4000, epochs=2)
    half = find_dropout("deadline:seconds=20,median=10,spread=1.5")
    first = half.answers(1, everyone)
    assert first.mean() == pytest.approx(0.5, abs=0.03)
    np.testing.assert_array_equal(first, half.answers(2, everyone))
    shaken = find_dropout("deadline:seconds=20,median=10,spread=1.5,jitter=0.5")
    assert (shaken.answers(1, everyone) != shaken.answers(2, everyone)).any()
    pareto = find_dropout("deadline:seconds=20,median=10,tail=pareto,spread=0.5")
    for times in (1, 2, 4):  # P(duration > t) = (t_min / t)^(1 / spread), t_min = 20 / 2^spread
        late = (pareto.durations(1, everyone) > 20 * times).mean()
        assert late == pytest.approx(0.5 / times**2, abs=0.03)
    assert find_dropout(0.2).answers(1, everyone).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("who", ["independent", "markov", "day-night", "churn"])
def test_a_client_is_drawn_alike_however_many_others_there_are(who: str) -> None:
    """The first fifty of a hundred are those of fifty."""
    few, many = raster(who, 20, clients(50)), raster(who, 20, clients(100))
    np.testing.assert_array_equal(few, many[:, :50])
    assert (raster(who, 20, clients(100, seed=4)) != many).any()


# --- as they are told ---


def test_settings_are_told_in_full_and_read_again(trace: Path) -> None:
    """Every name, also by keywords; a number is a probability of a dropout."""
    for name in AVAILABILITIES:
        spec = f"trace:file={trace}" if name == "trace" else name
        told = spec_of(find_availability(spec))
        assert spec_of(find_availability(told)) == told
    for name in DROPOUTS:
        spec = "deadline:seconds=9" if name == "deadline" else name
        told = spec_of(find_dropout(spec))
        assert spec_of(find_dropout(told)) == told
    assert spec_of(Markov(on=0.2)) == "markov:on=0.2,off=0.2"
    assert spec_of(find_dropout(0.25)) == spec_of(find_dropout("0.25")) == "random:p=0.25"
    with pytest.raises(ValueError, match="markov: on must be a number, got 'often'"):
        Markov(on="often")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"availability": "marko"}, "unknown availability 'marko' (did you mean 'markov'?)"),
        ({"availability": "markov:of=1"}, "unknown setting of markov 'of' (did you mean 'off'?)"),
        ({"availability": "markov:on=2"}, "on must lie in [0, 1], got 2"),
        ({"availability": "markov:on=0,off=0"}, "nobody would ever come or go"),
        ({"availability": "markov:on=x"}, "on must be a number, got 'x'"),
        ({"availability": "markov:on"}, "give 'on' a value, as on=..."),
        ({"availability": "markov:on=1,on=0"}, "on is there twice"),
        ({"availability": "uniform:p=1"}, "uniform has no settings, got 'p'"),
        ({"availability": "independent:each=beta,p=0"}, "p must lie in [least, 1)"),
        ({"availability": "independent:each=size"}, "each must be 'same', 'beta' or 'label'"),
        ({"availability": "day-night:p=0.6"}, "p (1 + swing) must be at most 1"),
        ({"availability": "day-night:period=1"}, "period must be a finite number above 1"),
        ({"availability": "churn:rounds=1"}, "rounds must lie between 2 and 10^9, got 1"),
        ({"availability": "day-night:zones=0"}, "zones must lie between 1 and 10^6, got 0"),
        ({"availability": "trace"}, "trace needs a value of file, as trace:file=..."),
        ({"availability": "trace:file=nowhere.csv"}, "nowhere.csv cannot be read: No such file"),
        ({"dropout": 1.5}, "dropout random:p=1.5: p must lie in [0, 1], got 1.5"),
        ({"dropout": "nan"}, "p must lie in [0, 1], got nan"),
        ({"dropout": "late"}, "unknown dropout 'late'"),
        ({"dropout": "deadline"}, "deadline needs a value of seconds"),
        ({"dropout": "deadline:seconds=0"}, "seconds must be a finite number above 0, got 0"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(settings: Any, said: str) -> None:
    """Before any work; it says what is wrong and what there is."""
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        Experiment.of(**settings).resolved()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: it must be client,from,to, got ''"),
        ("client,start,end\n0,1,2\n", "line 1: it must be client,from,to, got 'client,start,end'"),
        ("client,from,to\n", "has no line below its header"),
        ("client,from,to\n0,1,2\n1,2\n", "line 3: it must have 3 values, got 2"),
        ("client,from,to\na,1,2\n", "line 2: client must be a whole number from 0 up, got 'a'"),
        ("client,from,to\n0,0,2\n", "line 2: from must be a whole number from 1 up, got '0'"),
        ("client,from,to\n0,1,1e3\n", "line 2: to must be a whole number from 1 up, got '1e3'"),
        ("client,from,to\n0,\u0663,9\n", "line 2: from must be a whole number"),
        (f"client,from,to\n0,1,{10**30}\n", "line 2: to must be a whole number"),
        ("client,from,to\n\n0,5,4\n", "line 3: it ends in round 4 before it begins in round 5"),
        ("client,from,to\n0,1,2\n20,1,2\n", "line 3: there is no client 20, they are numbered "
         "from 0 to 19"),
        (b"client,from,to\n\xff,1,2\n", "is no CSV"),
    ],
)  # fmt: skip
def test_a_wrong_trace_is_refused_with_its_file_and_line(
    text: str | bytes, said: str, tmp_path: Path
) -> None:
    """Before any work."""
    path = tmp_path / "who.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        Experiment.of(clients=20, availability=f"trace:file={path}").resolved()
    assert "who.csv" in str(error.value)


def test_a_trace_can_begin_again(trace: Path) -> None:
    """Every five rounds; an empty end is none."""
    who = find_availability(f"trace:file={trace},period=5")
    found = [who.available(t, clients(20)) for t in range(1, 8)]
    assert found == [[0, 5], [0, 3, 5], [0, 3, 17], [0, 3, 5], [3, 5], [0, 5], [0, 3, 5]]


def test_uniform_runs_have_the_records_and_names_that_they_had() -> None:
    """Nothing of it is told where everybody is there and answers."""
    plain = Experiment.of(dataset="mnist-5k", server_lr=0.01, averaging=False).resolved()
    assert (plain.availability, plain.dropout) == ("uniform", "none")
    assert not {"availability", "dropout"} & given(plain).keys()
    assert run_id(plain) == "89f532dfbb61"
    other = Experiment.of(availability="markov", dropout=0.1).resolved()
    assert run_id(other) != run_id(plain)
    assert command(other) == (
        "fedadavr run --dataset mnist-5k --availability markov:on=0.05,off=0.2 "
        "--dropout random:p=0.1"
    )
    assert Experiment.from_toml(other.to_toml()) == other
    assert Experiment.read(json.loads(json.dumps(given(other)))).resolved() == other


def test_a_record_names_a_trace_by_its_contents(trace: Path, tmp_path: Path) -> None:
    """The same run wherever the file is, another if it says something else."""
    elsewhere = tmp_path / "trace.csv"
    elsewhere.write_text(TRACE)
    here, there = (
        Experiment.of(clients=20, availability=f"trace:file={path}").resolved()
        for path in (trace, elsewhere)
    )
    assert run_id(here) == run_id(there)
    rows = [{"round": 1, "elapsed": 1.0, "there": 3, "asked": 2, "answered": 1}]
    record = from_rows(here, rows)
    assert str(trace.parent) not in record.to_json()
    assert record.command().endswith("--availability trace:file=trace.csv,period=none")
    assert (record.there, record.asked, record.answered) == (3, 2, 1)
    assert record.id == run_id(here)
    elsewhere.write_text(TRACE + "1,1,1\n")
    assert run_id(here) != run_id(there)


def test_a_grid_has_availabilities_with_settings() -> None:
    """A comma inside of a value's settings does not end it."""
    axes = ("availability=uniform,markov:on=0.2,off=0.1,independent:p=0.1", "dropout=none,0.2")
    found = grid(Experiment.of(), axes)
    assert [(e.availability.partition(":")[0], e.dropout) for e in found] == [
        (name, lost) for name in ("uniform", "markov", "independent")
        for lost in ("none", "random:p=0.2")
    ]  # fmt: skip
    assert found[2].availability == "markov:on=0.2,off=0.1"


def test_an_availability_of_ones_own_is_one_file(mine: str, tmp_path: Path) -> None:
    """The one of docs/availability.md: --load brings it, the run's config has its settings."""
    (shown,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    path = tmp_path / "turns.py"
    others = Path(mine).read_text()
    for name in ("half-varp-2", "blobs", "mlp"):
        others = others.replace(f'"{name}"', f'"{name}-3"')
    path.write_text(others + shown)
    with (AVAILABILITIES.unchanged(), ALGORITHMS.unchanged(), DATASETS.unchanged(),
          MODELS.unchanged()):  # fmt: skip
        experiment = small(str(path), dataset="blobs-3", model="mlp-3", rounds=3,
                           availability="in-turn:groups=4")  # fmt: skip
        run(experiment, RunOptions(), tmp_path / "run")
        assert RunFolder(tmp_path / "run").experiment().availability == "in-turn:groups=4"
    for row in RunFolder(tmp_path / "run").rows():
        assert row["there"] == 5
        assert {client % 4 for client in row["clients"]} == {row["round"] % 4}


# --- the population ---


@pytest.mark.parametrize("name", ["fedadavr", "fedadavr-plus", "scaffold", "mifa", "fedvarp"])
def test_a_memory_counts_those_that_joined_and_did_not_leave(
    name: str, mine: str, tmp_path: Path
) -> None:
    """Nothing is kept of those that left, and the total is that of the others."""
    who = find_availability("churn:joining=0.5,leaving=0.6,rounds=9")
    experiment = small(mine, algorithm=name, rounds=9, availability=spec_of(who))
    run(experiment, RunOptions(), tmp_path / "run")
    members = who.members(10, Clients(20, 7))
    assert members is not None
    gone = {str(c) for c in np.flatnonzero(~members)}
    with opened(RunFolder(tmp_path / "run").checkpoint(), read_only=True) as store:
        assert not gone & {client for client, _ in store.items()}
        assert check(store)[0] == []
        memory, _ = ClientMemory.stored(store)
        assert memory is not None
        assert memory.count == members.sum() < 20


def test_clusters_are_not_clients_that_leave(mine: str, tmp_path: Path) -> None:
    """A memory of clusters keeps its clusters under churn."""
    experiment = small(mine, algorithm="cluster-fedvarp", rounds=6,
                       availability="churn:joining=0.5,leaving=0.6,rounds=5")  # fmt: skip
    assert run(experiment, RunOptions(), tmp_path / "run").finished


# --- pictures ---


def test_a_raster_says_who_was_there_and_would_not_answer(trace: Path) -> None:
    """Clients by rounds, as the engine draws them; and the same in words."""
    who, lost = find_availability(f"trace:file={trace}"), find_dropout(0.4)
    found = raster_of(who, lost, clients(20), 12)
    for t in range(1, 13):
        there, answers = who.there(t, clients(20)), lost.answers(t, clients(20))
        np.testing.assert_array_equal(found[:, t - 1], there * (1 + answers))
    assert told(raster_of(who, find_dropout("none"), clients(20), 12)) == (
        "of 20 clients 2.2 are there in a round, in the mean (1 to 3); a client is there in 0 to "
        "92 % of the rounds, median 0 %; 15 never come"
    )


def test_data_show_draws_who_is_there(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second picture beside the first, which says what the numbers say."""
    out = tmp_path / "p.png"
    show("blobs", clients=20, load=mine, out=out, rounds=30,
         availability="independent:each=label", dropout="deadline:seconds=4")  # fmt: skip
    said = capsys.readouterr().out
    assert "30 rounds: of 20 clients" in said
    assert "would not answer" in said
    from PIL import Image

    picture = np.asarray(Image.open(tmp_path / "p-availability.png").convert("RGB"))
    for color in COLORS:
        rgb = [int(color[k : k + 2], 16) for k in (1, 3, 5)]
        assert (picture == rgb).all(axis=2).sum() > 500
    show("blobs", clients=20, load=mine, out=tmp_path / "q.png")
    assert not (tmp_path / "q-availability.png").exists()
    with pytest.raises(ValueError, match="unknown availability 'sometimes'"):
        show("blobs", clients=20, load=mine, out=out, availability="sometimes")


def test_a_report_shows_who_was_there(tmp_path: Path) -> None:
    """A picture for each availability, in HTML and beside Markdown; none where all were there."""
    rows = [{"round": t, "elapsed": 1.0, "there": 9, "asked": 5, "answered": 4, "accuracy": 50.0,
             "loss": 1.0, "client_accuracy": [50.0]} for t in (1, 2)]  # fmt: skip
    made = [
        from_rows(Experiment.of(rounds=9, clients=30, availability=who).resolved(), rows)
        for who in ("uniform", "markov", "churn:rounds=9")
    ]
    page = standard_page(made, "Runs")
    pictures = [section for section in page.sections if isinstance(section, Picture)]
    assert [p.title.partition(", ")[2].partition(":")[0] for p in pictures] == ["churn", "markov"]
    assert "9.0 clients were there, 5.0 were asked and 4.0 answered" in pictures[0].note
    assert html.render(page).count('<img alt="mnist-5k: who was there') == 2
    write(page, tmp_path / "report.md", "md")
    text = (tmp_path / "report.md").read_text()
    drawn = re.findall(r"!\[.*who was there.*\]\((.*)\)", text)
    assert len(drawn) == 2
    assert all((tmp_path / name).stat().st_size > 5000 for name in drawn)
    uniform = standard_page(made[:1], "Runs")
    assert not any("there" in section.title for section in uniform.sections)


def test_a_report_says_why_a_picture_is_missing(trace: Path) -> None:
    """A record of another machine names a trace that is not here."""
    rows = [{"round": 1, "elapsed": 1.0, "there": 2, "asked": 2, "answered": 2}]
    record = from_rows(Experiment.of(availability=f"trace:file={trace}").resolved(), rows)
    found = standard_page([record], "Runs").sections[-1]
    assert isinstance(found, Text)
    assert "2.0 answered" in found.paragraphs[0]
    assert "cannot be drawn here: availability trace:file=trace.csv@" in found.paragraphs[1]
