"""The constants of a compiled network: a block of memory, written while kernels are chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.compiler.slots import Slot
from tilework.deferred import Deferred, Helpers
from tilework.dtypes import numpy_dtype
from tilework.index.extents import known, known_shape
from tilework.lower.kernel import Kernel, KernelArg
from tilework.runtime.arena import aligned
from tilework.runtime.arrays import aligned_empty
from tilework.stages import stage, watch_here

if TYPE_CHECKING:
    from tilework.graph import Plan
    from tilework.graph.plan import Call

_MOST_SPARE = 1 << 30
"""So many bytes of addresses may be set aside for nothing."""


class Constants:
    """Where each constant of a plan lies, packed as the kernel that reads it wants it.

    How long the block is follows from all kernels. It is not waited for: as many addresses as it
    may take are set aside, and memory comes with what is written. Where they are too few, all is
    written once more.

    Args:
        slots: values that lie inside others.
        helpers: write constants beside the caller.
    """

    def __init__(self, plan: Plan, slots: Mapping[str, Slot], helpers: Helpers) -> None:
        self._plan, self._slots, self._helpers = plan, slots, helpers
        self._watch = watch_here()
        self._placed: dict[tuple[object, object], _Constant] = {}
        self._written: list[Deferred[None]] = []
        self._size = 0
        self._block = _set_aside([*plan.constants.values()])

    def place_all(self, call: Call, kernel: Kernel) -> None:
        """Have those that a call reads written: none of them is asked for anew by `place`."""
        for name, arg in zip(call.inputs, kernel.args, strict=False):
            root = root_of(self._plan, self._slots, name)
            if root in self._plan.constants:
                self.place(name, root, arg)

    def place(self, name: str, root: str, arg: KernelArg) -> int:
        """Where in the block a constant begins.

        Args:
            name, root: the value that is read, and the constant that it is a view of.
        """
        array = self._plan.constants[root]
        key = (_where(array), arg.packing)
        if key not in self._placed:
            if arg.packing is not None:
                array = array.reshape(known_shape(self._plan.values[name].shape))
            one = self._placed[key] = _Constant(self._size, array, arg)
            self._size += aligned(one.nbytes)
            if self._size <= len(self._block):
                self._start(one)
        return self._placed[key].offset

    def finish(self) -> Deferred[NDArray[Any]]:
        """All of them in one aligned block of bytes, which is there once somebody asks for it."""
        if self._size > len(self._block):
            self._block, self._written = aligned_empty((self._size,), "uint8"), []
            for one in self._placed.values():
                self._start(one)

        def whole() -> NDArray[Any]:
            for part in self._written:
                part.result()
            return self._block[: self._size]

        return Deferred(whole)

    def _start(self, one: _Constant) -> None:
        end = one.offset + one.nbytes
        self._block[end : aligned(end)] = 0
        self._written.append(Deferred(partial(self._write, one, self._block[one.offset : end])))
        self._helpers.start(self._written[-1])

    def _write(self, one: _Constant, out: NDArray[np.uint8]) -> None:
        with stage("pack", self._watch):
            one.write(out)


def root_of(plan: Plan, slots: Mapping[str, Slot], name: str) -> str:
    """The value in whose memory another one lies."""
    name = plan.views.get(name, name)
    return slots[name].root if name in slots else name


def _set_aside(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Memory that is most likely enough for them; none where that would be too much.

    Tiles that do not fit add little to large constants. Winograd's weights have up to 64 elements
    for 9.
    """
    plain = sum(a.nbytes for a in arrays)
    most = sum(a.nbytes * (8 if a.ndim > 2 else 1.25) + (1 << 16) for a in arrays)
    if most - plain > _MOST_SPARE:
        most = 0
    try:
        return aligned_empty((math.ceil(most),), "uint8")
    except MemoryError:
        return aligned_empty((0,), "uint8")


def _where(array: NDArray[Any]) -> object:
    """What arrays of the same memory have in common: layers share weights under other names."""
    return array.__array_interface__["data"][0], array.dtype, array.shape, array.strides


class _Constant(NamedTuple):
    """A constant, where it begins in the block, and the argument that it is."""

    offset: int
    array: NDArray[Any]
    arg: KernelArg

    @property
    def nbytes(self) -> int:
        """Bytes as the kernel wants it."""
        return self.array.nbytes if self.arg.packing is None else known(self.arg.nbytes)

    def write(self, out: NDArray[np.uint8]) -> None:
        """Write it, packed, to where its bytes belong."""
        if not out.nbytes:
            return
        packing = self.arg.packing
        if packing is None:
            out.view(self.array.dtype).reshape(self.array.shape)[...] = self.array
        else:
            shape = known_shape(self.arg.shape)
            packing.apply(self.array, out.view(numpy_dtype(self.arg.dtype)).reshape(shape))
