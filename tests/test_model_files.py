"""A model's file: what is read back is what was written, and at any moment it is whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr.model_files import check_suffix, write_model

ODD: dict[str, Any] = {
    "file": np.arange(6.0).reshape(2, 3).T,  # a keyword of np.savez, and not in C order
    "a/b.weight": np.array([1, -2], ">i8"),
    "number": np.array(7, np.float16),
    "empty": np.zeros((0, 3), np.float32),
    "mask": np.array([True, False]),
}


def read(path: Path) -> dict[str, Any]:
    """A model's file, as others read it."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    from safetensors.numpy import load_file

    return load_file(path)


suffixes = pytest.mark.parametrize("suffix", [".npz", ".safetensors"])


@suffixes
def test_others_read_what_was_written(suffix: str, tmp_path: Path) -> None:
    """Names, shapes, dtypes and values; the same bytes again; and open to whom files are."""
    path = tmp_path / f"model{suffix}"
    write_model(path, ODD)
    there = read(path)
    assert there.keys() == ODD.keys()
    for name, values in ODD.items():
        np.testing.assert_array_equal(there[name], values)
        assert there[name].shape == values.shape
        assert there[name].dtype == values.dtype.newbyteorder("=")
    before = path.read_bytes()
    write_model(path, ODD)
    assert path.read_bytes() == before
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


@suffixes
def test_a_model_is_whole_on_the_disk_before_it_takes_its_place(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else a power cut leaves the new name with nothing in it."""
    path, events = tmp_path / f"model{suffix}", []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(handle: int) -> None:
        fsync(handle)
        events.append((os.fstat(handle).st_ino, os.fstat(handle).st_size))

    def noted_replace(source: Path, target: Path) -> Path:
        events.append((0, 0))
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    write_model(path, ODD)
    (file, size), moved, (folder, _) = events
    assert (file, size) == (path.stat().st_ino, path.stat().st_size)
    assert (moved, folder) == ((0, 0), tmp_path.stat().st_ino)


@suffixes
def test_a_write_that_fails_leaves_the_old_model(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing beside it."""
    path = tmp_path / f"model{suffix}"
    write_model(path, {"a": np.ones(3)})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_model(path, {"a": np.zeros(3)})
    np.testing.assert_array_equal(read(path)["a"], np.ones(3))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["model", "model.pt", "model.npz.gz", ".npz"])
def test_another_suffix_is_refused(name: str) -> None:
    """Before any work."""
    with pytest.raises(ValueError, match=r"as \.npz or \.safetensors, not as"):
        check_suffix(Path(name))


def test_safetensors_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, before any work; .npz does without."""
    monkeypatch.setitem(sys.modules, "safetensors", None)
    check_suffix(Path("model.npz"))
    with pytest.raises(ValueError, match="pip install safetensors, or write"):
        check_suffix(Path("model.safetensors"))


@pytest.mark.parametrize(
    ("file", "arrays", "message"),
    [
        ("no/m.npz", {}, "there is no folder"),
        ("folder.npz", {}, "it is a folder"),
        ("m.npz", {"a": np.array(["x"])}, "the array 'a' cannot be written: its dtype is <U1"),
        ("m.npz", {"a\0b": np.ones(1)}, "an .npz cannot hold the name"),
        ("m.npz", {"a": np.ones(1), "a.npy": np.ones(1)}, "cannot hold the name 'a.npy'"),
        ("m.safetensors", {"a": np.ones(1, complex)}, "safetensors cannot hold this model"),
        ("m.safetensors", {"__metadata__": np.ones(1)}, "cannot hold the name '__metadata__'"),
    ],
)
def test_what_cannot_be_written_is_said(
    file: str, arrays: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """One sentence, and no file."""
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match=message):
        write_model(tmp_path / file, arrays)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.npz"]
