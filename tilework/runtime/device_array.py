"""Arrays in the memory of a GPU, used where they lie.

They say where that is by ``__cuda_array_interface__`` (CuPy, Numba, PyTorch) or by DLPack
(PyTorch, JAX, TensorFlow and others).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.errors import ModuleError
from tilework.frozen import frozen
from tilework.index.strides import row_major

_CUDA, _CUDA_MANAGED = 2, 13  # of DLDeviceType
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}  # of DLDataTypeCode


@frozen
class DeviceArray:
    """An array in a device's memory.

    Attributes:
        address: of its first element.
        shape: extents; the array is contiguous, the last axis fastest.
        dtype: element type, in our words.
        writable: whether its owner lets it be written to.
        given: what the caller knows it as.
        keep: whatever keeps its memory.
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    writable: bool
    given: Any
    keep: Any = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * numpy_dtype(self.dtype).itemsize


def device_array(what: str, given: Any) -> DeviceArray | None:
    """An object as an array of a device's memory; None if it is none.

    Args:
        what: names it in messages, such as ``input data``.

    Raises:
        ModuleError: it is one, but not contiguous, or of a type that is not known.
        BufferError: its owner does not lend it.
    """
    if isinstance(given, np.ndarray):
        return None
    said = getattr(given, "__cuda_array_interface__", None)  # PyTorch's arrays of the host raise
    if said is not None:
        return _by_interface(what, given, said)
    lends = hasattr(given, "__dlpack_device__") and hasattr(given, "__dlpack__")
    if lends and int(given.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED):
        return _by_dlpack(what, given)
    return None


def _by_interface(what: str, given: Any, said: dict[str, Any]) -> DeviceArray:
    kind, shape = np.dtype(said["typestr"]), tuple(int(n) for n in said["shape"])
    address, read_only = said["data"]
    _check_contiguous(what, shape, said.get("strides"), kind.itemsize)
    if kind.byteorder == ">" or said.get("mask") is not None:
        raise ModuleError(f"{what}: arrays with a mask, or of another byte order, are not taken")
    return DeviceArray(int(address), shape, str(kind), not read_only, given)


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h; a DLManagedTensor begins with one."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _by_dlpack(what: str, given: Any) -> DeviceArray:
    capsule = given.__dlpack__()
    point = ctypes.pythonapi.PyCapsule_GetPointer
    point.restype, point.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(point(capsule, b"dltensor"))
    kind = f"{_CODES.get(tensor.code, '')}{tensor.bits if tensor.code != 6 else ''}"
    try:
        size = numpy_dtype(kind).itemsize
    except TypeError as e:
        raise ModuleError(f"{what}: its element type is not known here") from e
    shape = tuple(int(tensor.shape[i]) for i in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(size * int(tensor.strides[i]) for i in range(tensor.ndim))
    _check_contiguous(what, shape, strides, size)
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule is not taken over: when it goes, the memory is given back.
    return DeviceArray(address, shape, kind, True, given, capsule)


def _check_contiguous(what: str, shape: tuple[int, ...], strides: Any, size: int) -> None:
    if strides is None:
        return
    pairs = zip(shape, strides, row_major(shape), strict=True)
    if any(extent > 1 and stride != size * dense for extent, stride, dense in pairs):
        raise ModuleError(f"{what}: the array must be contiguous; make a contiguous copy")
