"""Many runs at a time: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fedadavr.processes import ProcessDied, Processes


class Event(NamedTuple):
    """What is heard of a task: `row`, then one of `done`, `refused`, `failed`, `died`."""

    task: int
    kind: str
    what: Any


Do = Callable[[Any, Callable[[dict[str, Any]], None]], Any]
"""Does a task and tells of every round; a function of a module, so that a process can import it."""


def in_processes(do: Do, tasks: Iterable[Any], workers: int) -> Iterator[Event]:
    """Do tasks, as many at a time as there are workers; a task is taken when a process is free.

    A task that fails is told with its reason; the others go on. A process that dies is replaced.
    """
    waiting = enumerate(tasks)
    processes = Processes(workers, _work, do)
    busy: dict[int, int] = {}  # process -> task

    def give(process: int) -> None:
        task = next(waiting, None)
        if task is None:
            return
        busy[process] = task[0]
        try:
            processes.send(process, task[1])
        except ProcessDied:  # with nothing to do: another takes its task
            processes.start(process)
            processes.send(process, task[1])

    try:
        for process in range(workers):
            give(process)
        while busy:
            try:
                process, (kind, what) = processes.receive()
            except ProcessDied as died:
                process, kind, what = died.number, "died", str(died)
                processes.start(process)
            if process not in busy:  # it died when there was nothing left to do
                continue
            if kind == "row":
                yield Event(busy[process], kind, what)
                continue
            yield Event(busy.pop(process), kind, what)
            give(process)
    finally:
        processes.close()


def on_ray(do: Do, tasks: Iterable[Any], workers: int) -> Iterator[Event]:
    """Do tasks on a Ray cluster, the one that $RAY_ADDRESS names, or one made here.

    As many at a time as a cluster of one's own has CPUs; they tell only how they ended.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise ValueError("--on ray needs Ray: pip install ray") from None

    mine = not ray.is_initialized()
    own = None if os.environ.get("RAY_ADDRESS") else workers
    if mine:
        ray.init(num_cpus=own, log_to_driver=False, include_dashboard=False)
    if own is None:
        workers = max(workers, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
    remote = ray.remote(num_cpus=1)(_attempt)
    waiting = enumerate(tasks)
    busy: dict[Any, int] = {}

    def give() -> None:
        task = next(waiting, None)
        if task is not None:
            busy[remote.remote(do, task[1])] = task[0]

    try:
        for _ in range(workers):
            give()
        while busy:
            (reference,), _ = ray.wait(list(busy), num_returns=1)
            task = busy.pop(reference)
            try:
                kind, what = ray.get(reference)
            except ray.exceptions.RayError as error:
                kind, what = "died", f"Ray lost it: {str(error).splitlines()[0]}"
            yield Event(task, kind, what)
            give()
    finally:
        if mine:
            ray.shutdown()


def _attempt(do: Do, task: Any) -> tuple[str, Any]:
    """A task on a machine of the cluster: it tells only how it ended."""
    return _outcome(do, task, lambda row: None)


def _outcome(do: Do, task: Any, tell: Callable[[dict[str, Any]], None]) -> tuple[str, Any]:
    try:
        return "done", do(task, tell)
    except ValueError as error:
        return "refused", str(error)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise
    except Exception:
        return "failed", traceback.format_exc()


def _work(line: Any, do: Do) -> None:
    """A process that does one task after the other."""

    def tell(row: dict[str, Any]) -> None:
        slim = {key: row[key] for key in ("round", "accuracy", "loss", "elapsed") if key in row}
        line.send(("row", slim))

    while True:
        line.send(_outcome(do, line.recv(), tell))
