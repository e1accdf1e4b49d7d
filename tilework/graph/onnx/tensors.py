"""Tensors of an ONNX file as arrays: every size is checked before memory is taken for it."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import NetworkError
from tilework.graph.onnx.budget import ALLOWANCE, Budget
from tilework.graph.onnx.content import LARGE, OWN
from tilework.graph.onnx.messages import first_line
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.protos import SparseTensorProto, TensorProto, messages, numpy_type
from tilework.runtime.content import Content, mapped

# bits of an element where NumPy's type does not tell: several share a byte
_PACKED_BITS = {
    "FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6, "INT2": 2, "INT4": 4,
    "UINT2": 2, "UINT4": 4,
}  # fmt: skip
_LARGEST_SPARSE = 2**27  # elements of a sparse tensor once it is dense


def read_tensor(tensor: TensorProto, places: Places | None, budget: Budget) -> np.ndarray:
    """The array that a tensor holds.

    Args:
        tensor: of any element type; texts become an array of objects.
        places: where tensors in other files are looked for; None if the model came from memory.
        budget: pays for what is larger in memory than in the file.

    Raises:
        NetworkError: the tensor is damaged or too large, or its file is missing, short, or
            outside the model's folders.
    """
    try:
        if tensor.data_location == tensor.EXTERNAL:
            entries = {e.key: e.value for e in tensor.external_data}
            if OWN in entries and places is not None and places.content is not None:
                return _inside(tensor, entries, places.content, budget)
            return _external(tensor, entries, places, budget)
        raw = tensor.raw_data if tensor.HasField("raw_data") else None  # each look at it copies
        in_file = _check_size(tensor, raw)
        _take(tensor, budget, _elements(tensor) * _itemsize(tensor) - in_file)
        if raw is not None and tensor.data_type in _plain():
            kind = numpy_type(tensor.data_type)
            return np.frombuffer(raw, kind).reshape(tuple(tensor.dims))
        return _by_onnx(tensor)
    except NetworkError:
        raise
    except Exception as e:  # whatever a damaged tensor makes the reader raise
        raise _unreadable(tensor, first_line(e)) from e


def read_sparse(sparse: SparseTensorProto, places: Places | None, budget: Budget) -> np.ndarray:
    """The dense array of a sparse tensor; ``budget`` pays for it.

    Raises:
        NetworkError: it is damaged, or too large when dense.
    """
    shape = tuple(sparse.dims)
    values = read_tensor(sparse.values, places, budget)
    indices = read_tensor(sparse.indices, places, budget)
    if any(n < 0 for n in shape) or math.prod(shape) > _LARGEST_SPARSE:
        raise _unreadable(sparse.values, f"a dense tensor of {list(shape)} is too large")
    _take(sparse.values, budget, math.prod(shape) * values.itemsize)
    try:
        dense = np.zeros(math.prod(shape), values.dtype)
        at = indices
        if indices.ndim == 2:
            at = np.ravel_multi_index(tuple(indices.T), shape)
        if at.ndim != 1 or at.shape != values.shape or (at.size and at.min() < 0):
            raise ValueError("its indices do not fit")
        dense[at] = values
        return dense.reshape(shape)
    except (ValueError, IndexError, TypeError) as e:
        raise _unreadable(sparse.values, first_line(e)) from e


def _unreadable(tensor: TensorProto, why: str) -> NetworkError:
    return NetworkError(f"the file is corrupt: constant '{tensor.name}' cannot be read: {why}")


def _take(tensor: TensorProto, budget: Budget, size: int) -> None:
    """Charge what a tensor takes beyond its file."""
    if not budget.take(max(size, 0)):
        raise NetworkError(
            f"constant '{tensor.name}' is too large: what the file's constants become in memory, "
            "beyond the file's own size, is over 2 GiB"
        )


def _itemsize(tensor: TensorProto) -> int:
    """Bytes of an element in memory; those that share a byte in the file have one each."""
    return numpy_type(tensor.data_type).itemsize


def _elements(tensor: TensorProto) -> int:
    if any(n < 0 for n in tensor.dims):
        raise _unreadable(tensor, f"its shape {list(tensor.dims)} is negative")
    return math.prod(tensor.dims)


def _num_bytes(tensor: TensorProto) -> int:
    """Size of the tensor's data in bytes, by its shape and element type."""
    name = tensor.DataType.Name(tensor.data_type)
    bits = _PACKED_BITS.get(name)
    if bits is None:
        bits = 8 * _itemsize(tensor)
    return -(-_elements(tensor) * bits // 8)


@cache
def _plain() -> frozenset[int]:
    """Element types whose bytes in a file are NumPy's, where the low byte comes first."""
    names = ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16",
             "UINT32", "UINT64", "BOOL")  # fmt: skip
    return frozenset(messages().TensorProto.DataType.Value(name) for name in names)


def _check_size(tensor: TensorProto, raw: bytes | None) -> int:
    """Raise if the data does not have the size that the shape says; about how much it has."""
    if raw is not None:
        need, given = _num_bytes(tensor), len(raw)
        if need != given:
            raise _unreadable(
                tensor, f"it has {given} bytes, its shape {list(tensor.dims)} needs {need}"
            )
        return given
    fields: tuple[Any, ...] = (
        tensor.float_data, tensor.int32_data, tensor.string_data, tensor.int64_data,
        tensor.double_data, tensor.uint64_data,
    )  # fmt: skip
    if _elements(tensor) > 8 * sum(map(len, fields)):
        raise _unreadable(tensor, f"it lacks data for its shape {list(tensor.dims)}")
    # integers are written in as few bytes as they need
    return sum(map(len, fields)) + 3 * len(tensor.float_data) + 7 * len(tensor.double_data)


def _inside(
    tensor: TensorProto, entries: dict[str, str], content: Content, budget: Budget
) -> np.ndarray:
    """A tensor whose bytes are in the model's own file: a view of them."""
    need = _num_bytes(tensor)
    begin, given = (_number(tensor, entries, k) or 0 for k in ("offset", "length"))
    if given != need or begin + need > len(content):
        raise _unreadable(
            tensor, f"it has {given} bytes, its shape {list(tensor.dims)} needs {need}"
        )
    wider = _elements(tensor) * _itemsize(tensor) - need
    _take(tensor, budget, wider if budget.read(Path(), need, len(content)) else ALLOWANCE + 1)
    view = content[begin : begin + need]
    view.setflags(write=False)  # others may be views of it, too
    return _array(tensor, view)


def _external(
    tensor: TensorProto, entries: dict[str, str], places: Places | None, budget: Budget
) -> np.ndarray:
    """Read a tensor's bytes from the file that it names."""
    location = entries.get("location", "")
    if places is None:
        raise NetworkError(
            f"constant '{tensor.name}' lies in the file '{location}': import the model by its path"
        )
    path = places.find(location, tensor.name)
    need = _num_bytes(tensor)
    offset, length = (_number(tensor, entries, k) for k in ("offset", "length"))
    if not path.is_file():
        raise NetworkError(f"it lacks its weight file '{path}' (constant '{tensor.name}')")
    if length not in (None, need):
        raise _unreadable(
            tensor, f"it has {length} bytes, its shape {list(tensor.dims)} needs {need}"
        )
    size = path.stat().st_size
    if (offset or 0) + need > size:
        raise NetworkError(
            f"the weight file '{path}' is too short: constant '{tensor.name}' ends at byte "
            f"{(offset or 0) + need} of {size}"
        )
    wider = _elements(tensor) * _itemsize(tensor) - need
    if not budget.read(path, need, size) or not budget.take(max(wider, 0)):
        raise NetworkError(
            f"constant '{tensor.name}' is too large: the file names the same bytes of '{path}' "
            "over and over"
        )
    try:
        data = _bytes_of(path, offset or 0, need, places.briefly)
    except OSError as e:
        raise NetworkError(f"cannot read the weight file '{path}': {e.strerror or e}") from e
    return _array(tensor, data)


def _bytes_of(path: Path, begin: int, size: int, briefly: bool) -> Content:
    if briefly and size >= LARGE:
        with open(path, "rb") as file:
            content = mapped(file, begin, size)
        if content is not None:
            return content
    return np.fromfile(path, np.uint8, size, offset=begin)


def _array(tensor: TensorProto, data: NDArray[np.uint8]) -> np.ndarray:
    """What a tensor's bytes mean; a view of them where NumPy can have one.

    Raises:
        ValueError: they are too few.
    """
    if tensor.DataType.Name(tensor.data_type) not in _PACKED_BITS:
        return data.view(numpy_type(tensor.data_type)).reshape(tensor.dims)
    filled = type(tensor)(data_type=tensor.data_type, dims=tensor.dims, name=tensor.name)
    filled.raw_data = data.tobytes()
    return _by_onnx(filled)


def _by_onnx(tensor: TensorProto) -> np.ndarray:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def _number(tensor: TensorProto, entries: dict[str, str], key: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**62:
        raise _unreadable(tensor, f"its {key} '{text[:20]}' in the weight file makes no sense")
    return number
