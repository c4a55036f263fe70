"""`make torture`: kills and faults over stores and servers, seeded, and what must hold after.

    python -m tests.torture [--faults 1000] [--seed 7] [--only KIND]

A scenario is a federation (of `tests.rounds`) with a store. It meets one fault after the other;
each is drawn from the seed and its own number alone, so that `--seed S --first K --faults 1` meets
fault K again. After each the store must be sound and no round lost that was said to be kept; at
its end a scenario must have the bits of one that met no fault.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from fedadavr.cli.memory import repair
from fedadavr.memory.verify import check
from fedadavr.stores import StoreError, open_store
from fedadavr.stores.record_format import SIZE
from tests.redis_servers import PROGRAM, RedisServer
from tests.rounds import digest, flat, one_round, opened, play, server_on
from tests.seeds import new_seed
from tests.test_stores import flip, spoil

RUN = 8  # faults that one scenario meets
ALGORITHMS = ("fedadavr", "fedadavr-plus", "fedvarp", "scaffold", "fedadam")


class Wrong(AssertionError):
    """Something that must hold does not."""


class Scenario:
    """A store, what was said to be kept in it, and the means to go on with it."""

    def __init__(self, folder: Path, redis: RedisServer | None, rng: random.Random) -> None:
        self.folder, self.redis, self.rng = folder, redis, rng
        kinds = ["lmdb", "lmdb", "redis"] if redis else ["lmdb"]
        self.address = (
            f"lmdb:{folder / 'store'}"
            if rng.choice(kinds) == "lmdb"
            else f"{redis.url if redis else ''}?name={uuid4().hex}"
        )
        self.key: Path | None = None
        if rng.random() < 0.3:
            self.key = folder / "key"
            self.key.write_bytes(b"\7" * 32)
            self.key.chmod(0o600)
        self.name = rng.choice(ALGORITHMS)
        self.codec = rng.choice(["fp32", "fp16", "int8", "int4"])
        self.every = rng.choice([1, 1, 2, 3])
        self.snapshots = rng.choice([None, None, 2])
        self.kept = 0  # the last round that was said to be kept
        self.exact = True  # whether it must end with the bits of one that met no fault

    def __str__(self) -> str:
        kind = self.address.partition(":")[0]
        return f"{kind}{' encrypted' if self.key else ''} {self.name} {self.codec} /{self.every}"

    def server(self, store: Any) -> Any:
        return server_on(store, self.codec, self.name, snapshot_every=self.snapshots)

    def open(self, **options: Any) -> Any:
        return opened(self.address, self.key, **options)

    def child(self, act: Callable[[Callable[[int], None]], None]) -> tuple[int, int]:
        """Run in a process of its own, which says each round that is kept: its id, and the pipe."""
        here, there = os.pipe()
        # Python's own work after a fork would swallow an exception, and the child go on for ever.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            os.close(there)
            return pid, here
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            os.close(here)
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115

            def say(round: int) -> None:
                os.write(there, round.to_bytes(4, "little"))

            act(say)
            os._exit(0)
        except BaseException:
            os._exit(1)

    def rounds(self, say: Callable[[int], None], to: int = 10_000) -> None:
        """Go on from what the store holds."""
        with self.open() as store:
            server = self.server(store)
            say(0)
            w, extra = server.restore() or (_zeros(), {"round": 0})
            for round in range(extra["round"] + 1, to + 1):
                w = one_round(server, w, round)
                if round % self.every == 0:
                    server.commit(w, round=round)
                    say(round)

    def wait(self, pid: int, pipe: int) -> int:
        """Until the process has ended; the last round that it said."""
        with os.fdopen(pipe, "rb") as file:
            said = file.read()
        os.waitpid(pid, 0)
        numbers = np.frombuffer(said[: len(said) // 4 * 4], "<u4")
        return int(numbers.max(initial=0))

    def look(self) -> None:
        """What must hold after any fault."""
        with self.open() as store:
            state = store.state()
            done = 0 if state is None else int(state["extra"]["round"])
            if done < self.kept:
                raise Wrong(f"round {self.kept} was kept, and the store is at {done}")
            if state is not None:
                faults, _ = check(store)
                if faults:
                    raise Wrong(f"after round {done}: {faults}")
            self.kept = done

    def end(self) -> None:
        """What must hold in the end."""
        last = self.kept + 6
        with self.open() as store:
            server = self.server(store)
            final = digest(server, play(server, last, self.every))
            state = server.state_dict()
        if self.exact:
            whole = server_on(None, self.codec, self.name)
            expected = play(whole, last, self.every)
            if final != digest(whole, expected):
                parts = [key for key, part in whole.state_dict().items()
                         if flat(part) != flat(state[key])]  # fmt: skip
                raise Wrong(f"it did not end as one that met no fault: {parts} differ")


def _zeros() -> Any:
    from tests.rounds import LAYOUT

    return LAYOUT.zeros()


# --- faults ---


def kill(scene: Scenario) -> None:
    """SIGKILL at any moment."""
    pid, pipe = scene.child(scene.rounds)
    time.sleep(scene.rng.uniform(0.0, 0.12))
    os.kill(pid, signal.SIGKILL)
    scene.kept = max(scene.kept, scene.wait(pid, pipe))


def stop(scene: Scenario) -> None:
    """SIGTERM or SIGINT at any moment, with no handler of anybody's."""

    def act(say: Callable[[int], None]) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        scene.rounds(say)

    pid, pipe = scene.child(act)
    time.sleep(scene.rng.uniform(0.0, 0.12))
    os.kill(pid, scene.rng.choice([signal.SIGTERM, signal.SIGINT]))
    scene.kept = max(scene.kept, scene.wait(pid, pipe))


def full_disk(scene: Scenario) -> None:
    """Writes fail for some rounds, then there is room again; nothing is lost meanwhile."""
    rng = scene.rng
    if not scene.address.startswith("lmdb:"):
        kill(scene)
        return
    limit, fails = rng.choice([0, 4096, 40_000]), rng.randint(1, 5)
    begin = scene.kept

    def act(say: Callable[[int], None]) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with scene.open() as store:
            server = scene.server(store)
            w, extra = server.restore() or (_zeros(), {"round": 0})
            size = (Path(scene.address.removeprefix("lmdb:")) / "data.mdb").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + limit, resource.RLIM_INFINITY))
            for round in range(extra["round"] + 1, extra["round"] + fails + 4):
                w = one_round(server, w, round)
                if round == extra["round"] + fails:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
                with contextlib.suppress(StoreError):
                    server.commit(w, round=round)
                    say(round)

    pid, pipe = scene.child(act)
    said = scene.wait(pid, pipe)
    if said < begin + fails:
        raise Wrong(f"there was room again, and the last round kept is {said}")
    scene.kept = said


def redis_away(scene: Scenario) -> None:
    """Redis is stopped, or killed and started again, while rounds go on."""
    if scene.address.startswith("lmdb:") or scene.redis is None:
        kill(scene)
        return
    rng = scene.rng
    to = scene.kept + 8 * scene.every
    pid, pipe = scene.child(lambda say: scene.rounds(say, to))
    time.sleep(rng.uniform(0.0, 0.05))
    process = scene.redis._process
    if rng.random() < 0.5:
        process.send_signal(signal.SIGSTOP)
        time.sleep(rng.uniform(0.05, 0.3))
        process.send_signal(signal.SIGCONT)
    else:
        scene.redis.stop()
        time.sleep(rng.uniform(0.0, 0.1))
        scene.redis.start()
    said = scene.wait(pid, pipe)
    if said < to // scene.every * scene.every:
        raise Wrong(f"rounds up to {to} were asked for, {said} were kept")
    scene.kept = said


def bad_byte(scene: Scenario) -> None:
    """A byte of a record changes: it costs that record only, and is told."""
    kill(scene)
    with scene.open() as store:
        clients = sorted(client for client, _ in store.items(data=False))
    if not clients:
        return
    client = scene.rng.choice(clients)
    spoil(scene.address, client, flip(scene.rng.randrange(SIZE + 40)))
    with scene.open() as store:
        faults, _ = check(store)
        if not any(repr(client) in fault for fault in faults):
            raise Wrong(f"the record of {client!r} was spoilt, and verify says {faults}")
    with contextlib.redirect_stdout(io.StringIO()):
        repair(scene.address, scene.key)
    scene.exact = False


def rewind(scene: Scenario) -> None:
    """Back to a snapshot, if there is one."""
    kill(scene)
    scene.snapshots = scene.snapshots or 2
    pid, pipe = scene.child(lambda say: scene.rounds(say, scene.kept + 9))
    scene.kept = max(scene.kept, scene.wait(pid, pipe))
    with scene.open() as store:
        if store.snapshots:
            back = scene.rng.choice(store.snapshots)
            store.rewind(back)
            scene.kept = back


def second_server(scene: Scenario) -> None:
    """Another server opens the store while one has it: refused, and nothing changes."""
    pid, pipe = scene.child(scene.rounds)
    os.read(pipe, 4)  # it has the store
    try:
        open_store(scene.address, scene.key).close()
    except StoreError:
        refused = True
    else:
        refused = False
    os.kill(pid, signal.SIGKILL)
    scene.kept = max(scene.kept, scene.wait(pid, pipe))
    if not refused:
        raise Wrong("two servers had the store at once")


FAULTS: dict[str, tuple[Callable[[Scenario], None], int]] = {
    "kill": (kill, 10),
    "stop": (stop, 4),
    "full disk": (full_disk, 3),
    "redis away": (redis_away, 3),
    "bad byte": (bad_byte, 2),
    "rewind": (rewind, 2),
    "second server": (second_server, 1),
}


def torture(faults: int, seed: int, first: int = 0, only: str | None = None) -> Counter[str]:
    """Meet so many faults; what kinds they were."""
    met: Counter[str] = Counter()
    names = [only] if only else list(FAULTS)
    weights = [FAULTS[name][1] for name in names]
    base = Path(tempfile.mkdtemp(prefix="fedadavr-torture-"))
    redis = RedisServer(base / "redis", killed=True) if PROGRAM else None
    tell = sys.stdout.isatty()
    try:
        for start in range(first, first + faults, RUN):
            rng = random.Random(f"{seed} {start // RUN}")
            folder = base / str(start)
            folder.mkdir()
            scene = Scenario(folder, redis, rng)
            for number in range(start, min(start + RUN, first + faults)):
                name = rng.choices(names, weights)[0]
                where = f"fault {number} of seed {seed} ({name}; {scene})"
                try:
                    FAULTS[name][0](scene)
                    scene.look()
                    if number + 1 in (start + RUN, first + faults):
                        scene.end()
                except BaseException as error:
                    print(f"{where}: {error!r}", flush=True)
                    raise
                met[name] += 1
                if tell:
                    print(f"\r{number + 1 - first} of {faults} faults", end="", flush=True)
            shutil.rmtree(folder)
    finally:
        if redis is not None:
            redis.stop()
        shutil.rmtree(base, ignore_errors=True)
    return met


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="a new one unless given")
    parser.add_argument("--first", type=int, default=0, help="a multiple of 8")
    parser.add_argument("--only", choices=list(FAULTS))
    options = parser.parse_args()
    warm = server_on(None)
    play(warm, 2)  # the kernels are compiled before anything is killed
    began = time.monotonic()
    seed = new_seed() if options.seed is None else options.seed
    met = torture(options.faults, seed, options.first, options.only)
    kinds = ", ".join(f"{number} x {name}" for name, number in met.most_common())
    print(f"\nall held: {met.total()} faults in {time.monotonic() - began:.0f} s ({kinds})")


if __name__ == "__main__":
    main()
