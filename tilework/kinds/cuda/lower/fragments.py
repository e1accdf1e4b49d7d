"""Elements of an operand that a thread needs for one term of all its points, in registers.

Loads are told apart from arithmetic so that their width is decided here: neighbours along the
dimension that lies dense in memory are one vector: points of a register tile, or terms.
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.index.extents import known_shape
from tilework.kinds.cuda.lower.staged import within
from tilework.kinds.cuda.lower.thread_tile import Held, ThreadTile
from tilework.kinds.cuda.source.vectors import is_aligned, is_uniform
from tilework.kinds.cuda.staging import Operand
from tilework.lower.common import ZERO, load, loop_var, nest, var_or_zero
from tilework.lower.ir import Buffer, Load, Stmt, Store
from tilework.space.bounds import conjunction
from tilework.te.expr import Axis, Const, Expr, IfThenElse

Place = Callable[[Held, Expr], Load]
"""The element of an operand at a thread's point, for one of the terms that are taken together."""


class Fragment:
    """An operand's elements in registers.

    Args:
        operand: the operand, which has linear indices.
        tile: the thread's points.
        place: what is loaded.
        together: neighbouring terms that are loaded together, as a vector; 1 if the operand is
            not dense along them.

    Attributes:
        buffer: (virtual, register) extents of each axis that the operand varies with, then terms.
    """

    def __init__(
        self, operand: Operand, tile: ThreadTile, place: Place, together: int = 1
    ) -> None:
        self.operand, self.tile, self._place = operand, tile, place
        self.together = together
        self.axes = [a for a in tile.axes if a in operand.axes]
        shape = tuple(tile.size[a][level] for a in self.axes for level in (1, 3))
        tensor = operand.read.tensor
        self.buffer = Buffer(f"{tensor.name}.f", (*shape, together), tensor.dtype, "register")

    def fill(self, term: Expr = ZERO) -> Stmt:
        """Memory or shared memory to registers; zeros where a tile overhangs the operand.

        Args:
            term: which of the terms, where the operand has one at a time.
        """
        lane = loop_var("lane", self.together)
        many = self.together > 1
        held = self.tile.held(self.axes, None if many else self._dense())
        source = self._place(held, lane if many else term)
        value: Expr = source
        if source.buffer.scope != "block":
            inside = conjunction(self._guards(source))
            if inside is not None:
                value = IfThenElse(value.dtype, inside, value, Const(value.dtype, 0))
        store = Store(self.buffer, (*held.where(self.axes), var_or_zero(lane)), value)
        return held.each(nest([(lane, self.together, "vector")], store))

    def at(self, held: Held, term: Expr) -> Load:
        """The element for a thread's point."""
        last = term if self.together > 1 else ZERO
        return load(self.buffer, (*held.where(self.axes), last))

    def is_dense(self, count: int) -> bool:
        """Whether ``count`` neighbouring terms are one vector, for all points of the thread."""
        lane = loop_var("lane", count)
        source = self._place(self.tile.held(self.axes), lane)
        whole = all(is_uniform(c, lane, {}) for c in self._guards(source))
        return whole and is_aligned(source.buffer, source.indices, lane, {})

    def _guards(self, source: Load) -> list[Expr]:
        if source.buffer.scope == "block":
            return []
        pairs = zip(source.indices, known_shape(source.buffer.shape), strict=True)
        return [c for index, size in pairs for c in within(index, size)]

    def _dense(self) -> Axis | None:
        """The axis whose neighbours are neighbours in memory."""
        buffer = self._place(self.tile.held(self.axes), ZERO).buffer
        assert self.operand.forms is not None
        strides = buffer.strides[-len(self.operand.forms) :]
        for stride, size, form in zip(
            strides, buffer.shape[-len(strides) :], self.operand.forms, strict=True
        ):
            if stride == 1 and size > 1:
                return next((a for a in self.axes if form.step(a) == 1), None)
        return None
