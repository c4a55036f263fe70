"""What a server computes has not changed since version 0.1: see `golden.py`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests import golden

GOLDEN = json.loads(golden.PLACE.read_text())


@pytest.mark.parametrize("case", list(golden.CASES))
def test_golden(case: str) -> None:
    """Every algorithm, codec and optimizer, some rounds on synthetic replies."""
    found, expected = golden.figures(case), GOLDEN[case]
    assert list(found) == list(expected)
    if golden.exact(case):
        assert found == expected
    else:
        for name, numbers in expected.items():
            scale = max(map(abs, numbers), default=0.0)
            np.testing.assert_allclose(
                found[name], numbers, rtol=1e-6, atol=1e-6 * scale, err_msg=name
            )
