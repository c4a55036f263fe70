"""The site that `make docs` has built: its links lead somewhere, and it works in a real browser."""

from __future__ import annotations

import ast
import os
import re
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import PROGRAM, Browser

pytestmark = pytest.mark.site

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs" / "_build" / "html"
SECTIONS = re.compile(r"^(Parameters|Returns|Yields|Raises|Examples)\n-{3,}$", re.MULTILINE)


class Page(HTMLParser):
    """Where a page leads, what can be led to in it, and its words outside code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.words: list[str] = []
        self._code = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("code", "pre", "script")
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            elif name == "id" and value is not None:
                self.ids.add(value)

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre", "script")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.words.append(data)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    """All pages, by their files."""
    assert SITE.is_dir(), "there is no site yet: make docs builds it"
    return {path.resolve(): Page(path) for path in sorted(SITE.rglob("*.html"))}


def test_every_link_within_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    """Files and anchors are there; nothing is loaded from elsewhere."""
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not to.is_file() or (anchor and to in pages and anchor not in pages[to].ids):
                broken.append(f"{path.relative_to(SITE.resolve())}: {link}")
    assert broken == []


def test_every_document_is_a_page(pages: dict[Path, Page]) -> None:
    """And every page can be reached from the first."""
    sources = [p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md")]
    wanted = {SITE.resolve() / path.with_suffix(".html") for path in sources}
    assert wanted <= set(pages)
    first = SITE.resolve() / "index.html"
    listed = {(first.parent / urlsplit(link).path).resolve() for link in pages[first].links}
    assert wanted - listed <= {first}


def test_no_equation_is_left_as_it_was_typed(pages: dict[Path, Page]) -> None:
    """No dollar signs or backslashes among the words."""
    words = "".join(pages[SITE.resolve() / "algorithms.html"].words)
    assert not re.findall(r"\$|\\[a-z]+", words)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Chromium; where it must be there, it must be there."""
    if PROGRAM is None:
        why = "NOT TESTED: the site in a browser needs chromium (apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with Browser(tmp_path / "profile") as found:
        found.size(1280, 900)
        yield found


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """The site, as a server of one's own has it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("served", [False, True], ids=["from a folder", "from a server"])
def test_the_site_in_a_browser(browser: Browser, address: str, served: bool) -> None:
    """Pages, navigation and equations: no complaint, and no request to anywhere else."""
    where = address if served else SITE.resolve().as_uri()
    for name in ("index", "start", "algorithms", "reference/algorithms", "promises"):
        browser.open(f"{where}/{name}.html")
        listed = browser.ask(
            "[...document.querySelectorAll('.sidebar-tree a')].map(a => a.innerText)"
        )
        assert {"Start", "The algorithms", "Glossary", "Reference"} <= set(listed)
        assert browser.ask("document.documentElement.scrollWidth") <= 1280
    browser.open(f"{where}/index.html")
    browser.wait("[...document.images].some(i => i.offsetWidth > 300 && i.naturalWidth > 300)")
    browser.click('.sidebar-tree a[href="algorithms.html"]')
    browser.wait("document.readyState === 'complete' && document.querySelector('div.math mfrac')")
    # Drawn, not spelled: a fraction's parts stand above each other.
    above, below = browser.ask(
        "[...document.querySelector('div.math mfrac').children].map(e => e.getBoundingClientRect())"
        ".map(b => ({top: b.top, bottom: b.bottom, width: b.width}))"
    )
    assert above["width"] > 5
    assert above["bottom"] <= below["top"] + 3
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith((where, "data:"))] == []


def test_search_finds_an_algorithm(browser: Browser, address: str) -> None:
    """Typed into the field at the side."""
    browser.open(f"{address}/index.html")
    browser.ask("document.querySelector('input[name=q]').value = 'Horvitz'")
    browser.ask("document.querySelector('input[name=q]').form.submit()")
    browser.wait("document.querySelector('#search-results li a')")
    found = browser.ask("[...document.querySelectorAll('#search-results li a')].map(a => a.href)")
    assert any("algorithms.html" in url for url in found)
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith((address, "data:"))] == []


def test_a_narrow_page_fits(browser: Browser) -> None:
    """On a phone nothing but tables, equations and code scrolls to the side, each on its own."""
    browser.size(390, 844, mobile=True)
    for name in ("index", "algorithms", "reference/flower", "the-paper", "speed"):
        browser.open(SITE / f"{name}.html")
        assert browser.ask("document.documentElement.scrollWidth") <= 390, name


def documented() -> Iterator[tuple[str, Any, str]]:
    """Everything in the package whose docstring has sections."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if SECTIONS.search(text):
                    yield f"{path.name}:{node.name}", node, text


def names_of(node: Any) -> set[str]:
    """What a function, or a class when it is made, can be given."""
    if isinstance(node, ast.ClassDef):
        fields = {n.target.id for n in node.body
                  if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}  # fmt: skip
        made = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        return names_of(made[0]) if made else fields
    a = node.args
    found = {arg.arg for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs]}
    return found | ({f"*{a.vararg.arg}"} if a.vararg else set()) | (
        {f"**{a.kwarg.arg}"} if a.kwarg else set()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("node", "text"),
    [pytest.param(node, text, id=name) for name, node, text in documented()],
)
def test_numpydoc_reads_the_docstring_as_it_was_meant(node: Any, text: str) -> None:
    """Each parameter is one that there is, with a type and a sentence."""
    from numpydoc.docscrape import NumpyDocString

    found = NumpyDocString(text)
    for parameter in found["Parameters"]:
        for name in parameter.name.split(", "):
            assert name in names_of(node)
        assert parameter.type or parameter.name.startswith("*"), parameter.name
        assert parameter.desc, parameter.name
    for name in ("Raises", "Yields", "Returns"):
        assert all(entry.desc for entry in found[name]), name
