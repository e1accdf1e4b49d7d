"""Runs with fixed buffers: what a service repeats, with no work left to do per call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.errors import ModuleError
from tilework.runtime.arrays import (
    address,
    aligned_empty,
    check_array,
    check_ready,
    random_array,
    ready_copy,
)
from tilework.runtime.device_array import DeviceArray
from tilework.runtime.image import Dims, Ends, Value
from tilework.runtime.recycled import Recycled

Array = NDArray[Any]
Take = Callable[[str, Any], DeviceArray | None]

_RESULTS = Recycled()

_ROOM_ALIGN = 16
"""Bytes at whose multiples NumPy's memory begins."""
_DEVICE_ALIGN = 16
"""Bytes at whose multiples an array in a GPU's memory begins: the widest access of a thread."""


class BoundCall:
    """A module's run on fixed arrays: ``call()`` costs about a microsecond beside the kernels.

    On a GPU, arrays of the host are copied there and back by every call; arrays that lie in its
    memory are used where they are.

    Attributes:
        inputs: the arrays that a call reads, by name; fill them in place.
        outputs: the arrays that a call writes; every call overwrites them.
    """

    __slots__ = ("_run", "inputs", "outputs")

    def __init__(
        self, run: Callable[[], None], inputs: dict[str, Any], outputs: list[Any]
    ) -> None:
        self._run = run
        self.inputs = inputs
        self.outputs = outputs

    def __call__(self) -> list[Any]:
        """Run once; returns `outputs`."""
        self._run()
        return self.outputs


def io_buffers(
    ends: Ends,
    inputs: Mapping[str, Any] | None,
    outputs: Sequence[Any] | None,
    take: Take | None = None,
) -> list[Any]:
    """One array per io number: the caller's where given, else new ones of the host.

    Args:
        ends: what the run takes and returns.
        inputs: by name.
        outputs: all or none.
        take: makes a `DeviceArray` of what is no NumPy array, where the machine can.

    Raises:
        ModuleError: an array cannot be used as it is, or two of them overlap.
    """
    given: dict[int, tuple[str, Value, Any]] = {}
    names = [v.name for v in ends.inputs]
    unknown = [str(n) for n in inputs or () if n not in names]
    if unknown:
        raise ModuleError(
            f"module {ends.name} has no input {', '.join(unknown)}; it has {', '.join(names)}"
        )
    for v in ends.inputs:
        if inputs and v.name in inputs:
            given[v.io] = (f"input {v.name}", ends.io_values[v.io], inputs[v.name])
    if outputs is not None:
        if len(outputs) != len(ends.outputs):
            raise ModuleError(
                f"module {ends.name} has {len(ends.outputs)} outputs, got {len(outputs)} arrays"
            )
        for v, array in zip(ends.outputs, outputs, strict=True):
            if v.io in ends.continued:
                raise ModuleError(
                    f"output {v.name} continues input {ends.inputs[v.io].name} in its buffer: "
                    "bind without outputs, and take those of the bound call"
                )
            if v.io in given:
                raise ModuleError(
                    f"output {v.name} shares its memory with {given[v.io][0]}: bind without "
                    "outputs, and take those of the bound call"
                )
            given[v.io] = (f"output {v.name}", v, array)
    for number, (what, value, array) in given.items():
        taken = None if take is None or isinstance(array, np.ndarray) else take(what, array)
        given[number] = (what, value, array if taken is None else taken)
    for what, value, array in given.values():
        _check(what, value, array)
    _check_apart([(what, array) for what, _, array in given.values()], ends)
    return [given[i][2] if i in given else zeros(v) for i, v in enumerate(ends.io_values)]


def bound_inputs(ends: Ends, buffers: Sequence[Any]) -> dict[str, Any]:
    """The inputs by name, as the caller knows them."""
    named = {v.name: _shown(ends, v, buffers) for v in ends.inputs}
    return {n: b.given if isinstance(b, DeviceArray) else b for n, b in named.items()}


def bound_outputs(ends: Ends, buffers: Sequence[Any]) -> list[Any]:
    """The outputs in order: views of the io buffers, or what the caller gave."""
    return [
        b.given if isinstance(b := buffers[v.io], DeviceArray) else _shown(ends, v, buffers)
        for v in ends.outputs
    ]


def _shown(ends: Ends, value: Value, buffers: Sequence[Any]) -> Any:
    """A value as its io buffer has it: the first positions of a room, or under its own shape."""
    buffer = buffers[value.io]
    if value.io in ends.continued:
        return positions(buffer, ends, value)
    return buffer if buffer.shape == value.dims else buffer.reshape(value.dims)


def positions(room: Array, ends: Ends, value: Value) -> Array:
    """Where a value lies in its room: the first positions."""
    return first_of(room, ends.continued[value.io], value.dims)


def first_of(room: Array, axis: int, shape: Sequence[int]) -> Array:
    """The first positions of a room along an axis: as many as a shape has."""
    return room[(slice(None),) * axis + (slice(shape[axis]),)]


def new_outputs(ends: Ends, dims: Dims) -> list[Array]:
    """One new buffer per io number that no input has.

    Args:
        dims: shapes where the run is.
    """
    first = len(ends.inputs)
    return new_arrays(ends.io_values[first:], dims.io[first:])


def new_arrays(values: Sequence[Value], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Arrays for values in these shapes, in memory that earlier results had."""
    return [_RESULTS.empty(shape, v.dtype) for v, shape in zip(values, shapes, strict=True)]


def results(ends: Ends, dims: Dims, buffers: Sequence[Array]) -> list[Array]:
    """The outputs, dense; one that shares its buffer with another value is copied."""
    if ends.apart:
        return [buffers[v.io] for v in ends.outputs]
    out: list[Array] = []
    used: set[int] = set()
    for v, shape in zip(ends.outputs, dims.outputs, strict=True):
        array = buffers[v.io]
        if v.io in ends.continued and array.shape != shape:
            array = first_of(array, ends.continued[v.io], shape).copy()
        elif array.shape != shape:
            array = array.reshape(shape)
        out.append(array.copy() if v.io in used else array)
        used.add(v.io)
    return out


def given_inputs(
    ends: Ends, dims: Dims, arrays: Sequence[Any], into: Mapping[str, Array]
) -> list[Array]:
    """The buffers of inputs as kernels can take them; what is continued is copied to a room.

    Args:
        dims: shapes where the run is.
        arrays: the inputs in order.
        into: see `Module.run`. One of these that is the input is not copied.

    Raises:
        ModuleError: one has another shape or type, or lies in a GPU's memory; or two outputs are
            to be written to the same memory.
    """
    rooms = {v.io: into[v.name] for v in ends.outputs if v.name in into} if into else {}
    out, taken = [], []
    for v, array, shape in zip(ends.inputs, arrays, dims.inputs, strict=True):
        what, whole = f"input {v.name}", dims.io[v.io]
        if v.io not in ends.continued:
            out.append(ready_copy(what, array, shape, v.dtype, _RESULTS.empty))
            continue
        room = rooms.get(v.io) if shape == whole else None
        if room is None:
            room = _RESULTS.empty(whole, v.dtype) if shape == whole else _zeros(whole, v.dtype)
        else:
            begin = _check_room(f"output that continues {v.name}", room, whole, v.dtype)
            taken.append((begin, begin + room.nbytes, v.name))
        if not _same(array, room):
            ready = ready_copy(what, array, shape, v.dtype)
            first_of(room, ends.continued[v.io], shape)[...] = ready
        out.append(room)
    taken.sort()
    for (_, end, one), (begin, _, other) in pairwise(taken):
        if begin < end:
            raise ModuleError(
                f"module {ends.name}: the outputs that continue {one} and {other} get memory "
                "that overlaps: each needs its own"
            )
    return out


def random_inputs(ends: Ends) -> list[Array]:
    """Values for all inputs, the same ones every time."""
    rng = np.random.default_rng(0)
    return [random_array(rng, v.dims, v.dtype) for v in ends.io_values[: len(ends.inputs)]]


def zeros(value: Value) -> Array:
    """An aligned array of zeros; written to, so that a call finds its pages in place."""
    return _zeros(value.dims, value.dtype)


def _zeros(shape: Sequence[int], dtype: str) -> Array:
    out = aligned_empty(shape, dtype)
    out[...] = 0
    return out


def _same(array: Any, room: Array) -> bool:
    """Whether an array is a room, or a view of all of it."""
    if array is room:
        return True
    alike = isinstance(array, np.ndarray) and bool(array.flags.c_contiguous)
    kind = (room.shape, room.dtype)
    return alike and (array.shape, array.dtype) == kind and address(array) == address(room)


def _check_room(what: str, room: Array, shape: Sequence[int], dtype: str) -> int:
    """Where a room begins; refuse what kernels cannot write to.

    Rows within a room begin anywhere, and so may it.
    """
    check_array(what, room, shape, dtype)
    begin = address(room)
    if not (room.flags.carray and begin % _ROOM_ALIGN == 0):
        raise ModuleError(f"{what}: the array must be contiguous, and not read-only")
    return begin


def _check(what: str, value: Value, array: Any) -> None:
    if isinstance(array, DeviceArray):
        _check_device_array(what, value, array)
        writable = array.writable
    else:
        check_ready(what, array, value.dims, value.dtype)
        writable = array.flags.writeable
    if what.startswith("output") and not writable:
        raise ModuleError(f"{what}: the array is read-only")


def _check_device_array(what: str, value: Value, array: DeviceArray) -> None:
    if array.shape != value.dims or numpy_dtype(array.dtype) != numpy_dtype(value.dtype):
        raise ModuleError(
            f"{what}: expected {value.dtype}{list(value.dims)}, got "
            f"{array.dtype}{list(array.shape)}"
        )
    if array.address % _DEVICE_ALIGN:
        raise ModuleError(
            f"{what}: the array must begin at a multiple of {_DEVICE_ALIGN} bytes; make a copy"
        )


def _overlap(a: Any, b: Any) -> bool:
    if isinstance(a, DeviceArray) and isinstance(b, DeviceArray):
        return a.address < b.address + b.nbytes and b.address < a.address + a.nbytes
    if isinstance(a, DeviceArray) or isinstance(b, DeviceArray):
        return False
    return np.may_share_memory(a, b)


def _check_apart(arrays: Sequence[tuple[str, Any]], ends: Ends) -> None:
    """Outputs must not overlap anything: a kernel may write one before all inputs are read."""
    for i, (what, array) in enumerate(arrays):
        for other, earlier in arrays[:i]:
            if what.startswith("output") and _overlap(array, earlier):
                raise ModuleError(f"module {ends.name}: {what} and {other} overlap in memory")
