"""Producers computed inside their consumer's nest: per tile, into a thread-local buffer.

Padding is copied, its last axis in vectors. A reduction gets register tiles of its own::

    for c tiles, outer dimensions, x tiles of the region:
      acc[x, c] = 0
      for reduce axes (the inner ones expanded):  acc[x, c] += A[...] * B[...]
      buffer[..., x, c] = epilogue(acc)

A region's size is fixed by the row. Where it would reach over an edge of the producer it is moved
inwards, so that its loops are never clipped; the consumer then reads at a shifted position.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from tilework.index.extents import Extent, ceil_div, known, known_shape, smaller
from tilework.index.symbols import certain, is_static
from tilework.lower.common import (
    COMBINE,
    ZERO,
    LoopSpec,
    Resolver,
    bind,
    const,
    expanded_loops,
    inner_loops,
    load,
    loop_var,
    nest,
    placed,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import finished
from tilework.lower.expansion import tile_vectors
from tilework.lower.ir import For, Let, Load, Stmt, Store, seq
from tilework.lower.register_tiles.loops import Loops
from tilework.space.blocks import Attached, Block
from tilework.space.regions import attached_read, inner_level, region
from tilework.te.affine import linear
from tilework.te.expr import Axis, Const, Expr, Read, Reduce, binary
from tilework.te.ranges import linear_range
from tilework.te.strides import scattered
from tilework.te.tensor import Operation

_PAD_VECTOR = 64
_SCATTERED_VECTOR = 16
_EXPANDED = 160


class AttachedBuffer:
    """The tile-sized buffer of a producer computed inside the nest, and where its region starts.

    Args:
        ctx: the program's context.
        loops: the nest's loops.
        attached: the producer.
        others: buffers of the producers already made: those that read this one.
    """

    def __init__(
        self,
        ctx: LoweringContext,
        loops: Loops,
        attached: Attached,
        others: Mapping[Attached, AttachedBuffer],
    ) -> None:
        self.ctx, self.loops, self.attached = ctx, loops, attached
        nest_ = loops.nest
        self.first = {
            a: inner_level(nest_, a, attached.depth)
            for a in (*nest_.block.spatial, *nest_.block.reduce)
        }
        self.extents: list[Extent] = region(
            nest_.block,
            attached,
            loops.span,
            lambda axis: axis.extent,
            lambda axis, width: smaller(axis.extent, width),
            1,
        )
        self.source = attached_read(nest_.block, attached)
        self.buffer = ctx.temporary(
            f"{attached.op.name}.tile", self.extents, attached.op.dtype, "thread"
        )
        self.lets: list[tuple[Axis, Expr]] = []
        self.start: list[Expr] = []
        self.shift: list[Expr] = []
        for dim, (extent, size) in enumerate(zip(self.extents, attached.op.shape, strict=True)):
            raw = self._raw_start(dim, others)
            last = dim == len(self.extents) - 1  # vectors of known extents are never clipped
            clipped = attached.block is None and attached.reader is None and not last
            inside = clipped or not is_static([size]) or _within(raw, size - extent)
            self.start.append(raw if inside else self._moved(dim, raw, size - extent))
            self.shift.append(ZERO if inside else self._let(dim, "shift", raw, self.start[-1]))

    def _raw_start(self, dim: int, others: Mapping[Attached, AttachedBuffer]) -> Expr:
        """First element that the reader's indices name in one dimension, at the attach point."""
        form = linear(self.source.indices[dim])
        assert form is not None
        reader = self.attached.reader
        if reader is None:
            start = {a: self.loops.offset(a, 0, self.first[a]) for a in form.coefficients}
        else:
            start = dict.fromkeys(form.coefficients, ZERO)
            start |= zip(reader.axes, others[reader].start, strict=True)
        return placed(form, start)

    def _moved(self, dim: int, raw: Expr, last: Extent) -> Expr:
        """The start, moved so that the region lies within the producer."""
        if known(last) <= 0:
            return ZERO
        inside = binary("max", ZERO, binary("min", raw, const(last)))
        var = loop_var(f"{self.attached.op.axes[dim].name}.start", last + 1)
        self.lets.append((var, inside))
        return var

    def _let(self, dim: int, what: str, raw: Expr, start: Expr) -> Expr:
        moved = binary("-", raw, start)
        if isinstance(moved, Const):
            return moved
        var = loop_var(f"{self.attached.op.axes[dim].name}.{what}", self.attached.op.shape[dim])
        self.lets.append((var, moved))
        return var

    def bound(self, body: Stmt) -> Stmt:
        """``body`` inside the definitions of where this region starts."""
        for var, value in reversed(self.lets):
            body = Let(var, value, body)
        return body

    # -- the region's values ----------------------------------------------------------------

    def fill(self, others: Mapping[Attached, AttachedBuffer]) -> Stmt:
        """Loops that compute the region; reads of ``others`` go to their buffers."""
        by_op: dict[Operation, AttachedBuffer] = {a.op: b for a, b in others.items()}

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            local = by_op.get(op)
            if local is None:
                return load(self.ctx.buffers[op], indices)
            return local.at(indices)

        block = self.attached.block
        return self._copy(resolve) if block is None else self._reduce(block, resolve)

    def at(self, indices: tuple[Expr, ...]) -> Load:
        """The element at a position of the producer."""
        local = [binary("-", i, s) for i, s in zip(indices, self.start, strict=True)]
        return load(self.buffer, local)

    def _copy(self, resolve: Resolver) -> Stmt:
        """An elementwise region, clipped to the producer's shape where it may reach over it.

        The last axis is copied in vectors, and clipped only where a run decides its extent.
        """
        op = self.attached.op
        loop_list: list[LoopSpec] = []
        points: list[Expr] = []
        for axis, extent, start in zip(op.axes[:-1], self.extents, self.start, strict=False):
            var = loop_var(f"{axis.name}.p", extent)
            moved = self.attached.reader is not None and not axis.open
            if moved or _within(start, axis.extent - extent):
                loop_list.append((var, extent, "serial"))
                points.append(var_or_zero(var))
            else:
                left = binary("-", const(axis.extent), start)
                loop_list.append((var, binary("min", const(extent), left), "serial"))
                points.append(var)

        def store(*last: Expr) -> Stmt:
            where = (*points, *last)
            at = {a: binary("+", s, p) for a, s, p in zip(op.axes, self.start, where, strict=True)}
            return Store(self.buffer, where, bind(self.attached.body, at, resolve))

        if not op.axes:
            return store()
        apart = scattered(self.attached.body, op.axes[-1])
        chunk = _SCATTERED_VECTOR if apart else _PAD_VECTOR
        if not is_static([op.axes[-1].extent, self.extents[-1]]):
            return self._copy_open(chunk, apart, loop_list, store)
        whole, rest = divmod(known(self.extents[-1]), chunk)
        parts = []
        for count, width, first in ((whole, chunk, 0), (1, rest, whole * chunk)):
            if not count * width:
                continue
            outer = loop_var(f"{op.axes[-1].name}.o", count)
            inner = loop_var(f"{op.axes[-1].name}.v", width)
            point = weighted_sum(
                [(var_or_zero(outer), width), (var_or_zero(inner), 1), (const(first), 1)]
            )
            vectors: list[LoopSpec]
            vectors = [(outer, count, "serial"), (inner, width, "vector")]
            if apart:  # down the lines that a vector is collected from, before the next vector
                vectors[1:1] = loop_list[-1:]
            parts.append(nest(vectors, store(point)))
        return nest(loop_list[:-1] if apart else loop_list, seq(*parts))

    def _copy_open(
        self, chunk: int, apart: bool, loops: list[LoopSpec], store: Callable[..., Stmt]
    ) -> Stmt:
        """Vectors of what lies inside the producer, the last one in part."""
        axis, extent, lanes = self.attached.op.axes[-1], self.extents[-1], self.ctx.lanes
        width = chunk if lanes else 1
        left = loop_var(f"{axis.name}.left", extent + 1)
        rest = loop_var(f"{axis.name}.rest", width + 1)
        outer = loop_var(f"{axis.name}.o", ceil_div(extent, width))
        inner = loop_var(f"{axis.name}.v", width)
        between = loops[-1:] if apart else []
        point = weighted_sum([(outer, width), (var_or_zero(inner), 1)])
        vector: list[LoopSpec] = [*between, (inner, width, "vector")]
        active = binary("min", const(width), binary("-", left, weighted_sum([(outer, width)])))
        some = Let(rest, active, nest(vector, store(point), rest if width > 1 else None))
        count = binary("//", binary("+", left, const(width - 1)), const(width))
        inside = binary("-", const(axis.extent), self.start[-1])
        body = Let(left, binary("min", inside, const(extent)), For(outer, count, "serial", some))
        return nest(loops[:-1] if apart else loops, body)

    def _reduce(self, block: Block, resolve: Resolver) -> Stmt:
        """A reduction's region in register tiles, full ones and the shorter ones at its end."""
        extents = known_shape(self.extents)
        tile = [1] * len(extents)
        pixels, last = (int(t[0]) for t in self.loops.nest.local[self.attached])
        if len(tile) > 1:
            tile[-2] = min(pixels, extents[-2])
        if tile:
            tile[-1] = min(last, extents[-1])
        cuts = []  # per dimension: (number of tiles, size of each, first element)
        for extent, size in zip(extents, tile, strict=True):
            whole, rest = divmod(extent, size)
            cuts.append([(whole, size, 0)] + ([(1, rest, whole * size)] if rest else []))
        parts = []
        for chosen in itertools.product(*reversed(cuts)):  # all tiles of one last-axis size first
            counts = list(reversed(chosen))
            outer = [loop_var(f"{a.name}.l", n) for a, (n, _, _) in
                     zip(block.spatial, counts, strict=True)]  # fmt: skip
            local = [
                weighted_sum([(var_or_zero(v), size), (const(first), 1)])
                for v, (_, size, first) in zip(outer, counts, strict=True)
            ]
            body = self._tile(block, [size for _, size, _ in counts], local, resolve)
            order = [*outer[-1:], *outer[:-1]]  # the weights of a last-axis tile stay in L1
            parts.append(nest([(v, v.extent, "serial") for v in order], body))
        return seq(*parts)

    def _tile(self, block: Block, sizes: list[int], local: list[Expr], resolve: Resolver) -> Stmt:
        reduce_node = block.body
        assert isinstance(reduce_node, Reduce)
        acc = self.ctx.temporary(f"{block.op.name}.acc", sizes, block.op.dtype, "register")
        room = max(_EXPANDED // int(tile_vectors(sizes)), 1)
        loops, expanded, index = expanded_loops(block.reduce, room)

        def each(make: str) -> Stmt:
            vars_ = {
                a: loop_var(f"{a.name}.t", n) for a, n in zip(block.spatial, sizes, strict=True)
            }
            point = tuple(var_or_zero(v) for v in vars_.values())
            inside = [binary("+", b, p) for b, p in zip(local, point, strict=True)]
            at = {
                a: binary("+", s, i)
                for a, s, i in zip(block.spatial, self.start, inside, strict=True)
            }
            before = Load(acc.dtype, acc, point)
            if make == "init":
                stmt = Store(acc, point, Const(acc.dtype, reduce_node.identity))
            elif make == "update":
                value = bind(reduce_node.source, at | index, resolve)
                stmt = Store(acc, point, binary(COMBINE[reduce_node.kind], before, value))
            else:
                stmt = Store(self.buffer, tuple(inside), finished(self.ctx, block, at, before))
            return nest(inner_loops(vars_), stmt)

        return seq(each("init"), nest([*loops, *expanded], each("update")), each("finish"))

    # -- the consumer's reads ---------------------------------------------------------------

    def read(self, read: Read, point: dict[Axis, Expr], reduce_point: dict[Axis, Expr]) -> Expr:
        """The region's element for a point of the register tile and of the reduction."""
        loops, block = self.loops, self.loops.nest.block
        indices: list[Expr] = []
        for index, shift in zip(read.indices, self.shift, strict=True):
            form = linear(index)
            assert form is not None
            terms: list[tuple[Expr, Extent]] = [(shift, 1)]
            for axis, c in form.coefficients.items():
                top = (block.spatial_levels if axis.kind == "spatial" else block.reduce_levels) - 1
                innermost = point[axis] if axis.kind == "spatial" else reduce_point[axis]
                terms.append((loops.offset(axis, self.first[axis], top), c))
                terms.append((innermost, c))
            indices.append(weighted_sum(terms))
        return load(self.buffer, indices)


def _within(start: Expr, last: Extent) -> bool:
    """Whether ``0 <= start <= last`` for all values of its loop variables."""
    bounds = linear_range(start)
    return bounds is not None and certain(lambda: bounds[0] >= 0 and bounds[1] <= last)
