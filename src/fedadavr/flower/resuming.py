"""Whether a store's rounds are ones that this strategy can go on from, and may."""

from __future__ import annotations

from collections.abc import Mapping
from logging import WARNING
from typing import Any, Literal, get_args

from fedadavr.flower.arrays import Model
from fedadavr.flower.log import log
from fedadavr.stores.addresses import absolute, public

Resume = Literal["auto", "never", "require"]


def check_resume(resume: str, store: str | None) -> None:
    """Raise if there is no such way to go on."""
    if resume not in get_args(Resume):
        raise ValueError(f"resume must be 'auto', 'never' or 'require', got {resume!r}")
    if resume == "require" and store is None:
        raise ValueError("resume='require' goes with a store: say store='lmdb:FOLDER', too")


def anew(where: str) -> str:
    """How to begin again, as a part of a sentence."""
    return f"begin anew with `fedadavr memory reset {where}` or with another store"


def fixed(address: str | None) -> str | None:
    """An address that means the same in any folder: a ServerApp's may be another in each run."""
    if address is None or absolute(address) == address:
        return address
    log(WARNING, "the store %s is relative, to the folder that this app happens to run in: it is "
        "%s now; say so, to find it again", public(address), absolute(address))  # fmt: skip
    return absolute(address)


def check_state(
    state: Mapping[str, Any] | None, resume: str, algorithm: str, model: Model, where: str
) -> None:
    """Raise if what a store holds is not what it should, before anything is changed."""
    if state is None:
        if resume == "require":
            raise ValueError(
                f"{where} holds no rounds, and resume='require': check its address, or say "
                "resume='auto'"
            )
        return
    if resume == "never":
        done = _inside(state, "extra", "round") or "some"
        raise ValueError(
            f"{where} holds {done} rounds, and resume='never': {anew(where)}, or say resume='auto'"
        )
    there = _inside(state, "server", "algorithm")
    if isinstance(there, str) and there != algorithm:
        raise ValueError(
            f"{where} holds rounds of {there}, not of {algorithm}: go on with {there}, or "
            f"{anew(where)}"
        )
    _check_shapes(state.get("layout"), model, where)


def _inside(state: Mapping[str, Any], part: str, name: str) -> Any:
    """An entry of a part of a state; None where it is damaged."""
    inner = state.get(part)
    return inner.get(name) if isinstance(inner, dict) else None


def _check_shapes(there: Any, model: Model, where: str) -> None:
    if not isinstance(there, dict):
        return  # it is damaged: restoring it will say so
    mine = {name: list(shape) for name, shape in model.layout.shapes.items()}
    for name in [*there, *mine]:
        if there.get(name) != mine.get(name):
            theirs, this = (f"{where[name]}" if name in where else "none"
                            for where in (there, mine))  # fmt: skip
            raise ValueError(
                f"{where} holds another model: the shape of its array {name!r} is {theirs}, that "
                f"of the one passed {this}; pass the model that the store has, or {anew(where)}"
            )


def check_extra(extra: Mapping[str, Any], model: Model, where: str, seed: int) -> None:
    """Raise if what was kept beside the server's state is not this model's."""
    if not {"buffers", "round", "seed"} <= extra.keys():
        raise ValueError(f"{where} was not written by a Flower strategy: use another store")
    there, mine = extra["buffers"], model.buffers
    if set(there) != set(mine):
        raise ValueError(
            f"the model in {where} has the buffers {sorted(there)}, this one {sorted(mine)}: name "
            f"the same in buffers=, or {anew(where)}"
        )
    for name in mine:
        kind = model.roles[name]
        if there[name].shape != kind.shape or there[name].dtype != kind.dtype:
            raise ValueError(
                f"the buffer {name!r} is {kind.dtype} of shape {kind.shape}, in {where} "
                f"{there[name].dtype} of {there[name].shape}: pass the model that the store has, "
                f"or {anew(where)}"
            )
    if extra["seed"] != seed:
        log(WARNING, "the rounds so far were sampled with seed %s, not %s", extra["seed"], seed)
