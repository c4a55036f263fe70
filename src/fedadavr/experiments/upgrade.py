"""`fedadavr memory upgrade`: a store or a run of version 0.1.0 in today's format."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import tyro

from fedadavr.experiments.folder import CHECKPOINT, OLD_CHECKPOINT, RunFolder
from fedadavr.memory.commands import copy_all, find_address
from fedadavr.stores import Record, open_store
from fedadavr.stores.addresses import open_any_store
from fedadavr.stores.format1 import OldStore
from fedadavr.stores.lmdb import BESIDE, lock
from fedadavr.stores.persistent import fill


def upgrade(
    source: Annotated[str, tyro.conf.Positional], /, encrypt_with: Path | None = None
) -> None:
    """Convert a store or a run's folder of version 0.1.0, in its place; the old files are kept.

    Args:
        source: The run's folder, or its store in a folder; for Redis use `memory convert`.
        encrypt_with: The key file of an encrypted store.
    """
    path = Path(source)
    if (path / OLD_CHECKPOINT).is_file() and not (path / CHECKPOINT).exists():
        upgrade_run(path)
        print(f"{path} can be continued; {path / OLD_CHECKPOINT} is not needed any more")
        return
    address = find_address(source)
    with open_any_store(address, encrypt_with, read_only=True) as old:
        if not isinstance(old, OldStore):
            raise ValueError(f"{old.where} has today's format already")
        if not address.startswith("lmdb:"):
            raise ValueError(
                "a store in Redis is converted into another: fedadavr memory convert "
                "'redis://HOST:PORT?name=OLD' 'redis://HOST:PORT?name=NEW'"
            )
        folder = Path(address.removeprefix("lmdb:"))
        with lock(folder), tempfile.TemporaryDirectory(prefix=BESIDE, dir=folder) as new:
            copy_all(old, f"lmdb:{new}", None, encrypt_with)
            (folder / "data.mdb.format-1").unlink(missing_ok=True)  # of an upgrade cut short
            os.link(folder / "data.mdb", folder / "data.mdb.format-1")
            (Path(new) / "data.mdb").replace(folder / "data.mdb")
            (folder / "lock.mdb").unlink(missing_ok=True)
    print(f"{folder} has today's format; the old file is kept as {folder / 'data.mdb.format-1'}")


def upgrade_run(path: Path) -> None:
    """Put the checkpoint of a run of version 0.1.0 into a store beside it."""
    from safetensors import SafetensorError, safe_open

    from fedadavr.clients import layout_of
    from fedadavr.experiments.run import make_federation, model_name
    from fedadavr.models import build

    experiment = RunFolder(path).experiment().resolved()
    old = path / OLD_CHECKPOINT
    try:
        with safe_open(old, "numpy") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})["fedadavr"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state = fill(about["state"], arrays)
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{old} is damaged ({error}): the run cannot be continued") from None
    federation = make_federation(experiment)
    layout = layout_of(build(model_name(experiment), federation.classes, experiment.seed))
    sizes = {str(k): len(part) for k, part in enumerate(federation.train_parts)}
    new = Path(tempfile.mkdtemp(prefix=BESIDE, dir=path))
    store = open_store(f"lmdb:{new}")
    try:
        server = experiment.server(layout, sizes, store)
        server.load_state_dict(state)
        if server.memory is not None:
            server.memory.adopt({
                client: Record(float(weight), round, data.copy(), server.memory.codec.name,
                               layout.digest, owner, label)
                for (client, weight, round, owner, label), data in zip(
                    about["clients"], arrays["records"], strict=True)
            })  # fmt: skip
        server.commit(
            arrays["w"], round=about["round"], pending=about["pending"],
            experiment=experiment.to_toml(),
        )  # fmt: skip
    finally:
        store.close()
    new.replace(path / CHECKPOINT)
