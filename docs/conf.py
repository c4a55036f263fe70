"""The site: `make docs` builds it from these pages and the docstrings, into docs/_build."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import fedadavr

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent / "_sphinx"))

project = "fedadavr"
author = "the authors of fedadavr"
copyright = "the authors of fedadavr, Apache-2.0"
version = release = fedadavr.__version__
repository = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "mathml", "links", "settings_tables"]
exclude_patterns = ["_build", "_sphinx"]
nitpicky = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "fedadavr"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_domain_indices = False

highlight_language = "bash"  # of blocks that name none
default_role = "code"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Other packages are not on this site; of ours, these are no part of the reference.
OTHERS = "numpy torch flwr lmdb redis collections typing types pathlib abc"
INNER = "Support ServerState CohortRecords RecordTable Backend PendingEvaluation"
ALIASES = "Rate Vector Floats Parts Weights TrustRatio Message nn.Module"  # as the source has them
nitpick_ignore_regex = [
    ("py:.*", rf"({OTHERS.replace(' ', '|')})\..*"),
    ("py:class", r"fedadavr\.(kernels|models\.fast)\..*"),
    ("py:class", rf"fedadavr\..*\.(_\w+|[A-Z]|{INNER.replace(' ', '|')})"),
    ("py:class", rf"{ALIASES.replace(' ', '|')}|dict\[str"),
]
ARRAY = r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?numpy\.(\w+)\]\]"
NAMED = {"float32": "Vector", "float64": "Floats"}


def plain_bars(app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """In docstrings |S| is a number; reStructuredText would look for something to put there."""
    for place, line in enumerate(lines):
        words = re.split(r"(`[^`]*`)", line)
        lines[place] = "".join(w if w[:1] == "`" else w.replace("|", r"\|") for w in words)


def short_arrays(*about: Any) -> tuple[str | None, str | None]:
    """Arrays by the names that the source has for them, in a signature and what it returns."""
    first, second = (
        part and re.sub(ARRAY, lambda m: NAMED.get(m[1], m[0]), part) for part in about[-2:]
    )
    return first, second


def setup(app: Any) -> None:
    """What no extension does."""
    app.connect("autodoc-process-docstring", plain_bars, priority=900)  # after numpydoc
    app.connect("autodoc-process-signature", short_arrays, priority=900)
