"""A store or a run of version 0.1.0 in today's format."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from fedadavr.experiments.folder import CHECKPOINT, OLD_CHECKPOINT, RunFolder
from fedadavr.memory.addresses import find_address
from fedadavr.memory.convert import copy_all
from fedadavr.memory.verify import Watch, unwatched
from fedadavr.stores import Record, open_store
from fedadavr.stores.addresses import open_any_store
from fedadavr.stores.format1 import OldStore
from fedadavr.stores.lmdb import BESIDE, lock
from fedadavr.stores.state_format import fill


def is_old_run(path: Path) -> bool:
    """Whether a folder holds a run of version 0.1.0 that was not converted yet."""
    return (path / OLD_CHECKPOINT).is_file() and not (path / CHECKPOINT).exists()


def upgrade_store(
    source: str, key_file: Path | None, watch: Watch = unwatched
) -> tuple[Path, Path]:
    """Convert a store in its folder; the folder, and the old file, which is kept."""
    address = find_address(source)
    with open_any_store(address, key_file, read_only=True) as old:
        if not isinstance(old, OldStore):
            raise ValueError(f"{old.where} has today's format already")
        if not address.startswith("lmdb:"):
            raise ValueError(
                "a store in Redis is converted into another: fedadavr memory convert "
                "'redis://HOST:PORT?name=OLD' 'redis://HOST:PORT?name=NEW'"
            )
        folder = Path(address.removeprefix("lmdb:"))
        kept = folder / "data.mdb.format-1"
        with lock(folder), tempfile.TemporaryDirectory(prefix=BESIDE, dir=folder) as new:
            copy_all(old, f"lmdb:{new}", None, key_file, watch)
            kept.unlink(missing_ok=True)  # of an upgrade cut short
            os.link(folder / "data.mdb", kept)
            (Path(new) / "data.mdb").replace(folder / "data.mdb")
            (folder / "lock.mdb").unlink(missing_ok=True)
    return folder, kept


def upgrade_run(path: Path) -> Path:
    """Put the checkpoint of a run of version 0.1.0 into a store beside it; the old file."""
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
    return old
