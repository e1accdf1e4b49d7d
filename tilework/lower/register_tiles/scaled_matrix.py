"""The register tile of scaled sums of integers in a matrix unit, of weights of few bits.

After, where ``words`` are those of a block of the weights, `scaled_tile` for vector registers::

    total[m, n] = 0
    for g:
      for group: for n:  bytes[group, n] = words[group / 2, n] >> .. & ..      4 weights a word
      clear, multiply, store     sums[m, n] = sum over group of x[m, group] * bytes[group, n]
      for m: for n:  total[m, n] += (float32(sums[m, n]) * scale - less) * factor
    for m: for n:  out[m, n] = epilogue(total[m, n])

All rows of the tile share what was unpacked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tilework.lower.common import ZERO, LoopSpec, Point, const, load, loop_var, nest, var_or_zero
from tilework.lower.ir import Buffer, Dot, Stmt, Store, seq
from tilework.lower.register_tiles.addend import Addend
from tilework.lower.register_tiles.matrix_tile import MatrixTile
from tilework.lower.register_tiles.register_tile import RegisterTile
from tilework.lower.register_tiles.steps import reduce_steps
from tilework.space.bounds import without
from tilework.space.capabilities import Scaled
from tilework.space.dots import BYTE, BytesOfWord
from tilework.te.expr import Axis, Const, Expr, binary
from tilework.te.functions import bitwise_and, cast, shift_right
from tilework.te.functions import const as literal

_UNPACKED_AT_ONCE = 16
"""Words whose unpacking is written one behind the other."""
_ALL = (1 << BYTE) - 1
_IN_EACH = 0x01010101
"""The lowest bit of each byte of a word."""


def scaled_matrix_tile(tile: RegisterTile, scaled: Scaled, total: Buffer) -> Stmt:
    """One visit of the tile, whose finished sums are in ``total``."""
    version, block = tile.version, tile.version.loops.block
    shape = [version.loops.points(a) for a in block.spatial]
    sums = tile.ctx.temporary(f"{block.op.name}.inner", shape, "int32", "thread")
    accs = tile.ctx.temporary(f"{block.op.name}.unit", shape, "int32", "register")
    last = block.spatial[-1]
    groups = math.prod(a.points for a in scaled.axes[:-1])
    unpacked = tile.ctx.temporary(
        f"{block.op.name}.bytes", [groups, version.loops.points(last)], "int32", "thread"
    )
    inner = replace(tile, acc=accs, partial=None)
    return _Scaled(MatrixTile.of(inner, sums), scaled, unpacked, total).code(tile)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """What is done in turns for each block.

    Attributes:
        unit: the tile of its inner sums.
        scaled: the block's form.
        unpacked: where the bytes of a block are, by group and column.
        total: where the scaled sums are.
    """

    unit: MatrixTile
    scaled: Scaled
    unpacked: Buffer
    total: Buffer

    def code(self, tile: RegisterTile) -> Stmt:
        """One visit of ``tile``."""
        version, scaled = tile.version, self.scaled
        zero = Const(tile.acc.dtype, 0.0)
        begin = self._each(lambda at: Store(self.total, self._index(at), zero))

        def visit(index: Point, taps: Point) -> Stmt:
            first = {**index, **dict.fromkeys(scaled.axes, ZERO)}
            return seq(self._unpack(first), self._inner(first), self._add(tile, first))

        around = [a for a in version.loops.block.reduce if a not in scaled.axes]
        steps = reduce_steps(version, visit, around, expanded=False)
        return seq(tile.claim(), begin, steps, MatrixTile.of(tile, self.total).finish())

    def _unpack(self, first: Point) -> Stmt:
        """The bytes of a block's weights, the bits of the file's words in each."""
        weight, _ = self._factors()
        word = BytesOfWord.of(weight)
        assert word is not None
        *axes, _ = self.scaled.axes
        value = word.word
        if word.mask != _ALL:
            bits = literal(word.mask * _IN_EACH, "int32")
            value = bitwise_and(shift_right(value, word.shift), bits)
        vars_ = {a: loop_var(f"{a.name}.w", a.points) for a in axes}
        at = {**first, **{a: var_or_zero(v) for a, v in vars_.items()}}
        (*others, last), (_, column) = self.unit.tile.version.loops.block.spatial, self.unit.points()
        point = {**dict.fromkeys(others, ZERO), last: var_or_zero(column)}
        group: Expr = ZERO
        for a in axes:
            group = binary("+", binary("*", group, const(a.points)), at[a])
        store = Store(
            self.unpacked, (group, var_or_zero(column)), self._addend(value).term(point, at)
        )
        each: list[LoopSpec] = []
        for a, v in vars_.items():
            written = a.points <= _UNPACKED_AT_ONCE
            each.append((v, v.extent, "unroll" if written else "serial"))
        return nest([*each, (column, column.extent, "vector")], store)

    def _inner(self, first: Point) -> Stmt:
        """The block's sums of products, in the unit and then in memory."""
        unit, tile = self.unit, self.unit.tile
        *_, along, element = self.scaled.axes
        number = math.prod(a.points for a in self.scaled.axes[:-1]) // unit.groups
        step = loop_var(f"{along.name}.s", number)

        def multiplied(point: Point, group: Expr) -> Stmt:
            place = binary("+", binary("*", var_or_zero(step), const(unit.groups)), group)
            at = {**first, along: place}
            return tile.set(point, self._dot(tile.sum(point), point, at, place, element))

        zero = Const("int32", 0)
        clear = unit.done("clear", lambda point, _: tile.set(point, zero))
        multiply = nest([(step, number, "serial")], unit.done("multiply", multiplied))
        return seq(clear, multiply, unit.kept())

    def _dot(self, before: Expr, point: Point, at: Point, group: Expr, element: Axis) -> Expr:
        dots = self.unit.tile.version.loops.dots
        assert dots is not None
        weight, data = self._factors()
        addend = self._addend(data)
        read = tuple(addend.term_of_group(point, at, i) for i in range(dots.count))
        last = self.unit.tile.version.loops.block.spatial[-1]
        word = load(self.unpacked, (group, point[last]))
        mask = literal(_ALL, "int32")
        bytes_ = tuple(
            cast(weight.dtype, bitwise_and(shift_right(word, literal(BYTE * i, "int32")), mask))
            for i in range(dots.count)
        )
        ordered = dots.instruction.left == weight.dtype
        left, right = (bytes_, read) if ordered else (read, bytes_)
        return Dot.of(dots.instruction, before, left, right)

    def _add(self, tile: RegisterTile, first: Point) -> Stmt:
        """Finished sums of a block, scaled."""
        whole = self.scaled.whole
        assert whole is not None

        def added(point: Point) -> Stmt:
            scale, less, factor = (
                self._addend(e).term(point, first)
                for e in (whole.scale, whole.less, self.scaled.factor)
            )
            value: Expr = cast("float32", load(self.unit.sums, self._index(point)))
            value = binary("-", binary("*", value, scale), less)
            before = load(self.total, self._index(point))
            after = tile.addend.combined(before, binary("*", value, factor))
            return Store(self.total, self._index(point), after)

        return self._each(added, "unroll")

    def _each(self, make: Callable[[Point], Stmt], kind: str = "serial") -> Stmt:
        """``make`` of all points of the tile."""
        rows, column = self.unit.points()
        body = make(self.unit.point(rows, column))
        each: list[LoopSpec] = [(v, v.extent, kind) for v in rows]
        return nest([*each, (column, column.extent, "vector")], body)

    def _index(self, point: Point) -> tuple[Expr, ...]:
        return tuple(point[a] for a in self.unit.tile.version.loops.block.spatial)

    def _factors(self) -> tuple[Expr, Expr]:
        """An element of the weights, and one of the data."""
        dots = self.unit.tile.version.loops.dots
        assert dots is not None
        factors = dots.instruction.factors(self.scaled.terms)
        assert factors is not None
        left, right = factors
        return (left, right) if BytesOfWord.of(left) is not None else (right, left)

    def _addend(self, e: Expr) -> Addend:
        tile = self.unit.tile
        return replace(tile.addend, source=without(e, tile.version.known()))
