"""The paper's tables as presets: its protocol to the letter, choices kept apart from results."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedadavr.cli import main
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.records import RECORDS, RunRecord, given, read_lines, run_id
from fedadavr.paper import numbers
from fedadavr.paper.best import best_of_each
from fedadavr.paper.claims import claims
from fedadavr.paper.judging import compare
from fedadavr.paper.presets import BASELINES, PRESETS, Preset, TableRow
from fedadavr.paper.protocol import RATES, SEEDS, TUNING_SEED
from fedadavr.paper.report import paper_page
from fedadavr.paper.results import Figure, Results, accuracy, of_paper, seed_of
from fedadavr.report.elements import Curves, Dots, Table


def made_up(preset: Preset, seeds: tuple[int, ...] = SEEDS) -> list[RunRecord]:
    """Records of all runs of a preset, with figures that follow from the settings."""
    records = [
        RunRecord(
            given(e), [e.rounds or 0], [10 + 100 * e.client_lr], [1.0], 10 + 100 * e.client_lr
        )
        for e in preset.choices()
    ]
    for k, e in enumerate(preset.experiments(records, seeds)):
        worth = 50.0 + hash_of(e.algorithm, e.get("optimizer"), e.get("server_lr")) + 0.1 * (k % 3)
        records.append(
            RunRecord(
                given(e), [5, e.rounds or 0], [worth / 2, worth], [2.0, 1.0], worth, 1.0, worth
            )
        )
    return records


def hash_of(*words: object) -> int:
    """A number from 0 to 39 that is the same in every process."""
    return sum(map(ord, " ".join(map(str, words)))) % 40


@pytest.mark.parametrize("dataset", ["mnist", "fmnist", "cifar10", "shakespeare"])
def test_an_optimizer_table_has_every_cell_of_the_paper(dataset: str) -> None:
    """Each cell is one experiment with the paper's protocol, and finds its figure again."""
    experiments = PRESETS[f"{dataset}-optimizers"].experiments([], (42,))
    paper = numbers.accuracy(dataset)
    assert len(experiments) == sum(len(row) for row in paper.values())
    setup = numbers.setup(dataset)
    found = set()
    for e in experiments:
        assert e.partition is not None
        assert (e.rounds, e.average_last) == numbers.rounds(dataset, e.partition)
        assert e.clients == setup.clients
        assert e.clients_per_round == setup.clients_per_round
        assert e.local_epochs == setup.local_epochs
        assert e.batch_size == setup.batch_size
        assert e.momentum == setup.momentum
        assert e.evaluate_clients == setup.evaluate_clients
        assert e.model == setup.model
        assert e.client_lr == 0.01
        assert e.get("server_lr") is not None
        row = numbers.Configuration(e.algorithm, e.get("optimizer"), e.get("server_lr"))
        assert of_paper(e) == paper[row][e.partition]
        found.add((row, e.partition))
    assert len(found) == len(experiments)
    assert of_paper(replace(experiments[0], rounds=3)) is None


def test_the_quantized_rows_store_half_precision() -> None:
    """FedAdaVR-Quant is FP16 unless it is said otherwise; the precisions have all four."""
    for e in PRESETS["mnist-optimizers"].experiments([], (42,)):
        from fedadavr.vector import Layout

        codec = getattr(e.server(Layout({"x": (4,)})), "codec", None)
        assert (codec == "fp16") == (e.algorithm == "fedadavr-quant")
    codecs = [e.get("codec") for e in PRESETS["fmnist-precisions"].experiments([], (42,))]
    assert codecs == ["fp32", "fp16", "int8", "int4"]


def test_rates_are_chosen_on_a_seed_that_is_not_reported() -> None:
    """All three client rates are tried on seed 41; the best is reported, on other seeds."""
    preset = PRESETS["mnist-baselines"]
    choices = preset.choices()
    assert {e.seed for e in choices} == {TUNING_SEED}
    assert {e.client_lr for e in choices if e.algorithm == "fedavg"} == set(RATES)
    assert not [e for e in preset.experiments([], SEEDS) if e.algorithm == "fedavg"]
    reported = preset.experiments(made_up(preset), SEEDS)
    assert {e.seed for e in reported} == set(SEEDS)
    assert {e.client_lr for e in reported if e.algorithm == "fedavg"} == {0.1}  # as made up
    assert {e.algorithm for e in reported} >= {*BASELINES, "fedadavr", "fedadavr-plus"}


def test_a_candidate_that_diverged_is_not_chosen() -> None:
    """It counts as nothing; a candidate that was not run makes no choice."""
    preset = PRESETS["mnist-baselines"]
    records = [
        RunRecord(given(e), final_accuracy=None if e.client_lr == 0.1 else 10 + e.client_lr,
               failure="it diverged" if e.client_lr == 0.1 else None)
        for e in preset.choices()
    ]  # fmt: skip
    cells = preset.cells(records)
    chosen = cells["fedavg"]["lq-1"]
    assert chosen is not None
    assert chosen.client_lr == 0.01
    without = [r for r in records if r.settings["algorithm"] != "fedavg"]
    assert preset.cells(without)["fedavg"]["lq-1"] is None


def test_the_page_has_ours_and_the_papers() -> None:
    """Means, deviations, the paper's figures and the differences stand where they belong."""
    records = made_up(PRESETS["mnist-optimizers"])
    page = paper_page(Results(records))
    (table,) = (s for s in page.sections
                if isinstance(s, Table) and "by optimizer" in s.title)  # fmt: skip
    assert len(table.rows) == 33
    assert table.columns == tuple(numbers.partitions("mnist"))
    row = next(r for r in table.rows if r.labels == ("fedadavr", "yogi", "0.005"))
    cell = row.cells[table.columns.index("lq-1")]
    own = [r.final_accuracy or 0 for r in Results(records).runs(
        next(e for e in PRESETS["mnist-optimizers"].experiments([], (42,))
             if (e.algorithm, e.get("optimizer"), e.get("server_lr"), e.partition)
             == ("fedadavr", "yogi", 0.005, "lq-1")))]  # fmt: skip
    assert cell.count == 3
    assert cell.value == pytest.approx(sum(own) / 3)
    assert cell.paper == 82.808
    assert cell.difference == pytest.approx(sum(own) / 3 - 82.808)


def test_claims_need_all_baselines_and_count_divergence() -> None:
    """Half a comparison proves nothing; a run that diverged is worth nothing."""
    preset = PRESETS["mnist-baselines"]
    records = made_up(preset)
    told = verdicts(Results(records))
    assert any("above all nine baselines" in claim for claim in told)

    def without(**gone: Any) -> Results:
        return Results(
            [r for r in records if any(r.settings[k] != value for k, value in gone.items())]
        )

    for gone in ({"algorithm": "mifa"}, {"algorithm": "mifa", "partition": "lq-2"}):
        assert not verdicts(without(**gone))
    # Without one run of a seed, the verdict is over the other seeds, for everybody.
    fewer = without(algorithm="mifa", partition="lq-2", seed=43)
    assert verdicts(fewer)
    cells = fewer.complete("mnist-baselines")
    assert {tuple(map(seed_of, runs)) for row in cells.values() for runs in row.values()} == {
        (42, 44)
    }
    seeds = frozenset(SEEDS)
    assert compare(Figure(90.0, 1.0, seeds), Figure(88.0, 1.5, seeds)) == 1
    assert compare(Figure(90.0, 3.0, seeds), Figure(88.0, 1.5, seeds)) == 0
    assert compare(Figure(80.0, 1.0, seeds), Figure(88.0, 1.5, seeds)) == -1
    one = frozenset([42])
    assert compare(Figure(89.1, 0.0, one), Figure(88.0, 0.0, one)) == 1
    assert compare(Figure(88.9, 0.0, one), Figure(88.0, 0.0, one)) == 0
    assert str(Figure(78.0, 0.0, frozenset([42]))) == "78.0 (1 seed)"
    lost = replace(records[-1], final_accuracy=None, failure="it diverged")
    found = accuracy([lost, replace(records[-1], final_accuracy=80.0)])
    assert found is not None
    assert found.mean == 40.0


def rated(
    presets: str, worth: Callable[[Experiment], list[float]], seeds: tuple[int, ...] = SEEDS
) -> dict[str, str]:
    """The verdicts on made-up runs: `worth` gives the accuracies of the averaging window."""
    known = [PRESETS[name] for name in presets.split()]
    records = [r for preset in known for r in made_up(preset, ())]
    for e in (e for preset in known for e in preset.experiments(made_up(preset), seeds)):
        values = worth(e)
        rounds = list(range(1, len(values) + 1))
        mean = sum(values) / len(values)
        records.append(RunRecord(given(e), rounds, values, [1.0] * len(values), mean, 1.0, mean))
    return verdicts(Results(records))


def verdicts(results: Results) -> dict[str, str]:
    """What is decided."""
    undecided = ("not run", "not decided")
    found = claims(results).claims
    return {claim.text: claim.holds for claim in found if claim.holds not in undecided}


def test_instability_is_judged_by_the_swing() -> None:
    """Not by accuracy: NoVR as good but restless is unstable; worse but calm is not."""
    unstable = "Fashion-MNIST lq-1: without memory it is unstable"
    worse = "Fashion-MNIST lq-1: without memory it is worse"

    def restless(e: Experiment) -> list[float]:
        return [60.0, 80.0] * 18 if e.algorithm == "fedadavr-novr" else [70.0] * 36

    def calm(e: Experiment) -> list[float]:
        return [40.0] * 36 if e.algorithm == "fedadavr-novr" else [70.0] * 36

    told = rated("fmnist-ablation", restless)
    assert told[unstable] == "holds"
    assert told[worse] == "does not hold"
    told = rated("fmnist-ablation", calm)
    assert told[unstable] == "does not hold"
    assert told[worse] == "holds"


def test_quantization_can_fail() -> None:
    """Thirty points lower everywhere is a verdict, and so is no difference."""
    claim = "MNIST: quantization to fp16 costs nothing"

    def lower(by: float) -> Callable[[Experiment], list[float]]:
        """FedAdaVR-Quant lower in every seed, however far the seeds are apart."""
        return lambda e: [50 + 10 * (e.seed - 42) - by * (e.algorithm == "fedadavr-quant")]

    for by, holds in ((30.0, "does not hold"), (0.9, "does not hold"), (0.1, "holds")):
        assert rated("mnist-optimizers", lower(by))[claim] == holds
        assert rated("mnist-optimizers", lower(by), (42,))[claim] == holds


def test_precisions_are_compared_within_each_seed() -> None:
    """What int4 costs in every seed is not hidden by what is between the seeds."""
    claim = "Fashion-MNIST lq-1: fp16, int8 and int4 are as good as fp32"

    def lower(cost: dict[str, float]) -> Callable[[Experiment], list[float]]:
        return lambda e: [50 + 2.0 * (e.seed - 42) - cost.get(e.get("codec") or "", 0.0)]

    assert rated("fmnist-precisions", lower({}))[claim] == "holds"
    assert rated("fmnist-precisions", lower({"fp16": 0.1, "int4": 0.9}))[claim] == "holds in part"
    costly = {"fp16": 1.0, "int8": 1.0, "int4": 1.0}
    assert rated("fmnist-precisions", lower(costly))[claim] == "does not hold"


def high(**wanted: object) -> Callable[[Experiment], list[float]]:
    """A world where runs with these settings are good at once, and others poor, or late."""

    def worth(e: Experiment) -> list[float]:
        good = all(e.get(name) == value for name, value in wanted.items())
        return [90.0] * 40 if good else [20.0] * 20 + [40.0] * 20

    return worth


@pytest.mark.parametrize(
    ("presets", "claim", "world", "holds"),
    [
        ("fmnist-baselines", "is above all nine baselines", high(algorithm="fedadavr"), "holds"),
        ("fmnist-baselines", "is above all nine baselines", high(algorithm="mifa"),
         "does not hold"),
        ("fmnist-baselines", "is above all nine baselines", high(tau=1e-9), "does not hold"),
        ("fmnist-baselines", "FedOpt at other rates included", high(algorithm="fedadavr"), "holds"),
        ("fmnist-baselines", "FedOpt at other rates included", high(tau=1e-9), "does not hold"),
        ("fmnist-baselines", "fewer rounds to every target", high(algorithm="fedadavr"), "holds"),
        ("fmnist-baselines", "fewer rounds to every target", high(algorithm="fedavg"),
         "does not hold"),
        ("fmnist-baselines", "FedAdaVR+ is above everything", high(algorithm="fedadavr-plus"),
         "holds"),
        ("fmnist-baselines", "FedAdaVR+ is above everything", high(algorithm="fedadavr"),
         "does not hold"),
        ("fmnist-baselines fmnist-optimizers", "with every optimizer", high(algorithm="fedadavr"),
         "holds"),
        ("fmnist-baselines fmnist-optimizers", "with every optimizer",
         high(algorithm="fedadavr", optimizer="lamb"), "holds in part"),
        ("fmnist-baselines fmnist-optimizers", "with every optimizer", high(algorithm="fedavg"),
         "does not hold"),
        ("fmnist-optimizers", "server rates differ marginally", high(server_lr=0.01),
         "does not hold"),
        ("fmnist-optimizers", "server rates differ marginally", high(), "holds"),
        ("mnist-participation", "more clients per round help", high(clients_per_round=25), "holds"),
        ("mnist-participation", "more clients per round help", high(clients_per_round=2),
         "does not hold"),
        ("mnist-participation", "more than one local epoch helps", high(local_epochs=5), "holds"),
        ("mnist-participation", "more than one local epoch helps", high(local_epochs=1),
         "does not hold"),
        ("fmnist-best fmnist-baselines", "at the best settings of seed 42",
         high(algorithm="fedadavr"), "holds"),
        ("fmnist-best fmnist-baselines", "at the best settings of seed 42",
         high(algorithm="fedadavr", seed=42), "does not hold"),
        ("cifar10-iid", "above FedAvg, FedYogi and FedVARP", high(algorithm="fedadavr"), "holds"),
        ("cifar10-iid", "above FedAvg, FedYogi and FedVARP",
         high(algorithm="fedadavr", optimizer="lamb"), "holds in part"),
        ("cifar10-iid", "above FedAvg, FedYogi and FedVARP", high(algorithm="fedyogi"),
         "does not hold"),
        ("cifar10-iid", "FedAdaVR is above FedVARP", high(algorithm="fedadavr"), "holds"),
        ("cifar10-iid", "FedAdaVR is above FedVARP", high(optimizer="yogi"), "holds in part"),
        ("cifar10-iid", "FedAdaVR is above FedVARP", high(algorithm="fedvarp"), "does not hold"),
        ("cifar10-iid", "int4 costs nothing", high(algorithm="fedavg"), "holds"),
        ("cifar10-iid", "int4 costs nothing", high(algorithm="fedadavr"), "does not hold"),
        ("cifar10-iid", "FedAdaVR+ is above everything", high(algorithm="fedadavr-plus"), "holds"),
        ("cifar10-iid", "FedAdaVR+ is above everything", high(algorithm="fedadavr-quant"),
         "does not hold"),
        ("cifar10-cnn", "SCAFFOLD, FedYogi and FedVARP", high(algorithm="fedadavr"), "holds"),
        ("cifar10-cnn", "SCAFFOLD, FedYogi and FedVARP",
         high(algorithm="fedadavr", partition="lq-2"), "holds in part"),
        ("cifar10-cnn", "SCAFFOLD, FedYogi and FedVARP", high(algorithm="fedadavr-plus"),
         "does not hold"),
        ("cifar10-cnn", "int4 costs nothing", high(), "holds"),
        ("cifar10-cnn", "int4 costs nothing", high(algorithm="fedadavr", partition="lq-2"),
         "holds in part"),
        ("cifar10-cnn", "int4 costs nothing", high(algorithm="fedadavr"), "does not hold"),
        ("cifar10-cnn", "FedAdaVR+ is above everything", high(algorithm="fedadavr-plus"), "holds"),
        ("cifar10-cnn", "FedAdaVR+ is above everything", high(algorithm="fedadavr"),
         "does not hold"),
        ("shakespeare-best", "above FedAvg, FedAdagrad and FedVARP", high(algorithm="fedadavr"),
         "holds"),
        ("shakespeare-best", "above FedAvg, FedAdagrad and FedVARP", high(algorithm="fedadagrad"),
         "does not hold"),
        ("shakespeare-best", "FedAdaVR+ is above everything", high(algorithm="fedadavr-plus"),
         "holds"),
        ("shakespeare-best", "FedAdaVR+ is above everything", high(algorithm="fedadavr"),
         "does not hold"),
        ("cifar10-iid cifar10-iid-untyped", "with nothing typed", high(), "holds"),
        ("cifar10-iid cifar10-iid-untyped", "with nothing typed", high(algorithm="fedvarp"),
         "does not hold"),
        ("cifar10-cnn cifar10-cnn-untyped", "with nothing typed",
         high(algorithm="fedavg", averaging=True, partition="lq-2"), "holds in part"),
        ("shakespeare-best shakespeare-best-untyped", "with nothing typed",
         high(server_lr="learned"), "holds"),
    ],
)  # fmt: skip
def test_every_claim_can_hold_and_can_fail(
    presets: str, claim: str, world: Callable[[Experiment], list[float]], holds: str
) -> None:
    """Made-up worlds where it is plain what the verdict must be."""
    (told,) = (text for name, text in rated(presets, world).items() if claim in name)
    assert told == holds


def one_run(e: Experiment, rounds: int, accuracy: float = 50.0) -> RunRecord:
    """A run that was evaluated every tenth round up to one, with a result if that is its last."""
    at = list(range(10, rounds + 1, 10))
    whole = rounds == e.rounds
    values = [accuracy * k / (e.rounds or 1) for k in at]
    return RunRecord(given(e), at, values, [1.0] * len(at), accuracy if whole else None)


def test_a_claim_about_hard_data_waits_for_every_run() -> None:
    """Seven of eight algorithms decide nothing, nor does a seed beside one that is not done."""
    preset = PRESETS["cifar10-iid"]
    cells = preset.experiments([], (42,))
    done = [one_run(e, 200) for e in cells]

    def told(records: list[RunRecord], under_way: Sequence[RunRecord] = ()) -> set[str]:
        found = claims(Results(records, ("cifar10-iid",), under_way)).claims
        assert len(found) == 4
        return {claim.verdict for claim in found}

    assert told([]) == {"not run"}
    assert told(done[:7]) == {"not decided: 7 of 8 runs"}
    waiting = [one_run(e, 40 + 10 * k) for k, e in enumerate(cells[6:])]
    assert told(done[:6], waiting) == {"not decided: 6 of 8 runs, 2 more up to round 40"}
    assert not any(verdict.startswith("not") for verdict in told(done))
    # A run that has been recorded since is not under way, and another seed is waited for.
    assert told(done, waiting) == told(done)
    other = one_run(preset.experiments([], (43,))[0], 30)
    assert told(done, [other]) == {"not decided: 8 of 16 runs, 1 more up to round 30"}


def test_a_default_is_judged_once_both_tables_are_there() -> None:
    """Neither half of the runs decides it, nor tables that no seed is in both of."""
    names = ("shakespeare-best", "shakespeare-best-untyped")
    best, untyped = (PRESETS[name].experiments([], (42,)) for name in names)

    def told(*runs: RunRecord) -> str:
        found = claims(Results(runs, names)).claims
        return next(claim.verdict for claim in found if "nothing typed" in claim.text)

    ours = [one_run(e, 200) for e in untyped]
    theirs = [one_run(e, 200) for e in best]
    assert told(*theirs) == told(*ours) == "not run"
    assert told(*theirs, *ours[:3]) == "not decided: 3 of 4 runs"
    assert told(*theirs[:4], *ours) == "not decided: 4 of 5 runs"
    assert told(*theirs, *ours) == "holds"
    other = [one_run(replace(e, seed=43), 200) for e in untyped]
    assert told(*theirs, *other) == "not decided: the tables have no seed in common"


def test_what_is_not_finished_is_shown_at_the_same_round() -> None:
    """Finished runs are cut, too; the tables and the picture have only what is finished."""
    cells = PRESETS["cifar10-iid"].experiments([], (42,))
    waiting = [one_run(cells[1], 160), one_run(cells[2], 30)]
    page = paper_page(Results([one_run(cells[0], 200)], ("cifar10-iid",), waiting))
    shown = {section.title: section for section in page.sections}
    table = shown["CIFAR-10, iid, not finished: accuracy at that round, %"]
    assert isinstance(table, Table)
    assert table.columns == ("iid, seed 42, round 30",)
    assert [row.cells[0].value for row in table.rows] == [7.5] * 3 + [None] * 5
    curves = shown["CIFAR-10, iid, not finished: curves"]
    assert isinstance(curves, Curves)
    assert {s.records[0].rounds[-1] for s in curves.panels[0].series} == {30}
    assert "No result" in curves.note
    final = shown["CIFAR-10, iid: accuracy, %"]
    assert isinstance(final, Table)
    assert [(row.labels, row.cells[0].value, row.cells[0].best) for row in final.rows] == [
        (("fedavg",), 50.0, False)
    ]
    picture = page.sections[0]
    assert isinstance(picture, Dots)
    assert picture.table.columns == ("fedavg",)
    assert picture.table.rows[0].labels == ("CIFAR-10", "iid, 1 of 8 runs")
    # One that diverged early holds nobody back.
    lost = replace(one_run(cells[3], 10), failure="it diverged")
    page = paper_page(Results([one_run(cells[0], 200), lost], ("cifar10-iid",), waiting))
    assert "iid, seed 42, round 30" in str(page)


def test_the_curves_of_runs_under_way_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`paper status --keep` writes them without their stores, and the report reads them."""
    place = tmp_path / "paper" / "cifar10-iid"
    cells = PRESETS["cifar10-iid"].experiments([], (42,))
    for e, rounds in ((cells[0], 25), (cells[1], 12), (cells[2], 3)):
        folder = RunFolder(place / "unfinished" / run_id(e))
        folder.create(e)
        for k in range(1, rounds + 1):
            evaluated = {"accuracy": 2.0 * k, "loss": 1.0, "client_accuracy": [2.0 * k]}
            folder.write_row({"round": k, "elapsed": 1.0 * k} | (evaluated if k % 5 == 0 else {}))
        folder.close()
        (folder.path / "checkpoint").mkdir()
        (folder.path / "checkpoint" / "data.mdb").write_bytes(bytes(100_000))
    results = str(place.parent)
    main(["paper", "status", "--results", results, "--keep", "--json"])
    told = {"finished": 0, "planned": 8, "under_way": 2, "round": 10}
    assert json.loads(capsys.readouterr().out) == {"cifar10-iid": told}
    kept = place / "unfinished.jsonl"
    assert kept.stat().st_size < 5_000
    shutil.rmtree(place / "unfinished")
    main(["paper", "report", "--results", results, "-o", str(tmp_path / "page.md")])
    page = (tmp_path / "page.md").read_text()
    assert "iid, seed 42, round 10" in page
    assert "| fedavg | 20.0 |" in page
    assert "not decided: 0 of 8 runs, 2 more up to round 10" in page
    # Once a run is recorded its curve is dropped, and with the last of them the file.
    (place / RECORDS).write_text("".join(one_run(e, 200).to_json() + "\n" for e in cells[:2]))
    main(["paper", "status", "--results", results, "--keep"])
    assert "cifar10-iid" in capsys.readouterr().out
    assert not kept.exists()
    with pytest.raises(SystemExit):
        main(["paper", "status", "--results", str(tmp_path / "none")])
    assert "there is no folder" in capsys.readouterr().err


def test_the_picture_has_the_best_and_the_papers() -> None:
    """The best settings on the seeds that all have, with all their seeds; the paper's best."""

    def record(e: Experiment) -> RunRecord:
        # Yogi 0.005 is the best on seed 42, Adam 0.01 on seed 43, which others were not run with.
        worth = {("yogi", 0.005, 42): 80.0, ("yogi", 0.005, 43): 70.0, ("adam", 0.01, 43): 99.0}
        own = worth.get((e.get("optimizer"), e.get("server_lr"), e.seed), 60.0)
        return RunRecord(given(e), [60], [1.0], [1.0], own)

    both = [record(e) for e in PRESETS["mnist-optimizers"].experiments([], (42, 43))]
    named = ("yogi", "adam")
    records = [r for r in both if seed_of(r) == 42 or r.experiment.get("optimizer") in named]
    for name in ("cifar10-iid", "cifar10-cnn"):
        chosen = made_up(PRESETS[name], ())
        records += [*chosen, *(one_run(e, 200) for e in PRESETS[name].experiments(chosen, (42,)))]
    presets = ("mnist-optimizers", "cifar10-iid", "cifar10-cnn")
    dots = best_of_each(Results(records, presets))
    shown = {
        (*row.labels, name): cell
        for row in dots.table.rows
        for name, cell in zip(dots.table.columns, row.cells, strict=True)
    }
    cell = shown["MNIST", "lq-1", "fedadavr"]
    assert cell.value == 75.0
    assert cell.count == 2
    assert cell.deviation == pytest.approx(50**0.5)
    assert cell.paper == numbers.best("mnist", "lq-1", "fedadavr")[1]
    assert shown["CIFAR-10", "iid", "fedadavr"].paper == 72.031
    assert shown["CIFAR-10", "iid", "fedadavr"].deviation is None
    assert shown["CIFAR-10", "iid", "fedadavr-quant"].paper is None  # int4, where it has fp16
    assert shown["CIFAR-10", "lq-2, small CNN", "fedadavr"].value == 50.0
    assert shown["CIFAR-10", "lq-2, small CNN", "fedadavr"].paper is None
    assert [title for title, _ in dots.panels] == ["MNIST", "CIFAR-10"]


def test_the_papers_figure_stands_only_beside_its_own_cells() -> None:
    """Other precisions, cohorts, epochs and rates have no figure in the paper's tables."""
    codecs = PRESETS["fmnist-precisions"].experiments([], (42,))
    half = numbers.accuracy("fmnist")[numbers.Configuration("fedadavr-quant", "adagrad", 0.001)]
    assert [of_paper(e) for e in codecs] == [None, half["lq-1"], None, None]
    cohorts = PRESETS["mnist-participation"].experiments([], (42,))
    told = [e for e in cohorts if of_paper(e) is not None]
    assert {(e.clients_per_round, e.local_epochs) for e in told} == {(5, 1)}
    rates = PRESETS["mnist-optimizers"].experiments([], (42,), (0.001, 0.01, 0.02))
    assert [of_paper(e) is None for e in rates[:3]] == [False, False, True]
    own = next(e for e in rates if e.get("optimizer") == "adam")
    assert of_paper(own) is not None
    others: dict[str, Any] = {"beta1": 0.1, "weighting": "population", "max_norm": 0.001,
                        "prune_after": 2, "evaluate_clients": 3, "evaluate_examples": 10,
                        "momentum": 0.0}  # fmt: skip
    for name, value in others.items():
        assert of_paper(own.updated(**{name: value})) is None, name
    assert own.get("optimizer") == Experiment().resolved().get("optimizer")
    less = {name: value for name, value in own.settings.items() if name != "optimizer"}
    for same in (replace(own, settings=less), own.updated(beta1=0.9), replace(own, seed=7)):
        assert of_paper(same) == of_paper(own)


def test_other_client_rates_have_tables_of_their_own() -> None:
    """What --client-lrs runs is shown, and every row that leaves the rate open has it."""
    preset = PRESETS["fmnist-baselines"]
    rates = preset.experiments([], (42,), (0.001, 0.01, 0.1))
    usual = preset.experiments([], (42,))
    assert len(rates) == 3 * len(usual)
    assert preset.minutes(1, 2, client_lrs=3) == pytest.approx(3 * preset.minutes(1, 2))
    records = [RunRecord(given(e), [10], [50.0], [1.0], 50.0, 1.0, 50.0) for e in rates]
    page = paper_page(Results(records))
    titles = [s.title for s in page.sections]
    for title in ("", ", client rate 0.001", ", client rate 0.1"):
        assert f"Fashion-MNIST, baselines: accuracy, %{title}" in titles
    assert len(Results(records).reported()) == len(records)
    # Without the usual rate there is only the other one's, and its seeds.
    lone = [r for r in records if r.settings["client_lr"] == 0.1]
    page = paper_page(Results(lone), Path("elsewhere"))
    (table,) = (s for s in page.sections if s.title.startswith("Fashion-MNIST, baselines"))
    assert isinstance(table, Table)
    assert table.title.endswith("client rate 0.1")
    typed = "fedadavr paper run fmnist-baselines --seeds 42 --out elsewhere --client-lrs 0.1\n"
    assert table.command.startswith(typed)
    # A rate that another preset chose for the same settings has no table.
    chosen = made_up(PRESETS["mnist-baselines"])
    assert {r.experiment.client_lr for r in chosen} > {0.01}
    titles = [s.title for s in paper_page(Results(chosen)).sections]
    assert not any("client rate 0" in title for title in titles)


def test_a_report_may_begin_with_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Heading and paragraphs come below the claims; without any, nothing is written."""
    place = tmp_path / "results" / "fmnist-ablation"
    place.mkdir(parents=True)
    records = made_up(PRESETS["fmnist-ablation"])
    (place / RECORDS).write_text("".join(record.to_json() + "\n" for record in records))
    text, out = tmp_path / "text.md", tmp_path / "page.md"
    words = ["paper", "report", "--results", str(place.parent), "--out", str(out)]
    words += ["--preface", str(text)]
    with pytest.raises(SystemExit):
        main(words)
    assert "text.md cannot be read as a text" in capsys.readouterr().err
    text.write_text("\n\n")
    with pytest.raises(SystemExit):
        main(words)
    assert "text.md is empty: write a heading" in capsys.readouterr().err
    assert not out.exists()
    text.write_text("# What we saw\n\nMuch,\nand more.\n\nThe end.\n")
    main(words)
    page = out.read_text()
    assert "## What we saw\n\nMuch, and more.\n\nThe end.\n\n## Settings" in page
    assert page.index("## The paper's claims") < page.index("## What we saw")
    assert "--preface" in page
    # Only what is asked for is shown, and what there is nothing of is refused.
    words = ["paper", "report", "--results", str(place.parent), "-o", str(tmp_path / "p.txt")]
    with pytest.raises(SystemExit):
        main([*words, "--format", "md", "--only", "cifar10-optimizers"])
    assert "nothing of it is in" in capsys.readouterr().err
    main([*words, "--format", "md", "--only", "fmnist-ablation"])
    assert "p.txt --format md --only fmnist-ablation" in (tmp_path / "p.txt").read_text()
    assert not claims(Results(records, ("fmnist-precisions",))).claims


def test_a_beginning_is_labelled_as_one() -> None:
    """Nothing by the paper, nobody the best, and what it was evaluated on."""
    records = made_up(PRESETS["cifar10-beginning"], (42,))
    sections = paper_page(Results(records)).sections
    mine = [s for s in sections if s.title.startswith("CIFAR-10, beginning")]
    assert len(mine) == 2
    assert all("A beginning, no result." in str(s) and "By the paper" not in str(s) for s in mine)
    (table,) = (s for s in mine if isinstance(s, Table))
    assert not any(cell.best for row in table.rows for cell in row.cells)
    (settings,) = (s for s in sections if isinstance(s, Table) and s.title == "Settings")
    assert "2,000 examples" in {cell.text for row in settings.rows for cell in row.cells}


def test_slow_is_judged_by_rounds() -> None:
    """As good in the end, but later, is slow."""
    where = "Fashion-MNIST lq-1, server rate"

    def late(e: Experiment) -> list[float]:
        slow = e.algorithm == "fedadavr-noopt" and e.get("server_lr") == 0.01
        return [70.0 if k >= (30 if slow else 3) else 10.0 for k in range(40)]

    told = rated("fmnist-ablation", late)
    assert told[f"{where} 0.01: without optimizer slow"] == "holds"
    assert told[f"{where} 1: without optimizer slow"] == "does not hold"


def test_a_run_in_two_files_counts_once() -> None:
    """Two presets may have recorded the same run at the same time."""
    records = made_up(PRESETS["mnist-optimizers"])
    twice = Results([*records, *records[:50]]).cells("mnist-optimizers")
    assert {len(runs) for row in twice.values() for runs in row.values()} == {3}


def test_paper_run_from_the_command_line(
    full_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Choices, then results; a second call does nothing; the report reads what is there."""

    def rows(_: str) -> list[TableRow]:
        rates = tuple({"algorithm": "fedavg", "client_lr": rate} for rate in (0.001, 0.01))
        return [
            TableRow("fedavg", rates),
            TableRow.of("fedadavr", algorithm="fedadavr", server_lr=0.01),
        ]

    small = (("rounds", 2), ("average_last", 1), ("evaluate_clients", 5))
    tiny = Preset("mnist-tiny", "a small one", "little", "mnist", ("iid",), rows, small)
    monkeypatch.setitem(PRESETS, "mnist-tiny", tiny)
    arguments = ["paper", "run", "mnist-tiny", "--seeds", "42", "--out", str(tmp_path),
                 "--json"]  # fmt: skip
    main(arguments)
    assert json.loads(capsys.readouterr().out)["new"] == 2
    records = read_lines(tmp_path / "mnist-tiny" / RECORDS)
    assert sorted(r.settings["seed"] for r in records) == [41, 41, 42, 42]
    main([*arguments, "--store", "lmdb", "--commit-every", "2"])
    assert json.loads(capsys.readouterr().out)["new"] == 0
    main([*arguments, "--store", "lmdb", "--seeds", "43"])
    assert json.loads(capsys.readouterr().out)["new"] == 2
    assert not (tmp_path / "mnist-tiny" / "unfinished").exists()
    main(["paper", "report", "--results", str(tmp_path), "-o", str(tmp_path / "page.md")])
    assert "fedavg" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "mnist-optimisers"], "did you mean 'mnist-optimizers'"),
        (["run", "mnist-baselines", "--seeds", "41"], "rates are chosen on seed 41"),
        (["run", "mnist-optimizers", "--only", "lq-1"], "type a field and its values"),
        (["run", "mnist-optimizers", "--only", "partition=iid,lq-9"], "unknown partition 'lq-9'"),
        (
            ["run", "mnist-optimizers", "--only", "algorithm=fedvarp", "optimizer=adam"],
            "has no such cell",
        ),
        (["run", "mnist-optimizers", "--only", "parition=lq-1"], "did you mean 'partition'"),
        (["run", "mnist-optimizers", "--only", "parition=none"], "did you mean 'partition'"),
        (["run", "mnist-optimizers", "--only", "seed=42"], "use --seeds"),
        (["run", "mnist-baselines", "--only", "client-lr=0.01"], "mnist-baselines chooses it"),
        (["run", "mnist-optimizers", "--only", "partition=iid", "partition=lq-1"], "named twice"),
        (["run", "mnist-baselines", "--seeds", "-1"], "--seed must not be negative"),
        (["run", "mnist-optimizers", "--client-lrs", "-5"], "client_lr"),
        (["run", "mnist-optimizers", "--client-lrs", "0.1", "0.1"], "none twice"),
        (["run", "fmnist-precisions", "--client-lrs", "0.1"], "chooses its client rate or fixes"),
        (["run", "mnist-optimizers", "--store", "lmdb:x"], "each needs a store of its own"),
        (["run", "mnist-optimizers", "--commit-every", "5"], "goes with --store lmdb"),
        (["report", "--results", "nowhere"], "there are no records in nowhere"),
    ],
)
def test_bad_words_are_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One sentence, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["paper", *words])
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_paper_list_tells_what_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Every table and figure, with what to expect."""
    main(["paper", "list", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert {line["name"] for line in told} == set(PRESETS)
    assert all(line["expect"] and line["minutes"] > 0 for line in told)


def test_the_presets_of_the_hard_data_are_the_papers_where_it_has_them() -> None:
    """ResNet-18's column has its figures beside it; the small CNN's rates are chosen, for all."""
    column = PRESETS["cifar10-iid"].experiments([], (42,))
    figures = {(e.algorithm, e.get("optimizer")): of_paper(e) for e in column}
    assert figures["fedadavr", "adam"] == 70.847
    assert figures["fedadavr", "yogi"] == 72.031
    assert figures["fedadavr", "lamb"] == 71.228
    assert figures["fedvarp", None] == 68.991
    assert figures["fedadavr-quant", "lamb"] is None  # int4, where the paper has fp16
    assert len(column) == 8
    assert PRESETS["cifar10-iid"].store == "lmdb"  # 250 records of 45 MB do not fit twice
    cnn = PRESETS["cifar10-cnn"]
    tried = {(e.algorithm, e.partition): set[float]() for e in cnn.choices()}
    for e in cnn.choices():
        tried[e.algorithm, e.partition].add(e.client_lr)
        assert (e.model, e.rounds, e.seed) == ("simple-cnn", 200, TUNING_SEED)
    assert len(tried) == 14
    assert all(rates == set(RATES) for rates in tried.values())
    letters = PRESETS["shakespeare-best"].experiments([], (42,))
    assert {e.evaluate_examples for e in letters} == {20_000}
    assert [e.get("server_lr") for e in letters if e.algorithm.startswith("fedadavr")] == [
        0.01,
        0.01,
    ]


@pytest.mark.parametrize("name", ["cifar10-iid", "cifar10-cnn", "shakespeare-best"])
def test_nothing_is_typed_but_the_name(name: str) -> None:
    """The protocol of the table, a learned rate and the average; client rates chosen as there."""
    table, preset = PRESETS[name], PRESETS[f"{name}-untyped"]
    assert (preset.common, preset.partitions, preset.store) == (
        table.common, table.partitions, table.store)  # fmt: skip
    runs = preset.experiments(made_up(preset), (42,))
    assert len(runs) == 4 * len(preset.partitions)
    usual = {name: Experiment(algorithm=name).resolved() for name in ("fedadavr", "fedadavr-plus")}
    for e in runs:
        assert e.get("averaging") is True
        if e.algorithm in usual:
            assert e.settings == usual[e.algorithm].settings
            assert e.get("server_lr") == "learned"
    assert bool(preset.choices()) == bool(table.choices())


def test_the_best_settings_are_those_of_the_table() -> None:
    """Fashion-MNIST, seed 42: no recorded row of an algorithm is above the one named."""
    folder = Path(__file__).parent.parent / "results" / "paper"
    paths = [folder / f"fmnist-{kind}" / RECORDS for kind in ("optimizers", "baselines")]
    records = [r for path in paths for r in read_lines(path) if seed_of(r) == 42]
    for e in PRESETS["fmnist-best"].experiments([], (42,)):
        rows = {
            (r.experiment.get("optimizer"), r.experiment.get("server_lr")): r.final_accuracy or 0.0
            for r in records
            if (r.experiment.partition, r.experiment.algorithm) == (e.partition, e.algorithm)
            and r.experiment.client_lr == e.client_lr
        }
        assert max(rows, key=rows.__getitem__) == (e.get("optimizer"), e.get("server_lr"))
