"""Elements of an operand that a thread needs for one term of all its points, in registers.

Loads are told apart from arithmetic so that their width is decided here: neighbours along the
dimension that lies dense in memory are one vector.
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.kinds.cuda.lower.staged import within
from tilework.kinds.cuda.lower.thread_tile import Held, ThreadTile
from tilework.kinds.cuda.staging import Operand
from tilework.lower.common import load
from tilework.lower.ir import Buffer, Load, Stmt, Store
from tilework.space.bounds import conjunction
from tilework.te.expr import Axis, Const, Expr, IfThenElse

Place = Callable[[Held], Load]
"""The element of an operand at a thread's point."""


class Fragment:
    """An operand's elements in registers.

    Args:
        operand: the operand, which has linear indices.
        tile: the thread's points.
        place: what is loaded.

    Attributes:
        buffer: (virtual, register) extents of each axis that the operand varies with.
    """

    def __init__(self, operand: Operand, tile: ThreadTile, place: Place) -> None:
        self.operand, self.tile, self._place = operand, tile, place
        self.axes = [a for a in tile.axes if a in operand.axes]
        shape = tuple(tile.size[a][level] for a in self.axes for level in (1, 3))
        tensor = operand.read.tensor
        self.buffer = Buffer(f"{tensor.name}.f", shape, tensor.dtype, "register")

    def fill(self) -> Stmt:
        """Memory or shared memory to registers; zeros where a tile overhangs the operand."""
        held = self.tile.held(self.axes, self._dense())
        source = self._place(held)
        value: Expr = source
        if source.buffer.scope != "block":
            inside = conjunction(self._guards(source))
            if inside is not None:
                value = IfThenElse(value.dtype, inside, value, Const(value.dtype, 0))
        return held.each(Store(self.buffer, held.where(self.axes), value))

    def at(self, held: Held) -> Load:
        """The element for a thread's point."""
        return load(self.buffer, held.where(self.axes))

    def _guards(self, source: Load) -> list[Expr]:
        pairs = zip(source.indices, source.buffer.shape, strict=True)
        return [c for index, size in pairs for c in within(index, size)]

    def _dense(self) -> Axis | None:
        """The axis whose neighbours are neighbours in memory."""
        buffer = self._place(self.tile.held(self.axes)).buffer
        assert self.operand.forms is not None
        strides = buffer.strides[-len(self.operand.forms) :]
        for stride, size, form in zip(
            strides, buffer.shape[-len(strides) :], self.operand.forms, strict=True
        ):
            if stride == 1 and size > 1:
                return next((a for a in self.axes if form.coefficients.get(a) == 1), None)
        return None
