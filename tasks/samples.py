"""Samples of a network's inputs, from a user's file."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import NetworkError

Sample = dict[str, NDArray[Any]]
"""An array for each input, by name."""

_FORM = "samples are read from .npz files, as numpy.savez writes them; no pickled objects"


@dataclass(frozen=True)
class End:
    """An input: its name, NumPy's name of its type, and its extents, of which some are symbols."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]


_TYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16",
    "tensor(bool)": "bool", "tensor(int64)": "int64", "tensor(int32)": "int32",
    "tensor(int16)": "int16", "tensor(int8)": "int8", "tensor(uint8)": "uint8",
}  # fmt: skip


def ends_of(session: Any) -> list[End]:
    """The inputs of a session of ONNX Runtime."""
    out = []
    for one in session.get_inputs():
        if one.type not in _TYPES:
            raise NetworkError(f"input {one.name} is {one.type}: no samples can be read for it")
        out.append(End(one.name, _TYPES[one.type], tuple(one.shape)))
    return out


def read_samples(path: str, inputs: Sequence[End]) -> list[Sample]:
    """The samples in an .npz file, which has an array for each input, by name.

    An array with one axis more than its input holds a sample in each element of the first. Else
    its first axis is cut into samples where all inputs begin with the same number, or the same
    symbol (then each of its elements is a sample); and if they do not, it is a single one.

    Raises:
        NetworkError: there is no such file, or it is no .npz file; a name is missing or unknown;
            or an array is of another type or shape.
    """
    arrays = _arrays(path)
    names = [end.name for end in inputs]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise NetworkError(
            f"{path}: it has no array '{missing[0]}'; the inputs are {', '.join(names)}, "
            f"its arrays {', '.join(arrays) or 'none'}"
        )
    unknown = [name for name in arrays if name not in names]
    if unknown:
        raise NetworkError(
            f"{path}: '{unknown[0]}' is no input; the inputs are {', '.join(names)}"
        )
    first = {end.shape[0] if end.shape else None for end in inputs}
    batch = first.pop() if len(first) == 1 else None
    each = {end.name: _cut(path, end, arrays[end.name], batch) for end in inputs}
    counts = {name: len(samples) for name, samples in each.items()}
    if not max(counts.values()):
        raise NetworkError(f"{path}: it holds no samples: its arrays are empty")
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{n} of {name}" for name, n in counts.items())
        raise NetworkError(f"{path}: an equal number of samples is needed; there are {said}")
    return [dict(zip(each, values, strict=True)) for values in zip(*each.values(), strict=True)]


def _arrays(path: str) -> dict[str, NDArray[Any]]:
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):  # an array alone
            raise NetworkError(f"{path}: {_FORM}")
        with file:
            return {name: file[name] for name in file.files}
    except OSError as e:
        raise NetworkError(f"{path}: {e.strerror or e}") from e
    except (ValueError, EOFError, zipfile.BadZipFile) as e:
        raise NetworkError(f"{path}: {_FORM}") from e


def _cut(path: str, end: End, array: NDArray[Any], batch: Any) -> list[NDArray[Any]]:
    """An input's array as samples."""
    kind = np.dtype(end.dtype)
    if array.dtype != kind:
        if array.dtype.kind != kind.kind:
            raise NetworkError(
                f"{path}: '{end.name}' holds {array.dtype}, and the input is {end.dtype}"
            )
        array = array.astype(kind)
    if kind.kind == "f" and np.isnan(array).any():
        raise NetworkError(f"{path}: '{end.name}' holds NaN, of which no range can be seen")
    if array.ndim == len(end.shape) + 1:
        samples = list(array)
    elif array.ndim != len(end.shape) or not array.ndim or batch is None:
        samples = [array]
    else:
        size = batch if isinstance(batch, int) else 1
        samples = [array[i : i + size] for i in range(0, len(array), size)]
    for sample in samples:
        fits = sample.ndim == len(end.shape) and all(
            not isinstance(want, int) or want == n
            for want, n in zip(end.shape, sample.shape, strict=True)
        )
        if not fits:
            want = " x ".join("?" if n is None else str(n) for n in end.shape)
            own = " x ".join(map(str, sample.shape)) or "a number"
            raise NetworkError(
                f"{path}: a sample of '{end.name}' is {own}, and the input is {want or 'a number'}"
            )
    return [np.array(sample, order="C") for sample in samples]
