"""The register tile of scaled sums of integers in a matrix unit, of weights of few bits.

After, where ``words`` are those of a block of the weights, `scaled_tile` for vector registers::

    total[m, n] = 0
    for g / 4, and 4 times each line but the last:
      for group: for n:  bytes[group, n] = words[group / 2, n] >> .. & ..      4 weights a word
      clear, multiply, store     sums[m, n] = sum over group of x[m, group] * bytes[group, n]
      for m: for n:  total[m, n] += (float32(sums[m, n]) * scale + more) * factor
    for m: for n:  out[m, n] = epilogue(total[m, n])

All rows of the tile share what was unpacked; one or two rows alone are `scaled_tile`'s. Several
blocks are added at once, for the sums and the scaled ones are in memory, where a core writes one
vector a cycle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from tilework.frozen import frozen
from tilework.lower.common import (
    ZERO,
    Index,
    LoopSpec,
    const,
    load,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.ir import Buffer, Dot, Stmt, Store, seq
from tilework.lower.register_tiles.addend import Addend
from tilework.lower.register_tiles.matrix_tile import MatrixTile
from tilework.lower.register_tiles.register_tile import RegisterTile
from tilework.space.bounds import without
from tilework.space.capabilities import Scaled
from tilework.space.dots import BYTE, BytesOfWord
from tilework.te.expr import Axis, Const, Expr, binary
from tilework.te.functions import bitwise_and, cast, shift_right
from tilework.te.functions import const as literal

_UNPACKED_AT_ONCE = 16
"""Words whose unpacking is written one behind the other."""
_AT_ONCE = (1, 2, 4)
"""Blocks."""
_CACHED_BYTES = 1 << 15
_ALL = (1 << BYTE) - 1
_IN_EACH = 0x01010101
"""The lowest bit of each byte of a word."""


def scaled_matrix_tile(tile: RegisterTile, scaled: Scaled, total: Buffer) -> Stmt:
    """One visit of the tile, whose finished sums are in ``total``."""
    version, block = tile.version, tile.version.loops.block
    shape = [version.loops.points(a) for a in block.spatial]
    *around, last = [a for a in block.reduce if a not in scaled.axes]
    groups = math.prod(a.points for a in scaled.axes[:-1])
    name, sizes = block.op.name, (math.prod(shape), groups * shape[-1])
    count = _at_once(last.points, 4 * sum(sizes))
    accs = tile.ctx.temporary(f"{name}.unit", shape, "int32", "register")
    units, unpacked = [], []
    for i in range(count):
        sums = tile.ctx.temporary(f"{name}.inner{i}", shape, "int32", "thread")
        units.append(MatrixTile.of(replace(tile, acc=accs, partial=None), sums))
        bytes_ = [groups, shape[-1]]
        unpacked.append(tile.ctx.temporary(f"{name}.bytes{i}", bytes_, "int32", "thread"))
    return _Scaled(tile, scaled, total, tuple(units), tuple(unpacked)).code([*around, last])


def _at_once(blocks: int, nbytes: int) -> int:
    """How many blocks, each of so many bytes in memory, are scaled at once."""
    return max(n for n in _AT_ONCE if blocks % n == 0 and (n == 1 or n * nbytes <= _CACHED_BYTES))


@frozen(eq=False)
class _Scaled:
    """What is done for several blocks at once.

    Attributes:
        tile: the register tile.
        scaled: its form.
        total: where the scaled sums are.
        units: the tile of the inner sums of each block.
        unpacked: where the bytes of the weights of each block are, by group and column.
    """

    tile: RegisterTile
    scaled: Scaled
    total: Buffer
    units: tuple[MatrixTile, ...]
    unpacked: tuple[Buffer, ...]

    def code(self, around: Sequence[Axis]) -> Stmt:
        """One visit of the tile; ``around`` are the axes of blocks."""
        tile, loops, count = self.tile, self.tile.version.loops, len(self.units)
        zero = Const(tile.acc.dtype, 0.0)
        begin = self._each(lambda at: Store(self.total, self._index(at), zero))
        level, steps = loops.block.reduce_levels - 1, [a.points for a in around]
        steps[-1] //= count
        numbers = zip(around, steps, strict=True)
        vars_ = {a: loop_var(loops.vars[a, level].name, n) for a, n in numbers}
        index: Index = {a: var_or_zero(v) for a, v in vars_.items()}
        index |= dict.fromkeys(self.scaled.axes, ZERO)
        last = around[-1]
        places = [weighted_sum([(index[last], count), (const(i), 1)]) for i in range(count)]
        blocks = [{**index, last: place} for place in places]
        numbered = list(enumerate(blocks))
        body = seq(
            *(self._unpack(i, first) for i, first in numbered),
            *(self._inner(i, first) for i, first in numbered),
            self._add(blocks),
        )
        each: list[LoopSpec] = [(v, v.extent, "serial") for v in vars_.values()]
        finish = MatrixTile.of(tile, self.total).finish()
        return seq(tile.claim(), begin, nest(each, body), finish)

    def _unpack(self, number: int, first: Index) -> Stmt:
        """The bytes of a block's weights, the bits of the file's words in each."""
        weight, _ = self._factors()
        word = BytesOfWord.of(weight)
        assert word is not None
        *axes, _ = self.scaled.axes
        value = word.word
        if word.mask != _ALL:
            bits = literal(word.mask * _IN_EACH, "int32")
            value = bitwise_and(shift_right(value, word.shift), bits)
        if word.more is not None:
            value = binary("+", value, binary("*", word.more, literal(_IN_EACH, "int32")))
        vars_ = {a: loop_var(f"{a.name}.w", a.points) for a in axes}
        at = {**first, **{a: var_or_zero(v) for a, v in vars_.items()}}
        *others, last = self.tile.version.loops.block.spatial
        column = loop_var(f"{last.name}.t", self.tile.version.size(last))
        point = {**dict.fromkeys(others, ZERO), last: var_or_zero(column)}
        group: Expr = ZERO
        for a in axes:
            group = binary("+", binary("*", group, const(a.points)), at[a])
        source = self._addend(value).term(point, at)
        store = Store(self.unpacked[number], (group, point[last]), source)
        each: list[LoopSpec] = [
            (v, v.extent, "unroll" if a.points <= _UNPACKED_AT_ONCE else "serial")
            for a, v in vars_.items()
        ]
        return nest([*each, (column, column.extent, "vector")], store)

    def _inner(self, number: int, first: Index) -> Stmt:
        """A block's sums of products, in the unit and then in memory."""
        unit, (*others, along, _) = self.units[number], self.scaled.axes
        steps = math.prod(a.points for a in (*others, along)) // unit.groups
        step = loop_var(f"{along.name}.s", steps)

        def multiplied(point: Index, group: Expr) -> Stmt:
            place = weighted_sum([(var_or_zero(step), unit.groups), (group, 1)])
            at = {**first, along: place}
            dot = self._dot(unit.tile.sum(point), point, at, self.unpacked[number], place)
            return unit.tile.set(point, dot)

        zero = Const("int32", 0)
        clear = unit.done("clear", lambda point, _: unit.tile.set(point, zero))
        multiply = nest([(step, steps, "serial")], unit.done("multiply", multiplied))
        return seq(clear, multiply, unit.kept())

    def _dot(self, before: Expr, point: Index, at: Index, words: Buffer, group: Expr) -> Expr:
        """``before`` with the products of a group."""
        dots, block = self.tile.version.loops.dots, self.tile.version.loops.block
        assert dots is not None
        weight, data = self._factors()
        read = tuple(self._addend(data).term(point, at, i) for i in range(dots.count))
        word, mask = load(words, (group, point[block.spatial[-1]])), literal(_ALL, "int32")
        bytes_ = tuple(
            cast(weight.dtype, bitwise_and(shift_right(word, literal(BYTE * i, "int32")), mask))
            for i in range(dots.count)
        )
        ordered = dots.instruction.left == weight.dtype
        left, right = (bytes_, read) if ordered else (read, bytes_)
        return Dot.of(dots.instruction, before, left, right)

    def _add(self, blocks: Sequence[Index]) -> Stmt:
        """Finished sums of the blocks, scaled."""
        whole = self.scaled.whole
        assert whole is not None

        def added(point: Index) -> Stmt:
            value: Expr = load(self.total, self._index(point))
            for unit, first in zip(self.units, blocks, strict=True):
                scale, more, factor = (
                    self._addend(e).term(point, first)
                    for e in (whole.scale, whole.more, self.scaled.factor)
                )
                one = cast("float32", load(unit.sums, self._index(point)))
                one = binary("+", binary("*", one, scale), more)
                value = self.tile.addend.combined(value, binary("*", one, factor))
            return Store(self.total, self._index(point), value)

        return self._each(added, "unroll")

    def _each(self, make: Callable[[Index], Stmt], kind: str = "serial") -> Stmt:
        """``make`` of all points of the tile."""
        unit = self.units[0]
        rows, column = unit.points()
        each: list[LoopSpec] = [(v, v.extent, kind) for v in rows]
        body = make(unit.point(rows, column))
        return nest([*each, (column, column.extent, "vector")], body)

    def _index(self, point: Index) -> tuple[Expr, ...]:
        return tuple(point[a] for a in self.tile.version.loops.block.spatial)

    def _factors(self) -> tuple[Expr, Expr]:
        """An element of the weights, and one of the data."""
        dots = self.tile.version.loops.dots
        assert dots is not None
        factors = dots.instruction.factors(self.scaled.terms)
        assert factors is not None
        left, right = factors
        return (left, right) if BytesOfWord.of(left) is not None else (right, left)

    def _addend(self, e: Expr) -> Addend:
        tile = self.tile
        return replace(tile.addend, source=without(e, tile.version.known()))
