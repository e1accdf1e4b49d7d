"""A panel of unpacked weights in memory, which register tiles one below the other share.

After, in front of the tiles' loops (`tilework.space.panels`)::

    for j.2: for g, k, t:  panel[j.2, g, k, t, j] = (w - zero) * scale
    for i.2: for j.2:  the register tile of  acc[i, j] += x[i, g, k, t] * panel[j.2, g, k, t, j]
"""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.lower.common import LoopSpec, bind, load, loop_var, nest, var_or_zero
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Buffer, Stmt, Store
from tilework.lower.register_tiles.loops import Loops
from tilework.space.panels import factors, panels
from tilework.te.expr import Axis, Expr, Read, binary, reads
from tilework.te.tensor import Operation, Tensor, placeholder

_EXPANDED = 16
"""Points of an axis that are unpacked one behind the other."""


@frozen(eq=False)
class Panel:
    """The panel of a nest.

    Attributes:
        ctx: the program's context.
        loops: the nest's loops.
        data, weight: the factors of a term.
        unpacked: the weights, as a tensor that tiles read.
        buffer: where it is.
    """

    ctx: LoweringContext
    loops: Loops
    data: Expr
    weight: Expr
    unpacked: Tensor
    buffer: Buffer

    @staticmethod
    def of(ctx: LoweringContext, loops: Loops) -> Panel | None:
        """The panel of a nest of one row, if it has one: all of its weights are packed."""
        block, both = loops.block, factors(loops.block)
        if both is None or not panels(loops.nest)[0]:
            return None
        data, weight = both
        if any(read.tensor.op not in ctx.packed for read in reads(weight)):
            return None
        axes = (block.spatial[-1], *block.reduce)
        last = block.spatial[-1]
        unpacked = placeholder([a.extent for a in axes], f"{block.op.name}.unpacked", weight.dtype)
        shape = [loops.tile[last][-2], *(loops.tile[a][-1] for a in block.reduce)]
        shape.append(loops.tile[last][-1])
        buffer = ctx.temporary(f"{block.op.name}.panel", shape, weight.dtype, "thread")
        return Panel(ctx, loops, data, weight, unpacked, buffer)

    @property
    def source(self) -> Expr:
        """A term that reads the panel."""
        block = self.loops.block
        element = Read(self.weight.dtype, self.unpacked, (block.spatial[-1], *block.reduce))
        return binary("*", self.data, element)

    @property
    def depth(self) -> int:
        """Of how many levels it stands inside: those around the loops over register tiles."""
        levels = self.loops.block.levels
        return levels.numbered.index((levels.items[-3], self.loops.block.spatial_levels - 2))

    def read(self, read: Read, point: dict[Axis, Expr], reduce_point: dict[Axis, Expr]) -> Expr:
        """The element for a point of the register tile and of the reduction."""
        return load(self.buffer, self._place(point[self.loops.block.spatial[-1]], reduce_point))

    def fill(self) -> Stmt:
        """Loops that unpack the weights."""
        loops, block = self.loops, self.loops.block
        *_, last = block.spatial
        inner, top = block.spatial_levels - 1, block.reduce_levels - 1
        column = loop_var(f"{last.name}.w", loops.points(last))
        vars_ = {a: loop_var(f"{a.name}.w", loops.tile[a][-1]) for a in block.reduce}
        index = {a: var_or_zero(v) for a, v in vars_.items()}
        at = {a: binary("+", loops.offset(a, 0, top), i) for a, i in index.items()}
        at[last] = binary("+", loops.offset(last, 0, inner), var_or_zero(column))
        own = {**index, last: var_or_zero(column)}

        def position(axis: Axis, level: int) -> Expr:
            ends = inner if axis.kind == "spatial" else top
            return loops.index(axis, level) if level < ends else own[axis]

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            packed = self.ctx.packed[op]
            where = [indices[d] for d in packed.outer]
            where += [position(axis, level) for axis, level in packed.loops]
            return load(self.ctx.buffers[op], where)

        value = bind(self.weight, at, resolve)
        store = Store(self.buffer, self._place(own[last], index), value)
        each: list[LoopSpec] = [
            (v, v.extent, "unroll" if a.points <= _EXPANDED else "serial")
            for a, v in vars_.items()
        ]
        body = nest([*each, (column, column.extent, "vector")], store)
        return nest([loops.loop(last, inner - 1)], body)

    def _place(self, column: Expr, index: dict[Axis, Expr]) -> tuple[Expr, ...]:
        loops, block = self.loops, self.loops.block
        tile = loops.index(block.spatial[-1], block.spatial_levels - 2)
        return (tile, *(index[a] for a in block.reduce), column)
