"""The model in a store, with its names, shapes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr.memory.average import ModelAverage
from fedadavr.memory.verify import AnyStore
from fedadavr.stores.store import StoreError
from fedadavr.vector import Layout


def stored_model(store: AnyStore) -> tuple[int, dict[str, npt.NDArray[Any]]]:
    """The last round, and the arrays of the model that is served, in the model's own order."""
    state = store.state()
    if state is None:
        raise ValueError(f"{store.where} holds no rounds yet, so there is no model in it")
    try:
        layout = Layout({name: tuple(shape) for name, shape in state["layout"].items()})
        w, extra = np.asarray(state["w"], np.float32), state["extra"]
        if w.shape != (layout.size,):
            raise ValueError
        if (kept := state["server"].get("average")) is not None:
            average = ModelAverage(layout)
            average.load_state_dict(kept)
            w = average.served(w)
        arrays: dict[str, Any] = layout.split(w) | dict(extra.get("buffers", {}))
        dtypes = extra.get("dtypes", {})  # stores of 0.1 have none, and float32 then
        names = [*dtypes, *(name for name in arrays if name not in dtypes)]
        found = {name: np.asarray(arrays[name], dtypes.get(name)) for name in names}
        return int(extra.get("round", state["server"]["optimizer"]["steps"])), found
    except (KeyError, TypeError, ValueError, AttributeError):
        raise StoreError(
            f"{store.where}: its model cannot be read: check it with fedadavr memory verify"
        ) from None
