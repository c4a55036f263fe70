"""A model as a file that other programs read: .npz or .safetensors."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SUFFIXES = (".npz", ".safetensors")


def check_suffix(path: Path) -> None:
    """Raise ValueError if no model can be written under such a name."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a model is written as .npz or .safetensors, not as {str(path)!r}")
    if path.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise ValueError(
            f"{path} needs safetensors, which is not installed: pip install safetensors, or "
            "write an .npz"
        )


def write_model(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a model, so that at any moment the file is the old one or the new one, whole.

    Names, order (of an .npz), shapes and dtypes stay; the same model gives the same bytes.

    Parameters
    ----------
    path : Path
        The file; its suffix, .npz or .safetensors, says the format. Its folder must be there.
    arrays : Mapping[str, NDArray]
        The model's arrays, by name.
    """
    check_suffix(path)
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.is_dir():
        raise ValueError(f"{path} cannot be written: it is a folder")
    plain = {name: _little(name, values) for name, values in arrays.items()}
    temporary = path.with_name(path.name + ".new")
    try:
        if path.suffix == ".npz":
            _write_npz(temporary, plain)
        else:
            _write_safetensors(temporary, plain)
        _sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _little(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values in C order and little endian, as both formats have them."""
    values = np.asarray(values, order="C")  # ascontiguousarray makes a number a list of one
    if values.dtype.kind not in "biufc":
        raise ValueError(f"the array {name!r} cannot be written: its dtype is {values.dtype}")
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def _write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    # np.savez takes names as keywords (none may be 'file') and notes the time.
    for name in arrays:
        if "\0" in name or name.removesuffix(".npy") in arrays.keys() - {name}:
            raise ValueError(f"an .npz cannot hold the name {name!r}: write a .safetensors")
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, values, allow_pickle=False)


def _write_safetensors(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    if "__metadata__" in arrays:
        raise ValueError("safetensors cannot hold the name '__metadata__': write an .npz")
    path.touch()
    mode = path.stat().st_mode  # save_file's own is for the owner alone
    try:
        save_file(dict(arrays), path)
        path.chmod(mode)
    except (SafetensorError, KeyError) as error:
        why = str(error).partition(".")[0]
        raise ValueError(f"safetensors cannot hold this model ({why}): write an .npz") from None


def _sync(path: Path) -> None:
    """Have a file, or a folder's entries, safe on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
