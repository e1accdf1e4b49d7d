"""Register buffers: values by their first element, read as vectors and parts of vectors."""

from __future__ import annotations

from tilework.errors import ScheduleError
from tilework.index.extents import Extent
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.lanes import Lane, Mask
from tilework.kinds.cpu.llvm.masked import MaskedMoves
from tilework.kinds.cpu.llvm.one_by_one import Key, OneByOne
from tilework.kinds.cpu.llvm.ssa import Ssa
from tilework.lower.ir import Buffer


class Registers:
    """What register buffers hold at this point.

    Attributes:
        values: by their first element.
        one_by_one: the order in which vectors of them are finished.
    """

    def __init__(self, arithmetic: Arithmetic, masked: MaskedMoves) -> None:
        self.arithmetic, self.masked, self.fn = arithmetic, masked, arithmetic.fn
        self.one_by_one = OneByOne(self.fn, arithmetic.declarations.features)
        self.values: dict[Key, Ssa] = {}
        self._defined: dict[Key, Mask] = {}
        """The lanes that alone hold values; not there where others may."""

    def read(self, buffer: Buffer, element: Extent, width: int) -> Ssa:
        """The vector that starts at an element, or a part of one."""
        assert isinstance(element, int), "elements of registers are known"
        whole = self.values.get((buffer, element))
        if whole is not None and whole.width == width and not self.one_by_one.under_way:
            return whole
        back = 0
        while (buffer, element - back) not in self.values:
            back += 1
        held = self.one_by_one.handed_on(self.values, (buffer, element - back))
        if held.width == width:
            return held
        if back + width > held.width:
            raise ScheduleError(f"the vectors of {buffer.name} are cut in more than one way")
        if width == 1:
            text = f"extractelement {held.type} {held.ssa}, i32 {back}"
        else:
            lanes = ", ".join(f"i32 {back + i}" for i in range(width))
            text = (
                f"shufflevector {held.type} {held.ssa}, {held.type} poison, "
                f"<{width} x i32> <{lanes}>"
            )
        return Ssa(self.fn.emit(text), width, held.dtype)

    def keep(self, buffer: Buffer, element: Extent, v: Ssa, lane: Lane | None) -> None:
        """Put a value into a register; lanes that do not count keep what they hold."""
        assert isinstance(element, int), "elements of registers are known"
        key = buffer, element
        before, some = self.values.get(key), lane.some if lane is not None else None
        if some is None:
            if self._defined:
                self._defined.pop(key, None)
        elif before is None or before.width != v.width:
            self._defined[key] = some
        elif self._defined.get(key) != some:
            self._defined.pop(key, None)
            chosen = Ssa(self.masked.lanes(v.width, some), v.width, "bool")
            v = self.arithmetic.select(chosen, v, before)
        self.values[key] = v
        self.one_by_one.kept(key)
