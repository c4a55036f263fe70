"""Links that lead out of docs/: to the site's page of that file, else to the repository."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}


def rewrite(app: Sphinx, name: str, source: list[str]) -> None:
    """As on the site; in the files links are as one who reads them in the repository needs them."""

    def target(found: re.Match[str]) -> str:
        path, hash, anchor = found[1].partition("#")
        page = PAGES.get(path, f"{app.config.repository}/blob/main/{path}")
        return f"]({page}{hash}{anchor})"

    source[0] = re.sub(r"\]\(\.\./([^)\s]+)\)", target, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """`repository` is its address."""
    app.add_config_value("repository", "", "env", str)
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
