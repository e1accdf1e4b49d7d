"""The constants of a compiled network: a block of memory, written while kernels are chosen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilework.deferred import Deferred, Helpers
from tilework.dtypes import numpy_dtype
from tilework.index.extents import known, known_shape
from tilework.index.slots import Slot
from tilework.lower.kernel import Kernel, KernelArg
from tilework.runtime.arena import aligned
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.content import let_go
from tilework.stages import stage, watch_here

if TYPE_CHECKING:
    from tilework.graph import Plan
    from tilework.graph.plan import Call

_PIECE = 1 << 23
"""About so many bytes of a large constant are written in one go: threads share those of one."""
_MOST_SPARE = 1 << 30
"""So many bytes of addresses may be set aside for nothing."""


class Constants:
    """Where each constant of a plan lies, packed as the kernel that reads it wants it.

    How long the block is follows from all kernels. It is not waited for: as many addresses as it
    may take are set aside, and memory comes with what is written. What finds no room there is
    written when all is known.

    Args:
        slots: values that lie inside others.
        helpers: write constants beside the caller.
        once: nobody needs the plan again: its arrays are freed one by one, each when it is written
            for the last call that reads it.
    """

    def __init__(
        self, plan: Plan, slots: Mapping[str, Slot], helpers: Helpers, once: bool = False
    ) -> None:
        self._plan, self._slots, self._helpers = plan, slots, helpers
        self._arrays = dict(plan.constants)
        self._left = Counter(root for call in plan.calls for root in self._roots(call))
        self._watch, self._once = watch_here(), once
        self._placed: dict[tuple[object, object], _Constant] = {}
        self._offsets: dict[tuple[str, str, object], int] = {}
        self._later: list[_Constant] = []
        self._written: list[Deferred[None]] = []
        self._size = 0
        self._block = _set_aside([(a, self._left[name]) for name, a in plan.constants.items()])
        if once:
            plan.constants.clear()

    def __contains__(self, root: str) -> bool:
        return root in self._left

    def place_all(self, call: Call, kernel: Kernel) -> None:
        """Have those that a call reads written: none of them is asked for anew by `place`."""
        for name, arg in zip(call.inputs, kernel.args, strict=False):
            root = root_of(self._plan, self._slots, name)
            if root in self:
                self.place(name, root, arg)
        for root in self._roots(call):
            self._left[root] -= 1
            if self._once and not self._left[root]:
                del self._arrays[root]

    def array(self, name: str) -> NDArray[Any] | None:
        """The constant that a value is, or is a view of; None if it is none.

        Of a plan that nobody needs again, until all calls that read it have been placed.
        """
        return self._arrays.get(self._plan.views.get(name, name))

    def place(self, name: str, root: str, arg: KernelArg) -> int:
        """Where in the block a constant begins.

        Args:
            name, root: the value that is read, and the constant that it is a view of.
        """
        wanted = name, root, arg.packing
        if wanted not in self._offsets:
            array = self._arrays[root]
            key = (_where(array), arg.packing)
            if key not in self._placed:
                if arg.packing is not None:
                    array = array.reshape(known_shape(self._plan.values[name].shape))
                one = self._placed[key] = _Constant(self._size, array, arg)
                self._size += aligned(one.nbytes)
                if self._size <= len(self._block):
                    self._start(one)
                else:
                    self._later.append(one)
            self._offsets[wanted] = self._placed[key].offset
        return self._offsets[wanted]

    def finish(self) -> Deferred[NDArray[Any]]:
        """All of them in one aligned block of bytes, which is there once somebody asks for it."""
        self._arrays.clear()
        self._placed.clear()
        if self._later:
            for part in self._written:
                part.result()
            done = self._later[0].offset
            block = aligned_empty((self._size,), "uint8")
            block[:done] = self._block[:done]
            self._block = block
            while self._later:
                self._start(self._later.pop(0))

        def whole() -> NDArray[Any]:
            for part in self._written:
                part.result()
            return self._block[: self._size]

        return Deferred(whole)

    def _roots(self, call: Call) -> set[str]:
        roots = {root_of(self._plan, self._slots, name) for name in call.inputs}
        return roots & self._arrays.keys()

    def _start(self, one: _Constant) -> None:
        end = one.offset + one.nbytes
        self._block[end : aligned(end)] = 0
        for piece in one.pieces(self._block[one.offset : end]):
            self._written.append(Deferred(partial(self._write, one, piece)))
            self._helpers.start(self._written[-1])

    def _write(self, one: _Constant, piece: Callable[[], object]) -> None:
        with stage("pack", self._watch):
            piece()
            one.wrote(self._once)


def root_of(plan: Plan, slots: Mapping[str, Slot], name: str) -> str:
    """The value in whose memory another one lies."""
    name = plan.views.get(name, name)
    return slots[name].root if name in slots else name


def _set_aside(arrays: list[tuple[NDArray[Any], int]]) -> NDArray[Any]:
    """Memory that is most likely enough for arrays that so many calls read.

    Tiles that do not fit add little to large constants. Winograd's weights have up to 64 elements
    for 9. What several calls read may be there in two forms, as a table of rows that is a matrix
    as well.
    """
    plain = sum(a.nbytes for a, _ in arrays)
    most = sum(
        min(calls, 2) * a.nbytes * (8 if a.ndim > 2 else 1.25) + (1 << 16) for a, calls in arrays
    )
    most = min(most, plain + _MOST_SPARE)
    try:
        return aligned_empty((math.ceil(most),), "uint8")
    except MemoryError:
        return aligned_empty((0,), "uint8")


def _where(array: NDArray[Any]) -> object:
    """What arrays of the same memory have in common: layers share weights under other names."""
    return array.__array_interface__["data"][0], array.dtype, array.shape, array.strides


class _Constant:
    """A constant, where it begins in the block, and the argument that it is."""

    def __init__(self, offset: int, array: NDArray[Any], arg: KernelArg) -> None:
        self.offset, self.arg = offset, arg
        self.nbytes = array.nbytes if arg.packing is None else known(arg.nbytes)
        self._source = [array]
        self._left: list[int] = []

    def pieces(self, out: NDArray[np.uint8]) -> list[Callable[[], object]]:
        """Calls that write it, packed, to where its bytes belong; after each comes `wrote`."""
        array, packing = self._source[0], self.arg.packing
        if not out.nbytes:
            return []
        if packing is None:
            calls = _copies(array, out.view(array.dtype).reshape(array.shape))
        else:
            shape = known_shape(self.arg.shape)
            to = out.view(numpy_dtype(self.arg.dtype)).reshape(shape)
            calls = packing.pieces(array, to, _PIECE)
        self._left.extend(range(len(calls)))
        return calls

    def wrote(self, last: bool) -> None:
        """A piece was written; after the last time it is freed."""
        self._left.pop()
        if not self._left:
            for array in self._source:
                let_go(array)
            if last:
                self._source.clear()


def _copies(array: NDArray[Any], out: NDArray[Any]) -> list[Callable[[], object]]:
    """Calls that together copy an array."""
    if array.nbytes < 2 * _PIECE or not array.ndim:
        return [partial(np.copyto, out, array)]
    step = max(_PIECE * len(array) // array.nbytes, 1)
    starts = range(0, len(array), step)
    return [partial(np.copyto, out[a : a + step], array[a : a + step]) for a in starts]
