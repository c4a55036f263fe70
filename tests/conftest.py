"""What several tests need."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def mine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file that docs/your-own.md shows: a small data set, model and algorithm."""
    text = (ROOT / "docs" / "your-own.md").read_text()
    code = re.search(r"```python\n# mine.py\n(.*?)```", text, re.DOTALL)
    assert code
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(code.group(1))
    return str(path)


@pytest.fixture
def full_data() -> Path:
    """The folder with the full data sets; without it, the test says what it needs."""
    given = os.environ.get("FEDADAVR_DATA")
    if not given:
        pytest.skip("needs the full data sets: set FEDADAVR_DATA to their folder")
    return Path(given)
