"""The paper's numbers: they are the paper's, all of them, and what they say of each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

from fedadavr.codecs import CODECS
from fedadavr.paper import numbers

ROOT = Path(__file__).parent.parent
PAPER = Path(os.environ.get("FEDADAVR_PAPER", ROOT.parent / "shared/paper/fedadavr.tex"))
needs_the_paper = pytest.mark.skipif(
    not PAPER.is_file(), reason=f"the paper's source is not at {PAPER}: FEDADAVR_PAPER may name it"
)

OURS = ("fedadavr", "fedadavr-quant")
OPTIMIZERS = ("adabelief", "adam", "adagrad", "lamb", "yogi")
RATES = (0.001, 0.005, 0.01)
PRECISIONS = ("fp32", "fp16", "int8", "int4")

# --- reading LaTeX ---


class Printed(NamedTuple):
    """A cell of a table in the paper."""

    text: str
    bold: bool = False


KEPT = r"textbf|textsc|text|mathcal|makecell"
DROPPED = r"\\citep\{[^{}]*\}"
BOXES = r"\\(?:rotatebox(?:\[[^\]]*\])?|parbox)\{[^{}]*\}\{([^{}]*)\}"
RULES = r"\\(?:toprule|midrule|bottomrule)|\\cmidrule(?:\([^)]*\))?\{[^{}]*\}"


def plain(text: str) -> str:
    """What LaTeX would show, from the innermost braces outward."""
    text = re.sub(RULES, "", text)
    before = ""
    while text != before:
        before = text
        text = re.sub(DROPPED, "", text)
        text = re.sub(rf"\\(?:{KEPT})\{{([^{{}}]*)\}}", r"\1", text)
        text = re.sub(BOXES, r"\1", text)
    text = re.sub(r"\\\(|\\\)|\$|\\\\", " ", text).replace(r"\ ", " ")
    return " ".join(re.sub(r"\\([%#_])", r"\1", text).split())


def split(text: str, separator: str) -> list[str]:
    """At the separators that no brace encloses."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[start:at])
            at = start = at + len(separator)
            continue
        if text[at] == "\\":
            at += 2
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return [*parts, text[start:]]


def tabular(label: str) -> list[list[Printed]]:
    """The rows of the table with that label, spanned cells repeated in all that they span."""
    source = re.sub(r"(?<!\\)%.*", "", PAPER.read_text("utf-8"))
    floats = re.findall(r"\\begin\{(table|figure)\*?\}(.*?)\\end\{\1\*?\}", source, re.DOTALL)
    (body,) = [text for _, text in floats if f"\\label{{{label}}}" in text]
    opening = r"\\begin\{tabular\}\{(?:[^{}]|\{[^{}]*\})*\}"
    (table,) = re.findall(rf"{opening}(.*?)\\end\{{tabular\}}", body, re.DOTALL)
    rows: list[list[Printed]] = []
    hanging: dict[int, Printed] = {}  # what spans downward, by column
    for line in split(table, r"\\"):
        row: list[Printed] = []
        if "&" not in line:
            assert not plain(line), f"{label}: text that is no row: {line}"
            continue
        for raw in split(line, "&"):
            column, text = len(row), plain(raw)
            down = re.fullmatch(r"\\multirow\{\d+\}\{\*\}\{(.*)\}", text)
            across = re.fullmatch(r"\\multicolumn\{(\d+)\}\{c\}\{(.*)\}", text)
            text = down[1] if down else across[2] if across else text
            cell = Printed(text.strip(), r"\textbf" in raw)
            if down:
                hanging[column] = cell
            row += [cell if cell.text or down else hanging.get(column, cell)] * (
                int(across[1]) if across else 1
            )
        rows.append(row)
    return rows


def number(text: str) -> float | None:
    """A number as printed, with a thousands' comma or the unit; None where there is none."""
    return None if text in ("x", "-") else float(text.replace(",", "").removesuffix("s"))


def name(text: str) -> str:
    """Our name of what the paper prints."""
    other = {
        "Non_IID": "iid-noniid", "Natural ID": "natural", "F-MNIST": "fmnist",
        "CIFAR-10": "cifar10", "LeNet-5": "lenet5", "ResNet-18": "resnet18",
    }  # fmt: skip
    return other.get(text, text.lower())


# --- the tables, once from the paper and once from our file, as key -> cell ---

Cells = dict[tuple[Any, ...], Any]


def accuracy_printed(label: str) -> Iterator[tuple[tuple[Any, ...], Printed]]:
    """(algorithm, optimizer, rate, partition) of every cell, blanks too."""
    rows, shakespeare = tabular(label), label == "tab:shakespeare_accuracy_com"
    head = next(row for row in rows if row[2].text == ("0.001" if shakespeare else r"\eta_s"))
    for row in rows[rows.index(head) + 1 :]:
        algorithm, optimizer = row[0].text.lower(), row[1].text.lower()
        with_it = (algorithm, None if optimizer in ("", "x") else optimizer)
        if shakespeare:
            for rate, cell in zip(head[2:], row[2:], strict=True):
                yield (*with_it, float(rate.text), "natural"), cell
        else:
            for partition, cell in zip(head[3:], row[3:], strict=True):
                yield (*with_it, float(row[2].text), name(partition.text)), cell


ACCURACY = {
    "mnist": "tab:MNIST_accuracy_com",
    "fmnist": "tab:FashiontMNIST_accuracy_com",
    "cifar10": "tab:CIFAR10_accuracy_com",
    "shakespeare": "tab:shakespeare_accuracy_com",
}


def paper_accuracy(dataset: str) -> Cells:
    """One of the four tables of accuracies."""
    return {key: number(cell.text) for key, cell in accuracy_printed(ACCURACY[dataset])}


def our_accuracy(dataset: str) -> Cells:
    """The same."""
    table = numbers.accuracy(dataset)
    return {(*key, p): value for key, row in table.items() for p, value in row.items()}


FIELDS = {
    "# of clients": "clients",
    "# of participating clients": "clients_per_round",
    "% of participating clients": "participation",
    "# of clients for evaluation": "evaluate_clients",
    "Local model": "model",
    "Batch size": "batch_size",
    "Local epochs": "local_epochs",
    r"Client learning rate \eta_c": "client_lrs",
    "Client momentum": "momentum",
    r"Decay rate \beta_1": "beta1",
    r"Decay rate \beta_2": "beta2",
    r"Small constant \epsilon": "eps",
    r"Weight decay \lambda": "weight_decay",
}


def paper_setup() -> Cells:
    """tab:ExperimentalDetails."""
    _, head, *rows = tabular("tab:ExperimentalDetails")
    cells: Cells = {}
    for label, *values in rows:
        field = FIELDS[label.text]
        for dataset, cell in zip(head[1:], values, strict=True):
            value: Any = re.sub(r"1\\times10\^\{(-\d)\}", r"1e\1", cell.text)
            if field == "client_lrs":
                value = tuple(map(float, value.split(",")))
            elif field == "model":
                value = name(value)
            elif field != "participation":
                value = float(value)
            cells[name(dataset.text), field] = value
    return cells


def our_setup() -> Cells:
    """The same."""
    return {(d, f): v for d in numbers.datasets() for f, v in vars(numbers.setup(d)).items()}


def paper_rounds() -> Cells:
    """tab:dataset_partition."""
    _, head, *rows = tabular("tab:dataset_partition")
    return {
        (kind.text, name(dataset.text), name(partition.text)): number(cell.text)
        for kind, dataset, *values in rows
        for partition, cell in zip(head[2:], values, strict=True)
    }


def our_rounds() -> Cells:
    """The same."""
    return {
        (kind, dataset, partition): value
        for dataset in numbers.datasets()
        for partition in numbers.partitions(dataset)
        for kind, value in zip(
            ("Training rounds", "Selected rounds"), numbers.rounds(dataset, partition), strict=True
        )
    }


def paper_rounds_to_target() -> Cells:
    """tab:ComComSOTA."""
    _, head, *rows = tabular("tab:ComComSOTA")
    return {
        (algorithm.text.lower(), criterion.text, int(target.text.strip("%"))): number(cell.text)
        for algorithm, criterion, *values in rows
        for target, cell in zip(head[2:], values, strict=True)
    }


def our_rounds_to_target() -> Cells:
    """The same."""
    tables: dict[str, dict[str, Any]] = {
        "Rounds": numbers.rounds_to_target(),
        "Norm. Rounds": numbers.normalized_rounds_to_target(),
    }
    return {
        (algorithm, criterion, target): value
        for criterion, table in tables.items()
        for algorithm, row in table.items()
        for target, value in row.items()
    }


def paper_wallclock() -> Cells:
    """tab:system_wallclock."""
    _, head, *rows = tabular("tab:system_wallclock")
    columns = ["round", *(int(cell.text.strip("%")) for cell in head[2:])]
    return {
        (algorithm.text.lower(), column): number(cell.text)
        for algorithm, *values in rows
        for column, cell in zip(columns, values, strict=True)
    }


def our_wallclock() -> Cells:
    """The same."""
    table = numbers.wallclock().items()
    rounds = {(name, "round"): row.round for name, row in table}
    return {**rounds, **{(n, t): s for n, row in table for t, s in row.to_target.items()}}


def paper_wallclock_figure() -> Cells:
    """The table in fig:ablation_and_time."""
    _, *rows = tabular("fig:ablation_and_time")
    return {(row[0].text.lower(), i): number(row[i].text) for row in rows for i in (1, 2)}


def our_wallclock_figure() -> Cells:
    """The same."""
    table = numbers.wallclock_figure()
    return {(name, i): row[i - 1] for name, row in table.items() for i in (1, 2)}


def paper_memory() -> Cells:
    """tab:memory_req_per_training; the parameters stand once a model, and count so."""
    _, head, *rows = tabular("tab:memory_req_per_training")
    cells: Cells = {}
    for model, parameters, thousands, *values in rows:
        cells[model.text, "parameters"] = number(parameters.text)
        for precision, cell in zip(head[3:], values, strict=True):
            cells[model.text, int(thousands.text), precision.text.lower()] = number(cell.text)
    return cells


def our_memory() -> Cells:
    """The same."""
    cells: Cells = {}
    for row in numbers.memory_table():
        cells[row.model, "parameters"] = row.parameters_millions
        for precision in PRECISIONS:
            cells[row.model, row.clients_thousands, precision] = getattr(row, precision)
    return cells


def paper_complexity() -> Cells:
    """tab:system_complexity."""
    _, *rows = tabular("tab:system_complexity")
    cells: Cells = {}
    for algorithm, *values in rows:
        for column, cell in enumerate(values):
            formula, plus, extra = cell.text.replace("_{quant}", "_quant").partition(" + ")
            extra = extra.lower().replace("isation", "ization")
            cells[algorithm.text.lower(), column] = f"{formula}{plus}{extra}"
    return cells


def our_complexity() -> Cells:
    """The same."""
    return {(n, i): cell for n, row in numbers.complexity().items() for i, cell in enumerate(row)}


TABLES: dict[str, tuple[Any, Any, int, int]] = {
    "accuracy mnist": (paper_accuracy, our_accuracy, 198, 0),
    "accuracy fmnist": (paper_accuracy, our_accuracy, 198, 0),
    "accuracy cifar10": (paper_accuracy, our_accuracy, 198, 0),
    "accuracy shakespeare": (paper_accuracy, our_accuracy, 33, 22),
    "setup": (paper_setup, our_setup, 52, 0),
    "rounds": (paper_rounds, our_rounds, 38, 18),
    "rounds to target": (paper_rounds_to_target, our_rounds_to_target, 92, 40),
    "wallclock": (paper_wallclock, our_wallclock, 37, 18),
    "wallclock in the figure": (paper_wallclock_figure, our_wallclock_figure, 8, 0),
    "memory": (paper_memory, our_memory, 143, 0),
    "complexity": (paper_complexity, our_complexity, 33, 0),
}
"""How to read each table, how many cells it has, and how many blanks."""


@needs_the_paper
@pytest.mark.parametrize("table", TABLES)
def test_every_cell_is_the_papers(table: str) -> None:
    """No number is mistyped, left out or invented; a blank of the paper is nowhere a number."""
    paper, ours, count, blanks = TABLES[table]
    arguments = table.split()[1:] if table.startswith("accuracy") else []
    printed, kept = paper(*arguments), ours(*arguments)
    assert sum(value is None for value in printed.values()) == blanks
    printed = {key: value for key, value in printed.items() if value is not None}
    kept = {key: value for key, value in kept.items() if value is not None}
    assert kept == printed
    assert len(printed) == count


@needs_the_paper
def test_every_table_of_the_paper_is_compared() -> None:
    """A table that the paper has and the list above has not would be noticed."""
    assert len(re.findall(r"\\begin\{tabular\}", PAPER.read_text("utf-8"))) == len(TABLES)


@needs_the_paper
@pytest.mark.parametrize("dataset", ACCURACY)
def test_bold_is_the_best(dataset: str) -> None:
    """`best` finds the cells that the paper prints bold, and no others."""
    bold = {key for key, cell in accuracy_printed(ACCURACY[dataset]) if cell.bold}
    assert bold == {
        (*numbers.best(dataset, partition, algorithm)[0], partition)
        for partition in numbers.partitions(dataset)
        for algorithm in ("fedvarp", *OURS)
    }


# --- where the paper is not at hand ---


def test_the_numbers_are_those_that_were_checked() -> None:
    """The file cannot change unnoticed where the paper is not there to compare it with."""
    assert numbers.digest() == numbers.HASH


def test_the_numbers_need_no_torch() -> None:
    """Printing the paper's tables works without the experiments' extras."""
    code = "import sys, fedadavr.paper.numbers as n; n.digest(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_there_is_refused_by_name() -> None:
    """A mistyped name gets an answer that helps."""
    with pytest.raises(ValueError, match="unknown data set 'minst'"):
        numbers.accuracy("minst")
    with pytest.raises(ValueError, match="unknown partition 'natural'"):
        numbers.rounds("mnist", "natural")
    with pytest.raises(ValueError, match="no table of 'fedavg' on mnist"):
        numbers.best("mnist", "iid", "fedavg")


# --- what the numbers say of each other; docs/the-paper.md tells it ---


def test_normalized_rounds_are_the_rounds_divided() -> None:
    """All 46 ratios round to what is printed, also FedVARP's 0.98 at 25 %, printed as 1.0."""
    rounds, printed = numbers.rounds_to_target(), numbers.normalized_rounds_to_target()
    off, compared = [], 0
    for algorithm, row in rounds.items():
        for target, value in row.items():
            ours, given = rounds["fedadavr"][target], printed[algorithm][target]
            assert (value is None) == (given is None)
            if value is not None and ours is not None:
                compared += 1
                if round(value / ours, 1) != given:
                    off.append((algorithm, target))
    assert (off, compared) == ([], 46)
    faster = [(a, t) for a, row in rounds.items() for t in row
              if (row[t] or 9999) < (rounds["fedadavr"][t] or 0)]  # fmt: skip
    assert faster == [("fedvarp", 25)]


def test_times_are_rounds_times_seconds() -> None:
    """Times were computed, not measured: one is cut instead of rounded, two were left out."""
    rounds, missing, off, computed = numbers.rounds_to_target(), [], [], 0
    for algorithm, row in numbers.wallclock().items():
        for target, seconds in row.to_target.items():
            count = rounds[algorithm][target]
            if count is None:
                assert seconds is None
            elif seconds is None:
                missing.append((algorithm, target, count))
            else:
                computed += 1
                if round(count * row.round) != seconds:
                    off.append((algorithm, target, seconds, round(count * row.round, 2)))
    assert computed == 26
    assert off == [("fedadagrad", 35, 229_673, 229_673.52)]
    assert missing == [("fedadagrad", 30, 988), ("fedyogi", 30, 1066)]


def test_the_figures_times_are_the_tables() -> None:
    """The small table repeats the large one, with the seconds a round cut, FedNova's too."""
    table = numbers.wallclock()
    for algorithm, (seconds, to_45) in numbers.wallclock_figure().items():
        assert seconds == int(table[algorithm].round)
        assert to_45 == table[algorithm].to_target[45]
    assert table["fednova"].round == 168.65  # which rounds to 169


def test_the_memory_tables_unit_is_a_thousand_mebibytes() -> None:
    """Neither GB nor GiB fits any cell; 1000 MiB fits all, to the printed digits."""
    nearest, farthest = {"GB": 1.0, "GiB": 1.0}, 0.0
    for row in numbers.memory_table():
        values = row.parameters_millions * 1e6 * row.clients_thousands * 1e3
        for precision in PRECISIONS:
            size, printed = values * CODECS[precision].bits / 8, getattr(row, precision)
            farthest = max(farthest, abs(printed / (size / (1000 * 2**20)) - 1))
            for unit, one in (("GB", 1e9), ("GiB", 2.0**30)):
                nearest[unit] = min(nearest[unit], abs(printed / (size / one) - 1))
    assert farthest < 0.014  # 0.58 for 0.572
    assert nearest["GB"] > 0.033
    assert nearest["GiB"] > 0.020


def test_the_savings_are_the_papers() -> None:
    """50, 75 and 87.5 %: exactly by bits, and to a percent in the table's rounded cells."""
    for precision, saving in (("fp16", 0.5), ("int8", 0.75), ("int4", 0.875)):
        assert 1 - CODECS[precision].bits / 32 == saving
        for row in numbers.memory_table():
            assert 1 - getattr(row, precision) / row.fp32 == pytest.approx(saving, abs=0.006)


def test_the_document_counts_right() -> None:
    """The figures that docs/the-paper.md computes from the tables are in it."""
    spreads, below, changes, lamb, cells = [], 0, [], 0, 0
    higher: Counter[str] = Counter()
    for dataset in numbers.datasets():
        table = numbers.accuracy(dataset)
        for partition in numbers.partitions(dataset):
            bar = numbers.best(dataset, partition, "fedvarp")[1]
            for algorithm in OURS:
                best = numbers.best(dataset, partition, algorithm)
                assert best[1] > bar
                lamb += dataset == "cifar10" and best[0].optimizer == "lamb"
                for optimizer in OPTIMIZERS:
                    keys = [numbers.Configuration(algorithm, optimizer, r) for r in RATES]
                    row = [table[key][partition] for key in keys]
                    spreads.append(max(row) - min(row))
                    below += max(row) < bar
                    higher[dataset] += row[2] == max(row)
                    cells += sum(value < bar for value in row)
            changes += [
                abs(row[partition] - table[key._replace(algorithm="fedadavr")][partition])
                for key, row in table.items()
                if key.algorithm == "fedadavr-quant"
            ]
    text = " ".join((ROOT / "docs/the-paper.md").read_text("utf-8").split())
    for phrase in (
        f"{sum(s > 5 for s in spreads)} of {len(spreads)}, median {median(spreads):.1f}",
        f"{below} of {len(spreads)} best rows",
        f"{cells} of {3 * len(spreads)} cells",
        f"{lamb} of 12",
        f"{higher['mnist']} of 60 on MNIST, {higher['fmnist']} of 60 on FMNIST",
        f"{sum(c > 5 for c in changes)} of {len(changes)} by more than 5",
        f"median {median(changes):.1f} points either way",
    ):
        assert phrase in text, phrase
