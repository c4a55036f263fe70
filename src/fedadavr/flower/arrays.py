"""Flower's arrays and our flat vectors: views of what came in, and bytes of what goes out."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord

from fedadavr.flower.scratch import bytes_of
from fedadavr.vector import Layout, Vector

NUMPY = "numpy.ndarray"
MEANS = ("running_mean", "moving_mean")  # how the names of batch normalization's means end
BUFFERS = (*MEANS, "running_var", "moving_variance", "moving_var", "num_batches_tracked")

Values = npt.NDArray[Any]

_headers: dict[bytes, tuple[np.dtype[Any], tuple[int, ...]]] = {}


class BadArrays(ValueError):
    """Arrays that are not those of the model; the message says which, and how."""


def view(array: Array) -> Values:
    """The values of an array as it came in, read in place."""
    data = bytes_of(array)
    if array.stype != NUMPY or data[:6] != b"\x93NUMPY" or data[6:7] not in (b"\1", b"\2"):
        raise BadArrays(f"is of a kind that cannot be read ({array.stype})")
    start, width = (10, 2) if data[6] == 1 else (12, 4)
    end = start + int.from_bytes(data[8 : 8 + width], "little")
    header = bytes(data[:end])
    if header not in _headers:
        file = io.BytesIO(header)
        np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if data[6] == 1 else (
            np.lib.format.read_array_header_2_0)  # fmt: skip
        try:
            shape, fortran, dtype = read(file)
        except ValueError as error:
            raise BadArrays(f"has a header that cannot be read: {error}") from None
        if dtype.hasobject or (fortran and len(shape) > 1):
            return array.numpy()
        if len(_headers) > 10_000:
            _headers.clear()
        _headers[header] = dtype, shape
    dtype, shape = _headers[header]
    count = math.prod(shape)
    if len(data) != end + count * dtype.itemsize:
        raise BadArrays(f"has {len(data) - end} bytes where its header says {count} {dtype}")
    return np.frombuffer(data, dtype, count, end).reshape(shape)


@dataclass(frozen=True)
class ArrayRole:
    """What an array must be."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    header: bytes


class Model:
    """The arrays of a model: which are parameters, which are buffers, and how they travel.

    Parameters are optimized and remembered. Buffers are not: arrays that are not floating, running
    statistics, empty arrays, those that hold infinity (as a mask of attention does: `constant`,
    which stay as they are), and those named in `buffers`; they are averaged and keep their dtype.
    What comes in another floating dtype, or whole numbers in another integer's, is cast to the
    model's; `cast` is one such array, as a sentence.
    """

    def __init__(
        self, arrays: ArrayRecord, buffers: Sequence[str] = (), nameless: Sequence[str] = ()
    ) -> None:
        for name in buffers:
            if name not in arrays:
                raise ValueError(f"buffers: the model has no array {name!r}")
        self.roles: dict[str, ArrayRole] = {}
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.constant: dict[str, Values] = {}
        self._nameless = frozenset(nameless)
        self.cast = ""
        for name, array in arrays.items():
            values = _named(name, array)
            self.roles[name] = ArrayRole(values.dtype, values.shape, _header(values))
            still = not np.issubdtype(values.dtype, np.floating)
            if still and values.dtype == np.uint8 and name not in buffers:
                raise ValueError(
                    f"the array {name!r} is uint8, as packed or bfloat16 weights and the bytes of "
                    "trees (XGBoost) travel, which have no mean: send float32, or name it in "
                    "buffers= if it is one"
                )
            named = name.endswith(BUFFERS) or name in nameless or name in buffers
            is_buffer = still or not values.size or named
            if not still and np.isinf(values).any():
                is_buffer, self.constant[name] = True, values.copy()
            if not still and np.isnan(values).any():
                raise ValueError(f"the array {name!r} of the model holds NaN")
            (self.buffers if is_buffer else self.parameters).append(name)
        if not self.parameters:
            raise ValueError("the model has no parameters: no array of it is floating and finite")
        self.layout = Layout({name: self.roles[name].shape for name in self.parameters})

    def __str__(self) -> str:
        kinds = dict.fromkeys(str(self.roles[name].dtype) for name in self.parameters)
        return (
            f"{self.layout.size:,} parameters in {len(self.parameters)} arrays, "
            f"{len(self.buffers)} buffers; {', '.join(kinds)}"
        )

    @property
    def dtypes(self) -> dict[str, str]:
        """The dtype of each array, in their order."""
        return {name: str(role.dtype) for name, role in self.roles.items()}

    @property
    def statistics(self) -> list[str]:
        """The buffers that are statistics of one model, as batch normalization has them."""
        return [n for n in self.buffers if n.endswith(BUFFERS) or n in self._nameless]

    @property
    def means(self) -> list[str]:
        """The statistics that may be negative; of those without names the first of each pair."""
        nameless = [name for name in self.buffers if name in self._nameless]
        return [n for n in self.statistics if n.endswith(MEANS)] + nameless[::2]

    def split(self, record: ArrayRecord) -> tuple[list[Values], dict[str, Values]]:
        """The parameters (float32, in order) and the buffers of a reply; checks all of them."""
        if record.keys() != self.roles.keys():
            missing = [name for name in self.roles if name not in record]
            extra = [name for name in record if name not in self.roles]
            what = f"lack {missing[0]!r}" if missing else f"have {extra[0]!r}, which is not in it"
            raise BadArrays(f"the arrays are not those of the model: they {what}")
        found = {}
        for name, role in self.roles.items():
            values = _named(name, record[name])
            if values.dtype != role.dtype:
                values = self._as_the_models(name, values, role.dtype)
            if values.shape != role.shape:
                raise BadArrays(
                    f"the array {name!r} has shape {values.shape}, the model {role.shape}"
                )
            found[name] = self.constant.get(name, values)
        with np.errstate(over="ignore"):  # infinity is looked for later
            parameters = [
                np.ascontiguousarray(found[name], np.float32).reshape(-1)
                for name in self.parameters
            ]
        return parameters, {name: found[name] for name in self.buffers}

    def _as_the_models(self, name: str, values: Values, dtype: np.dtype[Any]) -> Values:
        """Values in the model's dtype, between floating dtypes or between whole numbers' only."""
        what = f"the array {name!r} is {values.dtype}, the model has {dtype}"
        if np.issubdtype(dtype, np.floating) and np.issubdtype(values.dtype, np.floating):
            # A parameter becomes float32 at once: float64 in between would cost a copy.
            with np.errstate(over="ignore"):  # infinity is looked for later
                found = values if name in self.layout.shapes else values.astype(dtype)
        elif np.issubdtype(dtype, np.integer) and np.issubdtype(values.dtype, np.integer):
            found = values.astype(dtype)
            if not np.array_equal(found, values):
                raise BadArrays(f"{what}, which cannot hold its numbers")
        else:
            raise BadArrays(what)
        self.cast = self.cast or what
        return found

    def flatten(self, record: ArrayRecord) -> tuple[Vector, dict[str, Values]]:
        """A model as one vector, and its buffers; copies."""
        parameters, buffers = self.split(record)
        return np.concatenate(parameters), {name: b.copy() for name, b in buffers.items()}

    def record(self, w: Vector, buffers: Mapping[str, Values]) -> ArrayRecord:
        """A model as it goes out, names, order and dtypes as they came."""
        tensors = self.layout.split(w)
        arrays = {}
        for name, role in self.roles.items():
            values = tensors[name] if name in tensors else buffers[name]
            raw: Any = np.ascontiguousarray(values, role.dtype).reshape(-1).view(np.uint8)
            data = b"".join((role.header, raw))
            arrays[name] = Array(str(role.dtype), role.shape, NUMPY, data)
        return ArrayRecord(arrays)

    def mean(self, buffers: Sequence[Mapping[str, Values]], shares: Sequence[float]) -> Any:
        """The clients' buffers, averaged by their shares; whole numbers stay whole.

        A mean lies between its numbers, but may be rounded to beyond what their dtype can hold.
        """
        averaged: dict[str, Values] = {}
        for name in self.buffers:
            if name in self.constant:
                averaged[name] = self.constant[name]
                continue
            dtype = self.roles[name].dtype
            wide = np.complex128 if np.issubdtype(dtype, np.complexfloating) else np.float64
            total = sum(
                share * np.asarray(b[name], wide) for share, b in zip(shares, buffers, strict=True)
            )
            averaged[name] = _cast(total, dtype)
        return averaged


def nameless_statistics(record: ArrayRecord) -> list[str]:
    """The arrays of a new model that are batch normalization's statistics, but have no names.

    A list of arrays has numbers for names: a scale of ones, a shift of zeros, then a mean of zeros
    and a variance of ones, all of one length, are such a layer.
    """
    names: list[str] = list(record)
    found: list[str] = []
    if not all(name.isdecimal() for name in names):
        return []
    for four in zip(names, names[1:], names[2:], names[3:], strict=False):
        values = [_named(name, record[name]) for name in four]
        same = len({v.shape for v in values}) == 1 and values[0].ndim == 1 and values[0].size > 0
        if same and all((v == k).all() for v, k in zip(values, (1, 0, 0, 1), strict=True)):
            found += four[2:]
    return found


def _cast(values: Any, dtype: np.dtype[Any]) -> Values:
    """Values in a dtype; what it cannot hold becomes the nearest that it can."""
    if np.issubdtype(dtype, np.complexfloating):
        return np.asarray(values, dtype)
    if np.issubdtype(dtype, np.floating):
        most = float(np.finfo(dtype).max)
        return np.asarray(np.clip(values, -most, most), dtype)
    if np.issubdtype(dtype, np.integer):
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
        if high > np.iinfo(dtype).max:  # 64 bits have more digits than a float
            high = float(np.nextafter(high, 0))
        return np.asarray(np.clip(np.rint(values), low, high), dtype)
    return np.asarray(np.rint(values), dtype)


def _named(name: str, array: Array) -> Values:
    try:
        return view(array)
    except BadArrays as error:
        raise BadArrays(f"the array {name!r} {error}") from None
    except Exception as error:  # what else malformed bytes can do to NumPy's reader
        raise BadArrays(f"the array {name!r} cannot be read: {type(error).__name__}") from None


def _header(values: Values) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False,
               "shape": values.shape},
    )  # fmt: skip
    return file.getvalue()
