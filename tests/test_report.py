"""The report: its numbers are right in every format, and the page works in a real browser."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedadavr.cli import main
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import RunRecord, given
from fedadavr.report import csv_file, html, markdown, png
from fedadavr.report.curve import curve
from fedadavr.report.elements import (
    Cell,
    Claim,
    Claims,
    Curves,
    Dots,
    Panel,
    Report,
    ReportRow,
    Series,
    Table,
    Text,
    mark_best,
)
from fedadavr.report.output import encode, write
from fedadavr.report.palette import DASHES, LIGHT, style
from fedadavr.report.standard import rounds_cell, standard_page
from tests.browser import PROGRAM, Browser

EVIL = "<script>alert(1)</script> & |*_"


def record(final: float, seed: int = 42, rounds: int = 10, **settings: Any) -> RunRecord:
    """A made-up run whose accuracy rises evenly to `final`."""
    experiment = Experiment.of(dataset="mnist", seed=seed, rounds=rounds, **settings).resolved()
    numbers = list(range(1, rounds + 1))
    rising = [final * number / rounds for number in numbers]
    falling = [2.0 / number for number in numbers]
    return RunRecord(
        given(experiment), numbers, rising, falling, final, falling[-1], final - 20,
        seconds=30.0, seconds_training=20.0, seconds_server=1.0, seconds_evaluating=5.0,
        memory_bytes=3_000_000,
    )  # fmt: skip


def some_records() -> list[RunRecord]:
    """Three variants, two partitions, three seeds; one run failed."""
    records = []
    for partition in ("lq-1", "iid"):
        for k, seed in enumerate((42, 43, 44)):
            records += [
                record(60.0 + k, seed, partition=partition, algorithm="fedavg"),
                record(80.0 + 2 * k, seed, partition=partition, optimizer="yogi", server_lr=0.005),
                record(75.0, seed, partition=partition, optimizer="adam", server_lr=0.01),
            ]
    failed = record(1.0, 45, partition="iid", algorithm="fedavg")
    return [*records, replace(failed, rounds=[], accuracy=[], loss=[], failure=f"bad {EVIL}")]


def the_table(page: Report, title: str) -> Table:
    """The table whose title ends so."""
    found = [s for s in page.sections if isinstance(s, Table) and s.title.endswith(title)]
    assert len(found) == 1
    return found[0]


# --- the numbers ---


def test_a_cell_tells_mean_deviation_paper_and_difference() -> None:
    """In one line, with what is missing left out."""
    values = [88.0, 89.5, 91.6]
    cell = Cell.of(values, paper=82.808)
    assert cell.value == pytest.approx(statistics.mean(values))
    assert cell.deviation == pytest.approx(statistics.stdev(values))
    assert cell.count == 3
    assert cell.line() == "89.7 ± 1.8 (paper 82.8, +6.9)"
    assert Cell.of([70.0], paper=82.0).line() == "70.0 (paper 82.0, -12.0)"
    assert Cell.of([82.04], paper=82.05).line() == "82.0 (paper 82.0, +0.0)"
    assert Cell.of([None, float("nan")], paper=82.0).line() == "– (paper 82.0)"
    assert Cell(text="never").line() == "never"
    assert Cell().line() == "–"


def test_the_best_is_marked_as_it_is_shown() -> None:
    """Ties share it, words do not compete, and rows with the same labels may compete alone."""

    def best(rows: tuple[ReportRow, ...]) -> list[bool]:
        return [row.cells[0].best for row in rows]

    rows = [
        ReportRow(("a", "1"), (Cell(value=90.01),)),
        ReportRow(("a", "2"), (Cell(value=90.04),)),
        ReportRow(("b", "1"), (Cell(value=50.0),)),
        ReportRow(("b", "2"), (Cell(value=99.0, text="99 (1 of 3)"),)),
    ]
    assert best(mark_best(rows)) == [True, True, False, False]
    assert best(mark_best(rows, lowest=True)) == [False, False, True, False]
    assert best(mark_best(rows, shared=1)) == [True, True, True, False]


def test_a_row_must_fit_its_header() -> None:
    """Else the columns would be wrong."""
    with pytest.raises(ValueError, match="the row a does not fit its header"):
        Table("t", ("name", "x", "y"), (ReportRow(("a",), (Cell(),)),))


def test_seeds_that_were_evaluated_at_different_rounds() -> None:
    """The curve has the rounds that are common to them; a run without a result is left out."""
    one, two = record(60.0), record(80.0, 43)
    sparse = replace(two, rounds=[5, 10], accuracy=[40.0, 80.0], loss=[0.4, 0.2])
    failed = replace(record(1.0, 44), rounds=[], accuracy=[], loss=[], failure="diverged")
    found = curve([one, sparse, failed], "accuracy")
    assert found.rounds == [5, 10]
    assert found.mean.tolist() == [35.0, 70.0]
    assert found.low.tolist() == [30.0, 60.0]
    assert found.high.tolist() == [40.0, 80.0]
    assert found.deviation.tolist() == pytest.approx([statistics.stdev([30, 40]), 200**0.5])
    assert found.count == 2
    assert curve([one, replace(sparse, rounds=[11, 12])], "loss").rounds == []
    assert curve([failed], "loss").rounds == []


def test_rounds_to_a_target() -> None:
    """The mean if all get there; else how many do, or never."""
    runs = [record(50.0), record(100.0, 43)]  # 40 is reached in rounds 8 and 4
    assert rounds_cell(runs, 40).line() == "6 ± 3"
    assert rounds_cell(runs, 60).line() == "6 (1 of 2)"
    assert rounds_cell(runs[:1], 60).line() == "never"
    assert rounds_cell(runs[:1], 60).value is None


def test_the_page_of_some_runs() -> None:
    """Rows are told apart by what differs, columns are in order, failures are listed."""
    page = standard_page(some_records(), "Some", (70,))
    assert [s.title for s in page.sections] == [
        "Settings", "mnist: accuracy and loss", "mnist: final accuracy, %", "mnist: rounds to 70 %",
        "mnist: accuracy of the worst tenth of the clients, %", "mnist: time and memory",
        "Runs without a result",
    ]  # fmt: skip
    table = the_table(page, "final accuracy, %")
    assert table.header == ("algorithm", "settings", "iid", "lq-1")
    assert {row.labels: [cell.line() for cell in row.cells] for row in table.rows} == {
        ("fedavg", ""): ["61.0 ± 1.0", "61.0 ± 1.0"],
        ("fedadavr", "adam 0.01"): ["75.0 ± 0.0", "75.0 ± 0.0"],
        ("fedadavr", "yogi 0.005"): ["82.0 ± 2.0", "82.0 ± 2.0"],
    }
    assert [[c.best for c in row.cells] for row in table.rows] == [[False] * 2] * 2 + [[True] * 2]
    assert "--partition iid --optimizer yogi --server-lr 0.005" in table.command
    assert "also --seed 43, 44" in table.command
    rounds = the_table(page, "rounds to 70 %")
    assert [row.cells[0].ours for row in rounds.rows] == ["never", "10 ± 0", "9 ± 0"]
    worst = the_table(page, "the clients, %")
    assert worst.rows[0].cells[0].ours == "41.0 ± 1.0"
    costs = the_table(page, "time and memory")
    assert [c.value for c in costs.rows[0].cells] == pytest.approx([2.0, 0.1, 0.5, 30.0, 3.0])
    failures = the_table(page, "without a result")
    assert [(r.labels, [c.text for c in r.cells]) for r in failures.rows] == [
        (("mnist", "iid", "fedavg"), ["45", f"bad {EVIL}"])
    ]
    settings = the_table(page, "Settings")
    assert [c.ours for c in settings.rows[0].cells] == [
        "lenet5", "500", "5", "10", "1", "1", "20", "250", "42, 43, 44, 45", "10"
    ]  # fmt: skip
    grid = page.sections[1]
    assert isinstance(grid, Curves)
    assert [panel.title for panel in grid.panels] == ["iid", "lq-1"]
    assert grid.labels == ("fedavg", "fedadavr adam 0.01", "fedadavr yogi 0.005")


def test_settings_that_differ_are_columns_of_their_own() -> None:
    """Runs with other rounds or cohorts are never averaged; a run given twice counts once."""
    runs = [record(50.0), record(70.0, clients_per_round=50), record(90.0, partition="iid")]
    same = record(60.0, codec="fp32", optimizer="adam")  # the defaults, spelled out
    table = the_table(standard_page([*runs, same]), "final accuracy, %")
    assert table.header == (
        "algorithm", "iid", "lq-1, clients per round 5", "lq-1, clients per round 50"
    )  # fmt: skip
    assert [cell.ours for cell in table.rows[0].cells] == ["90.0", "60.0", "70.0"]


def test_a_mean_of_fewer_runs_says_so() -> None:
    """So that nobody takes one seed for three."""
    records = [record(50.0), record(52.0, 43), record(60.0, algorithm="fedavg")]
    page = standard_page(records)
    assert "<td>60.0<small>1 run</small></td>" in html.render(page).replace("<strong>", "").replace(
        "</strong>", ""
    )
    assert "**60.0**, 1 run |" in markdown.render(page)


def test_an_algorithm_of_ones_own_needs_no_file() -> None:
    """Records tell of it, also where the file that brought it is not at hand."""
    known = record(50.0, algorithm="fedavg")
    other = {
        "algorithm": "somebodys",
        "dataset": "somebodys",
        "load": "mine.py@sha256:0b15e1682233",
    }
    page = standard_page([replace(known, settings=known.settings | other), known])
    table = next(s for s in page.sections if s.title == "somebodys: final accuracy, %")
    assert isinstance(table, Table)
    assert table.rows[0].labels == ("somebodys",)
    assert "--load mine.py" in table.command
    # Another version of the file is another variant, not the same run once more.
    files = [other | {"load": f"mine.py@sha256:{contents}"} for contents in ("0b15", "77aa")]
    page = standard_page([replace(known, settings=known.settings | file) for file in files])
    table = next(s for s in page.sections if s.title == "somebodys: final accuracy, %")
    assert isinstance(table, Table)
    assert len(table.rows) == 2


def test_the_paper_stands_beside() -> None:
    """Where it has a figure for exactly these settings."""
    page = standard_page(
        some_records(),
        paper=lambda e: 80.5 if (e.get("optimizer"), e.partition) == ("yogi", "iid") else None,
    )
    table = the_table(page, "final accuracy, %")
    assert [c.line() for c in table.rows[2].cells] == [
        "82.0 ± 2.0 (paper 80.5, +1.5)",
        "82.0 ± 2.0",
    ]
    text = html.render(page)
    assert "<strong>82.0 ± 2.0</strong><small>paper 80.5 <b>+1.5</b></small>" in text


def test_every_format_has_the_same_figures() -> None:
    """Every cell of the page is in the Markdown, and in the CSV with all its digits."""
    page = standard_page(some_records(), paper=lambda e: 80.54321)
    shown = html.render(page)
    written = markdown.render(page)
    lines = list(csv.DictReader(io.StringIO(csv_file.render(page))))
    cells = [
        (table.title, " / ".join(row.labels), column, cell)
        for table in page.sections if isinstance(table, Table)
        for row in table.rows for column, cell in zip(table.columns, row.cells, strict=True)
    ]  # fmt: skip
    assert len(lines) == len(cells)
    for line, (title, labels, column, cell) in zip(lines, cells, strict=True):
        assert (line["section"], line["row"], line["column"]) == (title, labels, column)
        assert line["value"] == ("" if cell.value is None else str(cell.value))
        assert line["deviation"] == ("" if cell.deviation is None else str(cell.deviation))
        if EVIL in cell.text:
            continue
        assert cell.ours in shown
        bold = f"**{cell.ours}**" if cell.best else cell.ours
        assert f"| {bold}{cell.line().removeprefix(cell.ours)} |" in written
        if line["paper"]:
            difference = float(line["value"]) - float(line["paper"])
            assert float(line["difference"]) == pytest.approx(difference)
            assert cell.gap == f"{difference:+.1f}"


def test_what_users_write_is_only_text() -> None:
    """Titles, labels, notes and commands may hold anything."""
    table = Table(EVIL, (EVIL, "x"), (ReportRow((EVIL,), (Cell(EVIL),), EVIL),), EVIL, EVIL)
    grid = Curves(EVIL, (Panel(EVIL, (Series(EVIL, (record(50.0),)),)),), EVIL, f"{EVIL}\n{EVIL}")
    dots = Dots(
        EVIL,
        Table(EVIL, (EVIL, EVIL, EVIL), (ReportRow((EVIL, EVIL), (Cell(value=5.0),)),)),
        1,
        EVIL,
    )
    said = Claims(EVIL, (Claim(EVIL, "holds", (EVIL,), EVIL), Claim(EVIL, "not run")), EVIL)
    page = Report(EVIL, (dots, said, table, grid, Text(EVIL, (EVIL,))), EVIL)
    shown = html.render(page)
    assert "<script>alert" not in shown
    assert "alert(1)&lt;/script&gt;" in shown
    written = re.sub(r"```sh.*?```", "", markdown.render(page), flags=re.DOTALL)
    assert "<script>" not in written
    assert r"\|\*\_" in written
    assert png.render(page).startswith(b"\x89PNG")


def first_screen() -> Report:
    """Two data sets, three algorithms one of which is gray, and a claim of every kind."""

    def row(place: tuple[str, str], *cells: Cell) -> ReportRow:
        return ReportRow(place, cells)

    table = Table("figures", ("data", "partition", "a", "b", "c"), (
        row(("MNIST", "iid"), Cell.of([90.0, 92.0], paper=85.0), Cell.of([80.0]), Cell.of([5.0])),
        row(("MNIST", "lq-1"), Cell.of([71.0]), Cell(), Cell.of([75.0])),
        row(("CIFAR-10", "lq-2, small CNN"), Cell.of([44.0], paper=50.0), Cell(), Cell()),
    ))  # fmt: skip
    claims = (
        Claim("It works.", "holds", ("iid 1", "lq-1 2")), Claim("Often.", "holds in part", ("3",)),
        Claim("Always.", "does not hold", ("4",)), Claim("Later.", "not run"),
        Claim("Soon.", "not decided", why="3 of 8 runs, 2 more up to round 40"),
    )  # fmt: skip
    return Report("t", (Dots("best", table, 2, "note"), Claims("claims", claims, "the rule")))


def test_the_first_screen_in_every_format(tmp_path: Path) -> None:
    """A picture in two widths, claims with colored verdicts and folded figures; CSV has all."""
    page = first_screen()
    write(page, tmp_path / "page.md", "md")
    text = (tmp_path / "page.md").read_text()
    for name in ("page-best.png", "page-best-narrow.png"):
        assert f'"{name}"' in text
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert "<details><summary>🟢 <b>holds</b> · It works.</summary>\n\n- iid 1\n- lq-1 2\n" in text
    for line in ("🟡 <b>holds in part</b> · Often.", "🔴 <b>does not hold</b> · Always.",
                 "⚪ <b>not run</b> · Later.",
                 "⚪ <b>not decided: 3 of 8 runs, 2 more up to round 40</b> · Soon."):  # fmt: skip
        assert f"<summary>{line}</summary>" in text
    assert "| MNIST | iid | 91.0 ± 1.4 (paper 85.0, +6.0) | 80.0, 1 run | 5.0, 1 run |" in text
    lines = list(csv.DictReader(io.StringIO(csv_file.render(page))))
    assert len(lines) == 9 + 10
    assert lines[0]["value"] == "91.0"
    assert {line["text"] for line in lines if line["row"] == "It works."} == {
        "holds", "iid 1; lq-1 2"
    }  # fmt: skip


def test_a_curve_that_is_no_number_is_a_gap() -> None:
    """The page's JSON has no NaN."""
    run = replace(record(50.0), loss=[float("nan")] * 9 + [1.0])
    page = Report("t", (Curves("c", (Panel("p", (Series("a", (run,)),)),)),))
    line = html.figures(page)["curves"][0][0][0]["loss"]
    assert line["mean"] == [None] * 9 + [1.0]
    data = html.render(page).partition('id="figures">')[2].partition("</script>")[0]
    assert json.loads(data) == html.figures(page)


def test_labels_can_be_told_apart() -> None:
    """By color and dash."""
    looks = [style(k) for k in range(len(LIGHT) * len(DASHES))]
    assert len(set(looks)) == len(looks) >= 40


# --- the command ---


def test_the_command_on_real_runs(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of a comparison; a run that was not finished is named, not averaged."""
    monkeypatch.chdir(tmp_path)
    words = ["--load", mine, "--dataset", "blobs", "--model", "mlp", "--clients", "20"]
    main(["compare", *words, "--rounds", "3", "--seeds", "1", "2", "--algorithms", "fedavg",
          "fedadavr", "--out", "runs/cmp", "--json"])  # fmt: skip
    main(["run", *words, "--rounds", "2", "--seed", "3", "--out", "runs/one"])
    config = Path("runs/one/config.toml")
    config.write_text(config.read_text().replace("rounds = 2\n", "rounds = 3\n"))
    capsys.readouterr()
    main(["report", "runs", "-o", "out/page.html", "--title", "Blobs", "--targets", "20", "99.5"])
    told = capsys.readouterr().out
    assert re.fullmatch(r"out/page.html: \d\.\d\d MB, 5 runs, 1 of them without a result.\n", told)
    text = Path("out/page.html").read_text()
    again = "fedadavr report runs --out out/page.html --targets 20 99.5 --title Blobs"
    failure = "it has done 2 of its 3 rounds"
    for there in ("<h1>Blobs</h1>", "blobs: rounds to 99.5 %", failure, again):
        assert there in text
    for format in ("md", "csv", "png"):
        main(["report", "runs/cmp", "--format", format])
        assert f"report.{format}: " in capsys.readouterr().out
        assert Path(f"report.{format}").stat().st_size > 100
    main(["report", "runs/cmp", "-o", "loss.png", "--metric", "loss"])
    assert Path("loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the runs to report"),
        (["nowhere"], "there is no nowhere"),
        (["empty"], "empty holds no finished run"),
        (["empty", "--format", "pdf"], "unknown format 'pdf'; there are: html, md, csv, png"),
        (["empty", "-o", "x.htm"], "unknown format 'htm' (did you mean 'html'?)"),
        (["empty", "-o", "empty", "--format", "md"], "--out empty is a folder"),
        (["empty", "--targets", "0"], "--targets are accuracies in percent, got 0"),
        (["empty", "--metric", "time"], "unknown metric 'time'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """And nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["report", *words])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.strip().count("\n") == 0
    assert [p.name for p in tmp_path.iterdir()] == ["empty"]


# --- in a browser ---


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Chromium; where it must be there, it must be there."""
    if PROGRAM is None:
        why = "NOT TESTED: the report in a browser needs chromium (apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with Browser(tmp_path / "profile") as started:
        yield started


DRAWN = "document.querySelectorAll('.plot .main-svg:first-child').length"
LINES = "document.querySelector('.plot').querySelectorAll('.scatterlayer .trace').length"
AXIS = "document.querySelector('.plot .ytitle')?.textContent"


def test_the_page_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """It draws, complains of nothing, asks for nothing, and its switches do what they say."""
    path = tmp_path / "report.html"
    path.write_bytes(encode(standard_page([*some_records(), record(50.0, partition="dirichlet")],
                                          EVIL), "html"))  # fmt: skip
    browser.size(1300, 1600)
    browser.open(path)
    browser.wait(f"{DRAWN} === 3")
    assert browser.ask("document.title") == EVIL
    assert browser.ask("document.querySelector('h1').textContent") == EVIL
    assert browser.ask(LINES) == 6  # three lines, three bands
    assert browser.ask(AXIS) == "accuracy, %"

    place = browser.ask(
        "(() => { const p = document.querySelector('.plot'), b = p.getBoundingClientRect(),"
        "l = p._fullLayout; return {x: b.x + l._size.l + l.xaxis.d2p(10),"
        "y: b.y + l._size.t + l.yaxis.d2p(61)}; })()"
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place["x"] - 1, y=place["y"])
    browser.wait("document.querySelector('.plot .hovertext')")
    assert browser.ask("document.querySelector('.plot .hovertext').textContent") == (
        "fedavground 10: 61.0 ± 1.0 (3 seeds)"
    )

    browser.click("[data-metric=loss]")
    browser.wait(f"{AXIS} === 'loss (log scale)'")
    pressed = "[...document.querySelectorAll('.choice .button')].map(b => b.ariaPressed)"
    assert browser.ask(pressed) == ["false", "true"]

    browser.click(".key[data-label='1']")
    browser.wait(f"{LINES} === 4")
    assert browser.ask("document.querySelector('.key[data-label=\"1\"]').ariaPressed") == "false"
    browser.click("[data-all=false]")
    browser.wait(f"{LINES} === 0")
    browser.click("[data-all=true]")
    browser.wait(f"{LINES} === 6")

    ground = "getComputedStyle(document.body).backgroundColor"
    line = "[...document.querySelectorAll('.plot .js-line')].at(-1).style.stroke"
    light = [browser.ask(ground), browser.ask(line)]
    assert light[0] == "rgb(255, 255, 255)"
    browser.click("#theme")
    browser.wait(f"{line} !== {light[1]!r}")
    assert browser.ask(ground) == "rgb(21, 24, 28)"
    assert browser.ask("document.getElementById('theme').ariaPressed") == "true"

    browser.size(390, 844, mobile=True)
    browser.wait("document.querySelector('.plot .main-svg').clientWidth < 390")
    assert browser.ask("document.documentElement.scrollWidth") == 390
    assert browser.ask("getComputedStyle(document.querySelector('.label')).position") == "sticky"
    browser.screenshot(tmp_path / "phone.png")
    assert (tmp_path / "phone.png").stat().st_size > 10_000
    browser.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")

    assert browser.complaints == []
    assert set(browser.requests) == {path.as_uri()}


def test_the_first_screen_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """Dots stand where their figures are, verdicts have colors and words, nothing is cut off."""
    path = tmp_path / "first.html"
    path.write_text(html.render(first_screen()))
    browser.size(1280, 900)
    browser.open(path)
    titles = "[...document.querySelectorAll('section')].map(s => s.className)"
    assert browser.ask(titles) == ["dots", "claims"]
    place = """(() => {
        const middle = (e) => { const b = e.getBoundingClientRect(); return b.x + b.width / 2; };
        const ticks = [...document.querySelector('.axis').querySelectorAll('text')];
        const [first, last] = [ticks[0], ticks.at(-1)];
        const [low, high] = [first, last].map((tick) => Number(tick.textContent));
        const share = (middle(%s) - middle(first)) / (middle(last) - middle(first));
        return low + share * (high - low);
    })()"""
    dots = "document.querySelectorAll('.dotrows circle')"
    assert browser.ask(place % f"{dots}[0]") == pytest.approx(91.0, abs=0.3)
    assert browser.ask(place % f"{dots}[1]") == pytest.approx(80.0, abs=0.3)
    mark = "document.querySelector('.dotrows use')"
    assert browser.ask(place % mark) == pytest.approx(85.0, abs=0.3)
    assert browser.ask("document.querySelectorAll('.dotrows use.full').length") == 1  # 5 %
    assert "b 80.0" in browser.ask("document.querySelector('.dotrows [role=img]').ariaLabel")
    badges = "[...document.querySelectorAll('.verdict')]"
    assert browser.ask(f"{badges}.map(b => b.textContent)") == [
        "holds", "holds in part", "does not hold", "not run", "not decided"
    ]  # fmt: skip
    colors = f"new Set({badges}.map(b => getComputedStyle(b).backgroundColor)).size"
    assert browser.ask(colors) == 4
    lines = "[...document.querySelectorAll('.claim')].map(c => c.getBoundingClientRect().height)"
    assert max(browser.ask(lines)) < 45  # one line each
    figures = "document.querySelector('.verdicts details ul')"
    assert browser.ask(f"{figures}.checkVisibility()") is False
    browser.click("summary.claim")
    browser.wait(f"{figures}.checkVisibility()")
    browser.size(390, 844, mobile=True)
    assert browser.ask("document.documentElement.scrollWidth") == 390
    browser.size(1280, 900, dark=True)
    assert browser.ask(f"getComputedStyle({dots}[0]).fill") == "rgb(76, 155, 232)"
    assert browser.complaints == []


def test_a_reader_who_likes_it_dark(browser: Browser, tmp_path: Path) -> None:
    """The page is dark without a press, and a page without curves needs no drawing library."""
    table = Table("t", ("name", "x"), (ReportRow(("a",), (Cell.of([1.0, 2.0]),)),))
    path = tmp_path / "table.html"
    path.write_text(html.render(Report("t", (table,))))
    assert path.stat().st_size < 50_000
    browser.size(800, 600, dark=True)
    browser.open(path)
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    assert browser.ask("document.getElementById('theme').ariaPressed") == "true"
    assert browser.complaints == []
