"""The paper's tables and figures beside ours, as one page."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fedadavr.codecs import CODECS
from fedadavr.experiments.plan import row as plan_row
from fedadavr.experiments.records import RunRecord
from fedadavr.paper import numbers
from fedadavr.paper.best import best_of_each
from fedadavr.paper.claims import OURS, claims, rounds_to, swing
from fedadavr.paper.presets import NAMES, PRESETS, Preset
from fedadavr.paper.protocol import RESULTS
from fedadavr.paper.results import Results, accuracy_cell, of_paper, seed_of
from fedadavr.paper.under_way import up_to
from fedadavr.report.elements import (
    Cell,
    Curves,
    Panel,
    Report,
    ReportRow,
    Section,
    Series,
    Table,
    Text,
    mark_best,
)
from fedadavr.vector import Layout

Runs = tuple[RunRecord, ...]


def preface_of(path: Path) -> Text:
    """A heading and paragraphs from a file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--preface {path} cannot be read as a text: {error}") from None
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    heading, *paragraphs = [part for part in parts if part] or [""]
    if not heading:
        raise ValueError(f"--preface {path} is empty: write a heading, and paragraphs below it")
    return Text(heading.lstrip("# "), tuple(paragraphs))


def paper_page(results: Results, folder: Path = RESULTS, preface: Text | None = None) -> Report:
    """The page of the records in a folder; a preset that nothing was run of is omitted.

    A preface stands below the picture and the claims that a page begins with.
    """
    presets = [PRESETS[name] for name in results.presets if results.tables(name)]
    picture = best_of_each(results)
    sections: list[Section] = [picture] if picture.table.rows else []
    sections += [claims(results), *([preface] if preface else []), protocol(results, presets)]
    for name in results.presets:
        preset = PRESETS[name]
        sections += unfinished(preset, results)
        if preset in presets:
            sections += _sections(preset, results, folder)
    if set(results.presets) == set(PRESETS):
        sections += [memory(), complexity(), rounds_of_paper()]
    reported = results.reported()
    failed = sum(record.failure is not None for record in reported)
    waiting = f", {len(results.under_way)} more not finished" if results.under_way else ""
    about = f"{len(reported):,} runs, {failed} of which diverged{waiting}."
    return Report("FedAdaVR: the paper's tables, here", tuple(sections), about)


def _sections(preset: Preset, results: Results, folder: Path) -> Iterator[Section]:
    kind = preset.name.partition("-")[2]
    rows = results.cells(preset.name)
    if rows and kind == "optimizers":
        yield optimizer_table(preset, rows, _typed(preset, rows, folder))
    elif rows:
        typed = _typed(preset, rows, folder)
        yield curves(preset, rows, typed)
        yield from _details(preset, results, rows, typed)
    for rate in results.other_rates(preset.name):
        more = results.cells(preset.name, rate)
        own = f"{_typed(preset, more, folder)} --client-lrs {rate:g}"
        show = optimizer_table if kind == "optimizers" else accuracy_table
        table = show(preset, more, own)
        yield replace(table, title=f"{table.title}, client rate {rate:g}")


def _typed(preset: Preset, rows: dict[str, dict[str, Runs]], folder: Path) -> str:
    """The command that makes these runs."""
    seeds = sorted({seed_of(r) for row in rows.values() for runs in row.values() for r in runs})
    words = ["fedadavr", "paper", "run", preset.name, "--seeds", *map(str, seeds)]
    return shlex.join([*words, *(["--out", str(folder)] if folder != RESULTS else [])])


def _details(
    preset: Preset, results: Results, rows: dict[str, dict[str, Runs]], typed: str
) -> Iterator[Section]:
    kind = preset.name.partition("-")[2]
    yield accuracy_table(preset, rows, typed, not list(up_to(results, preset.name)))
    choices = choices_table(preset, results, typed)
    if choices.rows:
        yield choices
    if kind == "baselines":
        if preset.targets:
            yield targets_table(preset, rows, typed)
        yield worst_table(preset, rows, typed)
        yield time_table(preset, rows, typed)
    elif kind == "ablation":
        yield unrest_table(preset, rows, typed)


def _title(preset: Preset) -> str:
    return f"{NAMES[preset.dataset]}, {preset.name.partition('-')[2]}"


def _first(rows: dict[str, dict[str, Runs]]) -> RunRecord:
    return next(run for row in rows.values() for runs in row.values() for run in runs)


def _commands(rows: dict[str, dict[str, Runs]], typed: str) -> str:
    """The command for all of it, and the one for its first run by itself."""
    return f"{typed}\n# one of its runs alone:\n{_first(rows).command()}"


def protocol(results: Results, presets: list[Preset]) -> Table:
    """What was run, before what came of it."""
    rows = []
    for preset in presets:
        tables = results.tables(preset.name)
        for partition in preset.partitions:
            runs = [run for t in tables for row in t.values() for run in row.get(partition, ())]
            if not runs:
                continue
            cells = [
                ", ".join(f"{v:g}" for v in sorted({run.settings[name] for run in runs}))
                for name in ("clients", "clients_per_round", "rounds", "average_last",
                             "local_epochs", "batch_size", "client_lr", "seed")
            ]  # fmt: skip
            base = preset.base(partition)
            examples = base.evaluate_examples
            cells += [f"{examples:,} examples" if examples else f"{base.evaluate_clients} clients"]
            rows.append(
                ReportRow((preset.name, partition), tuple(map(Cell, [*cells, f"{len(runs)}"])))
            )
    return Table(
        "Settings", ("preset", "partition", "clients", "per round", "rounds", "averaged", "epochs",
                     "batch", "client rate", "seeds", "evaluated", "runs"), tuple(rows),
        "Clients train with SGD and momentum 0.9. Evaluated are the test shares of so many "
        "clients, drawn anew each time, or so many test examples, always the same, in the averaged "
        "rounds and in every fifth before. Every figure is the mean over seeds ± the standard "
        "deviation, of the accuracy averaged over the paper's last rounds; beside it, in tables "
        "that the paper has, its own figure, and ours minus it. The paper's is of one seed, at the "
        "best of three client rates, which it does not tell; ours is at 0.01 where nothing else is "
        "said. Where a client rate is searched (0.001, 0.01, 0.1), it is chosen on seed 41, which "
        "is not reported and not counted.",
    )  # fmt: skip


def optimizer_table(preset: Preset, rows: dict[str, dict[str, Runs]], typed: str) -> Table:
    """The paper's layout: an algorithm, an optimizer, a rate."""
    lines = []
    for label, row in rows.items():
        algorithm, *middle, rate = label.split()
        cells = tuple(_cell(row.get(p, ())) for p in preset.partitions)
        lines.append(ReportRow((algorithm, " ".join(middle), rate), cells))
    return Table(
        f"{NAMES[preset.dataset]}: accuracy by optimizer and server rate, %",
        ("algorithm", "optimizer", "server rate", *preset.partitions),
        mark_best(lines, shared=1),
        f"{preset.told} The best of each algorithm and "
        "partition is bold. Beside our figure the paper's, and ours minus the paper's.",
        _commands(rows, typed), "partition",
    )  # fmt: skip


def _cell(runs: Runs) -> Cell:
    return accuracy_cell(runs, of_paper(runs[0].experiment)) if runs else Cell()


def unfinished(preset: Preset, results: Results) -> list[Section]:
    """What is under way, every algorithm at the same round; nothing follows from it."""
    found = list(up_to(results, preset.name))
    if not found:
        return []
    titles = [f"{u.partition}, seed {u.seed}, round {u.round}" for u in found]
    labels = [row.label for row in preset.rows(preset.partitions[0])]
    panels = tuple(
        Panel(
            title.replace(", round", ", up to round"),
            tuple(Series(n, (u.runs[n],)) for n in labels if n in u.runs),
        )
        for title, u in zip(titles, found, strict=True)
    )
    rows = tuple(
        ReportRow((label,), tuple(
            Cell(value=u.runs[label].accuracy[-1]) if label in u.runs else Cell("not begun")
            for u in found
        ))
        for label in labels
    )  # fmt: skip
    where = f"{_title(preset)}, not finished"
    rounds = max(preset.base(p).rounds or 0 for p in preset.partitions)
    note = (
        f"Not finished: {results.standing(preset.name)}. Every algorithm is shown up to the round "
        f"that all which have begun have reached, of {rounds}, also those that are further or "
        "finished. No result, and no claim is made from it."
    )
    return [
        Curves(f"{where}: curves", panels, note),
        Table(f"{where}: accuracy at that round, %", (preset.name, *titles), rows,
              "A single evaluation, not averaged. Not finished, no result."),
    ]  # fmt: skip


def accuracy_table(
    preset: Preset, rows: dict[str, dict[str, Runs]], typed: str, complete: bool = True
) -> Table:
    """Labels by partitions; the best is marked where nothing is under way."""
    lines = [
        ReportRow((label,), tuple(_cell(row.get(p, ())) for p in preset.partitions))
        for label, row in rows.items()
    ]
    judged = not preset.beginning and complete
    return Table(
        f"{_title(preset)}: accuracy, %", (preset.name, *preset.partitions),
        mark_best(lines) if judged else tuple(lines),
        "The best of each partition is bold." if judged else preset.told, _commands(rows, typed),
        "partition",
    )  # fmt: skip


def curves(preset: Preset, rows: dict[str, dict[str, Runs]], typed: str) -> Curves:
    """A panel for each partition, as in the paper's figure."""
    ours_first = sorted(rows, key=lambda label: not label.startswith("fedadavr"))
    panels = tuple(
        Panel(p, tuple(Series(label, rows[label][p]) for label in ours_first if rows[label].get(p)))
        for p in preset.partitions
    )
    return Curves(
        f"{_title(preset)}: curves", tuple(panel for panel in panels if panel.series),
        preset.told, typed,
    )  # fmt: skip


def targets_table(preset: Preset, rows: dict[str, dict[str, Runs]], typed: str) -> Table:
    """Rounds to each target on lq-1, and in multiples of FedAdaVR's."""
    ours = rows.get(OURS, {}).get("lq-1", ())
    lines, shown = [], False
    for label, row in rows.items():
        runs = row.get("lq-1", ())
        if not runs:
            continue
        cells = []
        for target in preset.targets:
            found = [run.rounds_to(target) for run in runs]
            cell = Cell.of(found, digits=0)
            mean, base = cell.value, rounds_to(ours, target)
            if mean is None:
                cell = replace(cell, text="x")
            elif None in found:
                cell = replace(cell, text=f"{mean:.0f} ({cell.count} of {len(found)} seeds)")
            elif base is not None:
                cell = replace(cell, text=f"{cell.ours} ({mean / base.mean:.1f})")
                shown = True
            cells.append(cell)
        lines.append(ReportRow((label,), tuple(cells)))
    return Table(
        f"{NAMES[preset.dataset]} lq-1: rounds to an accuracy",
        (preset.name, *(f"{target} %" for target in preset.targets)), tuple(lines),
        "The first evaluated round that reaches it (every fifth is evaluated before the averaged "
        "ones)" + (f", and in brackets in multiples of {OURS!r}, where all seeds of both reach it"
        if shown else "") + ". x: never.", typed,
    )  # fmt: skip


def worst_table(preset: Preset, rows: dict[str, dict[str, Runs]], typed: str) -> Table:
    """The clients that fare worst."""
    lines = [
        ReportRow((label,), tuple(
            Cell.of(run.worst_decile for run in row.get(p, ())) for p in preset.partitions
        ))
        for label, row in rows.items()
    ]  # fmt: skip
    return Table(
        f"{_title(preset)}: accuracy of the worst tenth of the clients, %",
        (preset.name, *preset.partitions), mark_best(lines),
        "Of the same runs, in the same rounds.", typed, "partition",
    )  # fmt: skip


def choices_table(preset: Preset, results: Results, typed: str) -> Table:
    """Which rates were chosen, on the seed that is not reported."""
    lines = []
    searched = {row.label for row in preset.rows(preset.partitions[0]) if len(row.candidates) > 1}
    for label, row in results.chosen(preset).items():
        if label not in searched or not any(row.values()):
            continue
        cells = []
        for partition in preset.partitions:
            e = row.get(partition)
            rate = "" if e is None else f"{e.client_lr:g}"
            if e is not None and label.endswith("tuned"):
                rate = f"server {e.settings['server_lr']:g}"
            cells.append(Cell(rate or "–"))
        lines.append(ReportRow((label,), tuple(cells)))
    return Table(
        f"{_title(preset)}: client rates chosen on seed 41",
        (preset.name, *preset.partitions), tuple(lines),
        "Of 0.001, 0.01 and 0.1 the one with the highest accuracy"
        + ("; of the tuned ones the server rate, of 0.003, 0.01 and 0.03."
           if any(line.labels[0].endswith("tuned") for line in lines) else "."),
        typed, "partition",
    )  # fmt: skip


def time_table(preset: Preset, rows: dict[str, dict[str, Runs]], typed: str) -> Table:
    """Seconds per round, what the server remembers, and seconds to each target on lq-1.

    Runs share the machine with whatever else it does, so that times are medians over the runs.
    """
    lines = []
    for label, row in rows.items():
        runs = [run for cell in row.values() for run in cell if run.failure is None]
        if not runs:
            continue
        training = statistics.median(r.seconds_training / r.rounds[-1] for r in runs)
        server = statistics.median(r.seconds_server / r.rounds[-1] for r in runs)
        hard = row.get("lq-1", ())
        remembered = [run.memory_bytes / 1e6 for run in hard if run.failure is None]
        cells = [Cell(value=training, digits=3), Cell(value=server, digits=4), Cell.of(remembered)]
        for target in preset.targets:
            rounds = rounds_to(hard, target) if hard else None
            seconds = None if rounds is None else rounds.mean * (training + server)
            cells.append(Cell("x") if seconds is None else Cell(value=seconds))
        lines.append(ReportRow((label,), tuple(cells)))
    return Table(
        f"{_title(preset)}: time and memory",
        (preset.name, "clients train, s per round", "server steps, s per round", "memory, MB, lq-1",
         *(f"s to {target} %, lq-1" for target in preset.targets)), tuple(lines),
        "Medians over the runs of all partitions, each in one process while others ran beside it, "
        "evaluation omitted: good to a factor of two, since the machine did other work, too. "
        "fedadavr bench round and bench server time one thing at a time. Seconds to a target are "
        "rounds times seconds per round. Memory is what is kept of the clients after the last "
        "round. x: not reached by all seeds. MIFA trains everybody in its first round.", typed,
    )  # fmt: skip


def unrest_table(preset: Preset, rows: dict[str, dict[str, Runs]], typed: str) -> Table:
    """How far the accuracy swings from round to round."""
    lines = [
        ReportRow(
            (label,),
            (
                Cell.of(swing(r) for r in row["lq-1"] if r.failure is None),
                Cell.of(r.final_loss for r in row["lq-1"]),
            ),
        )
        for label, row in rows.items()
    ]
    return Table(
        f"{NAMES[preset.dataset]} lq-1: stability", (preset.name, "swing, points", "loss"),
        tuple(lines), "swing: the standard deviation of the accuracy over the averaged rounds of "
        "a run.", typed,
    )  # fmt: skip


def memory() -> Table:
    """The paper's memory table, and the same from our own formats."""
    lines = []
    for row in numbers.memory_table():
        layout = Layout({"x": (round(row.parameters_millions * 1e6),)})
        clients = 1000 * row.clients_thousands
        cells = []
        for name in ("fp32", "fp16", "int8", "int4"):
            plan = plan_row(row.model, layout, clients, CODECS[name], 5)
            theirs = getattr(row, name) * 1000 * 2**20 / 1e9
            cells.append(Cell(value=plan.ram_gb, paper=theirs, digits=2))
        labels = (row.model, f"{row.parameters_millions:g}", f"{row.clients_thousands}")
        lines.append(ReportRow(labels, tuple(cells)))
    return Table(
        "Memory of all clients, GB", ("model", "million parameters", "thousand clients", "fp32",
                                      "fp16", "int8", "int4"), tuple(lines),
        "In 10^9 bytes. Ours is what the server takes with everything in RAM, the model, its "
        "optimizer and a round's replies included; the paper's figures fit a unit of 1000 MiB, "
        "and are converted from it.",
        "fedadavr memory plan --parameters 11.7e6",
    )  # fmt: skip


def complexity() -> Table:
    """The paper's complexity table."""
    lines = [
        ReportRow((name,), tuple(map(Cell, row))) for name, row in numbers.complexity().items()
    ]
    return Table(
        "Complexity, as the paper has it", ("algorithm", "communication", "server memory",
                                            "client computation"), tuple(lines),
        "Here SCAFFOLD's control variates live on the server, so that its clients keep nothing: "
        "a client is sent one more vector, and sends none more.",
    )  # fmt: skip


def rounds_of_paper() -> Table:
    """The paper's rounds and times to accuracies on CIFAR-10, which would take months here."""
    times, shares = numbers.wallclock(), numbers.normalized_rounds_to_target()
    targets = next(iter(numbers.rounds_to_target().values()))
    timed = next(iter(times.values())).to_target
    lines = []
    for name, row in numbers.rounds_to_target().items():
        cells = []
        for t in targets:
            share = shares.get(name, {}).get(t)
            cells.append(Cell("x" if row[t] is None else str(row[t]) + (
                "" if share is None else f" ({share:g})")))  # fmt: skip
        seconds = times.get(name)
        cells.append(Cell("–" if seconds is None else f"{seconds.round:g}"))
        for t in timed:
            told = None if seconds is None else seconds.to_target.get(t)
            cells.append(Cell("–" if told is None else f"{told:,.0f}"))
        lines.append(ReportRow((name,), tuple(cells)))
    return Table(
        "CIFAR-10 lq-1: rounds and seconds to an accuracy, the paper's only",
        ("algorithm", *(f"{t} %" for t in targets), "s per round, iid",
         *(f"s to {t} %" for t in timed)), tuple(lines),
        "In brackets in multiples of FedAdaVR's. x: never; –: not told. The paper's seconds to a "
        "target are rounds on lq-1 times seconds per round on iid. Not run here: 1,500 rounds of "
        "one algorithm would take days.",
        "fedadavr paper run cifar10-baselines --only partition=lq-1",
    )  # fmt: skip
