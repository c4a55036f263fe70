"""A codec, an optimizer, a memory and a store from outside: one file each."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.algorithms.registry import ALGORITHMS
from fedadavr.codecs import CODECS
from fedadavr.memory.vectors import MEMORIES
from fedadavr.optimizers import OPTIMIZERS
from fedadavr.plugins import load_file
from fedadavr.stores import open_store
from fedadavr.stores.store import STORES
from tests.rounds import one_round

LAYOUT = Layout({"a": (40, 30), "b": (31,), "c": (7, 3)})

CODEC = """
    import numpy as np
    from numba import carray
    from fedadavr.codecs import CODECS, Codec
    from fedadavr.kernels import codec_function, pointer

    TOP = {top}

    @codec_function
    def decode(data, first, count, scale, values, scratch):
        stored = carray(pointer(data + 2 * first), count, np.int16)
        y = carray(pointer(values), count, np.float32)
        for j in range(count):
            y[j] = np.float32(stored[j]) * scale

    @codec_function
    def encode(data, first, count, scale, values, scratch):
        stored = carray(pointer(data + 2 * first), count, np.int16)
        s = carray(pointer(values), count, np.float32)
        for j in range(count):
            x = np.rint(s[j] / scale)
            stored[j] = np.int16(np.int32(x))
            s[j] = x * scale

    CODECS.add("int16", Codec("int16", 16, encode, decode, levels=TOP))
"""
OPTIMIZER = """
    import numpy as np
    from numba import carray
    from fedadavr.kernels import optimizer_function, pointer
    from fedadavr.optimizers import OPTIMIZERS, Rule

    @optimizer_function
    def direct(gradient, m, v, direction, count, hyper):
        g = carray(pointer(gradient), count, np.float32)
        u = carray(pointer(direction), count, np.float32)
        for j in range(count):
            u[j] = np.sign(g[j])

    OPTIMIZERS.add("sign", Rule(direct, lr=0.5))
"""
MEMORY = """
    import numpy as np
    from fedadavr.memory.kinds import Kinds
    from fedadavr.memory.vectors import MEMORIES

    @MEMORIES.named("everybody")
    def everybody(layout, settings):
        '''One vector for all clients.'''
        return Kinds(layout, 1, -1.0, settings["center_rate"])
"""
STORE = """
    from fedadavr.stores.ram import RamStore
    from fedadavr.stores.store import STORES

    @STORES.named("shelf")
    def shelf(address, *, key, read_only, must_exist):
        store = RamStore()
        store.label = address
        return store
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with ExitStack() as stack:
        for registry in (ALGORITHMS, CODECS, OPTIMIZERS, MEMORIES, STORES):
            stack.enter_context(registry.unchanged())
        yield


def loaded(folder: Path, text: str, **words: Any) -> None:
    path = folder / "mine.py"
    path.write_text(textwrap.dedent(text).format(**words) if words else textwrap.dedent(text))
    load_file(str(path))


def test_a_codec_of_ones_own(tmp_path: Path) -> None:
    """It stores what it says, the total follows, and an unknown name lists it."""
    loaded(tmp_path, CODEC, top=32767)
    server: Any = algorithm("fedadavr", LAYOUT, codec="int16", population=30, server_lr=0.1)
    w = LAYOUT.zeros()
    for round in range(1, 6):
        w = one_round(server, w, round)
    assert server.memory.nbytes == len(server.memory) * (12 + 2 * LAYOUT.size)
    np.testing.assert_allclose(server.memory.total, server.memory.resum(), atol=1e-9)
    exact: Any = algorithm("fedadavr", LAYOUT, population=30, server_lr=0.1)
    x = LAYOUT.zeros()
    for round in range(1, 6):
        x = one_round(exact, x, round)
    np.testing.assert_allclose(w, x, atol=1e-2)
    with pytest.raises(ValueError, match="int16"):
        algorithm("fedadavr", LAYOUT, codec="int5")


FORGETS = """
from dataclasses import dataclass, field
from fedadavr.algorithms import Direction, Remembering, register

@register("forgets")
class Forgets(Remembering):
    \"\"\"It counts who came, and says nothing of it to a commit.\"\"\"

    def __post_init__(self):
        super().__post_init__()
        self.came = {}

    def direction(self, cohort):
        for client in cohort.clients:
            self.came[client] = self.came.get(client, 0) + 1
        return Direction(gain=cohort.even, recall=cohort.even, base=1 / cohort.count)

@register("remembers")
class Remembers(Forgets):
    \"\"\"It does say so.\"\"\"

    def state_dict(self, *, copy=True):
        return super().state_dict(copy=copy) | {"came": dict(self.came)}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.came = dict(state["came"])
"""


def test_what_an_algorithm_of_ones_own_keeps_and_does_not_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be gone after a resume, and the run would be another: so it is said, once."""
    loaded(tmp_path, FORGETS)
    layout = Layout({"x": (8,)})
    for name, warned in (("forgets", 1), ("remembers", 0), ("fedadavr-plus", 0)):
        caplog.clear()
        store = open_store(f"lmdb:{tmp_path / name}")
        server, w = algorithm(name, layout, store=store), layout.zeros()
        for round in (1, 2):
            w = server.step(w, [Update(c, w + 1, 10) for c in "abc"])
            server.commit(w, round=round)
        store.close()
        found = [line for line in caplog.messages if "'came' is not saved" in line]
        assert len(found) == warned


def test_an_optimizer_of_ones_own(tmp_path: Path) -> None:
    """signSGD: every coordinate moves by the rate."""
    loaded(tmp_path, OPTIMIZER)
    server = algorithm("fedadavr", LAYOUT, optimizer="sign")
    w = server.step(LAYOUT.zeros(), [Update("a", LAYOUT.zeros() + 1, 3)])
    np.testing.assert_array_equal(w, LAYOUT.zeros() + np.float32(0.5))


def test_a_memory_of_ones_own(tmp_path: Path) -> None:
    """FedAdaVR+ with one vector for everybody, beside each client's own."""
    loaded(tmp_path, MEMORY)
    server: Any = algorithm("fedadavr-plus", LAYOUT, memories="own+everybody", population=30)
    w = LAYOUT.zeros()
    for round in range(1, 6):
        w = one_round(server, w, round)
    assert len(server.vectors) == 1
    assert set(server.report()["trust"]) == {"own", "everybody"}
    with pytest.raises(ValueError, match="own and one other"):
        algorithm("fedadavr-plus", LAYOUT, memories="centers+everybody")


def test_a_store_of_ones_own(tmp_path: Path) -> None:
    """Opened by the scheme of its address, as ours are."""
    loaded(tmp_path, STORE)
    store: Any = open_store("shelf:top")
    assert store.label == "shelf:top"
    with pytest.raises(ValueError, match=r"no store has the address 'drawer:1'.*shelf:"):
        open_store("drawer:1")


# --- numba's cache ---

COUNTING = """
import sys
from numba.core import event
compiled = []

class Listener(event.Listener):
    def on_start(self, e):
        compiled.append(str(e.data["dispatcher"]))
    def on_end(self, e):
        pass

event.register("numba:compile", Listener())
from fedadavr.plugins import load_file
load_file(sys.argv[1])
import numpy as np
from fedadavr import Layout, Update, algorithm
from fedadavr.codecs import CODECS
layout = Layout({"x": (3000,)})
w = layout.zeros()
hits = []
for name, settings in (("fedadavr", {"codec": "int16"}), ("fedadavr-plus", {"optimizer": "lamb"})):
    server = algorithm(name, layout, **settings)
    w = server.step(w, [Update(c, w - np.linspace(0, i + 1, 3000, dtype="f4"), 5)
                        for i, c in enumerate("abc")])
    codec, rule = server.memory.codec, server.server_optimizer.rule
    hits += [f.cache_hits for f in (codec.encode_block, codec.decode_block, rule.move, rule.direct)]
server = algorithm("fedadavr", layout, codec="int16")
server.step(w, [Update("a", w - np.linspace(0, 1, 3000, dtype="f4"), 5)])
print(len(compiled), min(hits), server.memory.update_of("a")[1500].item())
"""


def test_a_second_process_compiles_nothing_and_an_edit_is_seen(tmp_path: Path) -> None:
    """Every pass and block function comes from the cache; a codec that is edited does not."""
    mine, cache = tmp_path / "mine.py", tmp_path / "cache"
    environment = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": ":".join(sys.path), "PATH": ""}

    def run() -> tuple[int, int, float]:
        done = subprocess.run(
            [sys.executable, "-c", COUNTING, str(mine)], env=environment, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        compiled, hits, value = done.stdout.split()
        return int(compiled), int(hits), float(value)

    mine.write_text(textwrap.dedent(CODEC).format(top=32767))
    compiled, hits, fine = run()
    assert compiled > 0
    assert hits == 0
    assert run() == (0, 1, fine)
    mine.write_text(
        textwrap.dedent(CODEC)
        .format(top=32767)
        .replace("y[j] = np.float32(stored[j]) * scale", "y[j] = np.float32(stored[j]) * scale + 9")
    )
    assert run()[2] == pytest.approx(fine + 9)
