"""Promise 2, for signals: SIGTERM and Ctrl-C at any moment leave whole rounds, and no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm, kernels
from fedadavr.algorithms.server_state import Torn
from fedadavr.experiments.folder import RunFolder
from fedadavr.memory.verify import check
from fedadavr.signals import Hold, Stop
from fedadavr.stores import open_store
from fedadavr.stores.lmdb import LmdbStore
from fedadavr.stores.persistent import PersistentStore
from tests.redis_servers import wait_for
from tests.rounds import digest
from tests.seeds import new_rng
from tests.test_runs import children_of, outcome

ROOT = Path(__file__).parent.parent


def sound(address: str) -> int:
    """How many rounds a store holds; it is what `verify` says to be sound."""
    with open_store(address) as store:  # type: ignore[union-attr]
        assert isinstance(store, PersistentStore)
        state = store.state()
        if state is None:
            return 0
        assert check(store)[0] == []
        return int(state["extra"]["round"])


def federate(address: str, rounds: int, every: int, threads: int, *told: object) -> Any:
    """The rounds of `tests.flower_grid` in a process: what it says, and how it ends."""
    words = [sys.executable, "-u", "-m", "tests.flower_grid", address]
    words += [str(n) for n in (rounds, every, threads, SIZE, *told)]
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip


def last_state(address: str) -> str:
    """All bits of what a store holds."""
    with open_store(address) as store:  # type: ignore[union-attr]
        server = algorithm("fedadavr", Layout({"x": (SIZE,), "y": (3,)}), codec="int8",
                           server_lr=0.1, store=store)  # fmt: skip
        kept = server.restore()
        assert kept is not None
        return digest(server, kept[0])


SIZE = 2_000_000  # a step takes long enough to be hit


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_any_moment_leaves_whole_rounds(
    number: signal.Signals, threads: int, tmp_path: Path
) -> None:
    """With a commit every third round; the run that goes on ends as one never interrupted."""
    address = f"lmdb:{tmp_path / 'store'}"
    rng = new_rng()
    reached = 0
    for _ in range(3):
        at = rng.randint(2, 4), rng.uniform(0, 0.1)  # in the step, the commit, or soon after
        ended = federate(address, 1000, 3, threads, int(number), *at)
        assert ended.returncode == (0 if number == signal.SIGTERM else -signal.SIGINT), ended.stderr
        said = [int(line) for line in ended.stdout.splitlines()]
        done = sound(address)
        assert done >= max(said), "a round that was made is lost"
        assert reached + at[0] - 1 <= done <= reached + at[0] + 3
        reached = done
    assert federate(address, reached + 2, 3, threads).returncode == 0
    assert sound(address) == reached + 2
    whole = f"lmdb:{tmp_path / 'whole'}"
    federate(whole, reached + 2, 3, 1)
    assert last_state(address) == last_state(whole)


# --- the parts ---


LAYOUT = Layout({"x": (700_000,)})


def updates(w: Any, round: int) -> list[Update]:
    rng = np.random.default_rng(round)
    return [Update(c, w - rng.random(w.size, np.float32) / 8, 5 + round) for c in ("a", str(round))]


class Broken(Exception):
    pass


@pytest.mark.parametrize("threads", [1, 3])
def test_a_step_broken_off_is_never_committed(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised in its middle: the server refuses to go on, the store is as it was."""
    before = kernels.threads()
    kernels.set_threads(threads)
    try:
        with LmdbStore(tmp_path / "s") as store:
            server = algorithm("fedadavr", LAYOUT, codec="int8", store=store)
            w = server.step(LAYOUT.zeros(), updates(LAYOUT.zeros(), 1))
            server.commit(w, round=1)
            advance = kernels.advance

            def half(lo: int, hi: int, *args: Any) -> None:
                advance(lo, (lo + hi) // 2, *args)
                raise Broken  # perhaps in a helper thread

            kernels.running._ready.add(half)
            monkeypatch.setattr(kernels, "advance", half)
            with pytest.raises(Broken):
                server.step(w, updates(w, 2))
            monkeypatch.undo()
            for go_on in (lambda: server.commit(w, round=2), lambda: server.step(w, updates(w, 2))):
                with pytest.raises(Torn, match="broken off half-way"):
                    go_on()
            assert check(store)[0] == []
            kept = server.restore()  # which makes it whole again
            assert kept is not None
            server.step(kept[0], updates(kept[0], 2))
    finally:
        kernels.set_threads(before)


def test_helper_threads_have_ended_when_an_exception_leaves() -> None:
    """Nobody writes any more; also when a signal comes while they are waited for."""
    before = kernels.threads()
    kernels.set_threads(3)
    blocks = LAYOUT.blocks
    main, working = threading.main_thread(), threading.Event()
    ended: list[str] = []

    def kernel(lo: int, hi: int, *_: Any) -> None:
        if threading.current_thread() is main:
            working.wait(10)
            os.kill(os.getpid(), signal.SIGINT)  # and a second one, in the join
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            raise Broken
        working.set()
        time.sleep(0.02)
        ended.append(threading.current_thread().name)

    kernels.running._ready.add(kernel)
    try:
        with pytest.raises((Broken, KeyboardInterrupt)):
            kernels.run(kernel, blocks)
        count = len(ended)
        time.sleep(0.1)
        assert len(ended) == count > 0
    finally:
        kernels.set_threads(before)


def test_signals_wait_and_are_then_handled() -> None:
    """In order, each as its own handler says; and they are as before afterwards."""
    came: list[int] = []
    before = {n: signal.signal(n, lambda number, _: came.append(number))
              for n in (signal.SIGINT, signal.SIGTERM)}  # fmt: skip
    try:
        handler = signal.getsignal(signal.SIGTERM)
        with Hold():
            signal.raise_signal(signal.SIGTERM)
            with Hold():
                signal.raise_signal(signal.SIGINT)
            assert came == []
        assert came == [signal.SIGTERM, signal.SIGINT]
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    """Ctrl-C or SIGTERM, in any order."""
    for first in (signal.SIGINT, signal.SIGTERM):
        with Stop() as stop:
            signal.raise_signal(first)
            assert stop.asked
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


# --- `fedadavr run` ---


def running(mine: str, out: Path, *words: str, resume: bool = False) -> Any:
    given = ["--resume", str(out), "--load", mine] if resume else [
        "--load", mine, "--dataset", "blobs", "--model", "mlp", "--clients", "20", "--seed", "7",
        "--rounds", "100000", "--out", str(out)]  # fmt: skip
    command = [sys.executable, "-c", "from fedadavr.cli import main; main()", "run"]
    return subprocess.Popen(
        [*command, *given, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def lines(out: Path) -> int:
    return len(RunFolder(out).rows()) if (out / "metrics.jsonl").exists() else 0


def beyond(out: Path, number: int) -> bool:
    return lines(out) > number


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_ends_a_run_after_its_round(workers: str, mine: str, tmp_path: Path) -> None:
    """With a checkpoint, also where the whole group gets it, as from systemd; then it goes on."""
    out = tmp_path / "run"
    process = running(mine, out, "--workers", workers, "--checkpoint-every", "0")
    wait_for(lambda: lines(out) >= 2, "the run", 90)
    children = children_of(process.pid)
    os.killpg(process.pid, signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert "Traceback" not in error
    assert f"go on with: fedadavr run --resume {out} --load {mine}" in error
    wait_for(lambda: not any(Path(f"/proc/{c}").exists() for c in children), "the workers' end")
    done = lines(out)
    again = running(mine, out, "--rounds", str(done + 3), "--json", resume=True)
    told, error = again.communicate(timeout=60)
    assert json.loads(told.splitlines()[-1])["rounds"] == done + 3, error
    whole = running(mine, tmp_path / "whole", "--rounds", str(done + 3))
    whole.communicate(timeout=60)
    assert outcome(out)[0] == outcome(tmp_path / "whole")[0]


@pytest.mark.parametrize("store", [False, True])
def test_a_second_signal_leaves_whole_rounds(store: bool, mine: str, tmp_path: Path) -> None:
    """At seeded moments, in a step or a commit: what is kept is sound, and goes on."""
    rng = new_rng()
    out, address = tmp_path / "run", f"lmdb:{tmp_path / 'store'}"
    words = ["--store", address, "--commit-every", "3"] if store else ["--checkpoint-every", "3"]
    process = running(mine, out, *words)
    for _ in range(4):
        wait_for(partial(beyond, out, lines(out) + rng.randint(3, 6)), "the run", 90)
        for _ in range(2):
            process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
            time.sleep(rng.uniform(0, 0.004))
        _, error = process.communicate(timeout=60)
        # The second may find the run interrupted, the command closing its store, or its end.
        assert process.returncode in (0, 130, 143, -signal.SIGTERM, -signal.SIGINT), error
        assert "Traceback" not in error
        if store:
            sound(address)
        process = running(mine, out, resume=True)
    process.kill()
    process.communicate()
    done = max(sound(address) if store else 0, lines(out)) + 4
    running(mine, out, "--rounds", str(done), resume=True).communicate(timeout=60)
    running(mine, tmp_path / "whole", "--rounds", str(done)).communicate(timeout=60)

    def rows(path: Path) -> list[Any]:
        return [(row["round"], row["train_loss"], row.get("accuracy"))
                for row in RunFolder(path).rows()]  # fmt: skip

    assert rows(out) == rows(tmp_path / "whole")
