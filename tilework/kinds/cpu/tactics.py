"""What Tilework does about the caches of CPUs in every program: `tilework.lower.tactics`.

Where a run brings extents it decides: a claim, or a prefetch, that pays for the largest ones costs
a quarter of the time at the smallest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from tilework.dtypes import dtype_bytes
from tilework.index.extents import Extent, nbytes
from tilework.index.symbols import range_of
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.machine import has_mesh
from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.common import const, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import Buffer, Claim, If, Stmt
from tilework.lower.tactics import Tactics
from tilework.overriding import override
from tilework.space.nest import BlockNest
from tilework.space.packings import Packed
from tilework.target import Target
from tilework.te.expr import Axis, Expr, Logic, Read, binary, compare, walk
from tilework.te.functions import select
from tilework.te.tensor import Operation

_CLAIMED_BYTES = 1 << 20
"""Smaller outputs gain nothing from claims: L3 delivers their lines soon enough."""
_STREAMED_BYTES, _STREAMED_OF_BYTES, _STREAMED_FOR_SEVERAL = 1 << 20, 1 << 17, 1 << 17
"""The least weights that are asked for ahead; where each is a byte; and for several register tiles
of rows that a run decides."""
_FEW_TILES, _FEW_OF_BYTES = 2, 1 << 14
"""Register tiles of rows that a computed matrix is asked ahead for, and its least size."""
_FAR, _NEAR = 8192, 1536
"""Bytes ahead that a line is asked for; and of what one tile of rows reads at the speed of memory,
on cores whose own prefetching requests from farther away get in the way of."""
_SET_BYTES = 1024
_WORD = "int32"
"""Weights of few bits are held in words: `tilework.ops.packed`."""
_MASKED_BITS = 256
"""Of vectors from here on, moves may leave lanes out: AVX2 and AVX-512."""


class CpuTactics(Tactics):
    """Claims of output lines, streamed weights, and results spread over the sets of a cache."""

    @override
    def masked_lanes(self, target: Target) -> int:
        cpu = CpuTarget.of(target)
        return cpu.lanes() if cpu.vector_bits >= _MASKED_BITS else 0

    @override
    def claim_tile(
        self, buffer: Buffer, start: Mapping[Axis, Expr], sizes: Mapping[Axis, int]
    ) -> Stmt | None:
        """Bring a tile's place in a large output into the cache while the tile is computed.

        A store to a line that is in no cache waits until memory has delivered the line, and
        stores wait for each other. Alone, a kernel writes where it wrote a moment ago; in a
        network, where something else lay ten milliseconds ago. Claimed when its computation
        begins, the lines are there when it ends::

            before:                             after:
                acc[..] += ...                      claim out[tile]
                out[tile] = acc[..]                 acc[..] += ...
                                                    out[tile] = acc[..]
        """
        large = _at_least(nbytes(buffer.shape, buffer.dtype), _CLAIMED_BYTES)
        if buffer.scope != "output" or large is False:
            return None
        *outer, last = start
        line = LINE_BYTES // dtype_bytes(buffer.dtype)
        loops = {a: loop_var(f"{a.name}.c", sizes[a]) for a in outer}
        lines = loop_var(f"{last.name}.c", -(-sizes[last] // line))
        at = [binary("+", start[a], var_or_zero(loops[a])) for a in outer]
        at.append(binary("+", start[last], weighted_sum([(var_or_zero(lines), line)])))
        each: list[tuple[Axis, Extent | Expr, str]]
        each = [(v, v.extent, "unroll") for v in (*loops.values(), lines)]
        claims = nest(each, Claim(buffer, tuple(at)))
        return claims if large is True else If(large, claims)

    @override
    def streamed(
        self, target: Target, nest: BlockNest, weight: Operation, packed: Packed
    ) -> int | Expr:
        """How far ahead to ask for packed weights that come more slowly than they are used.

        Weights of a megabyte come from memory in every run, for other layers' weights pass
        through the caches between two; smaller ones of bytes come from there or from L3, which
        asking ahead helps as well. While they are used for the first of several register
        tiles, the processor itself does not fetch them far enough ahead. Weights that are read
        only once keep memory busy as it is, but for three cases: behind a mesh of many cores the
        way is longer than the processor looks ahead; between two words of few bits there is so
        much unpacking that the next loads do not begin in time; and a Zen 4 reads memory faster
        that it is asked for a little ahead. What it reads of L3 is slower then, so that this goes
        for words, and for rows that a run decides: a decoder's tokens.

        One schedule serves all numbers of rows that a run may bring, and where it cuts sums into
        pieces the processor begins anew with each: 16 rows of 384 -> 384, of weights from L3 or
        memory, took 1.3 times as long in four pieces where nothing was asked for, and 1.1 times
        in one. So several tiles of such rows ask for smaller weights, too.
        """
        cpu = CpuTarget.of(target)
        least = _STREAMED_OF_BYTES if dtype_bytes(weight.dtype) == 1 else _STREAMED_BYTES
        size = nbytes(packed.packing.packed_shape, weight.dtype)
        large = _at_least(size, least)
        word, near = weight.dtype == _WORD, cpu.mcpu == "znver4"
        if has_mesh(cpu) or (word and not near):
            return _bytes(large, _FAR)
        used = {axis for axis, _ in packed.loops}
        others = [a for a in nest.block.spatial if a not in used]
        several = _any(*[_at_least(a.extent, int(nest.tiles[a][-1][0]) + 1) for a in others])
        if large is False and not word and isinstance(several, Expr):  # one tile is fast as it is
            return _bytes(_at_least(size, _STREAMED_FOR_SEVERAL), _bytes(several, _FAR))
        once = _NEAR if near and (word or isinstance(several, Expr)) else 0
        return _bytes(large, _bytes(several, _FAR, once))

    @override
    def ahead(self, nest: BlockNest, read: Read) -> int | Expr:
        """How far where a matrix is read by so few rows that it comes from L3 or memory.

        Keys and values of a decoder: between two tokens all weights pass through the caches. A
        register tile reads them across rows, or takes a part of each, which the processor does
        not foresee.
        """
        used = {n for index in read.indices for n in walk(index) if isinstance(n, Axis)}
        others = [a for a in nest.block.spatial if a not in used]
        if not any(a.open for a in used):
            return 0
        few = [_at_most(a.extent, _FEW_TILES * int(nest.tiles[a][-1][0])) for a in others]
        large = _at_least(nbytes(read.tensor.shape, read.dtype), _FEW_OF_BYTES)
        return _bytes(_all(bool(others), large, *few), _FAR)

    @override
    def spread(self, shape: tuple[Extent, ...], dtype: str) -> tuple[Extent, ...]:
        """A longer last dimension where the points of a tile fall into few cache sets.

        Neighbouring points are a slice of the last two dimensions apart. A cache looks only at
        some bits of the address: slices of a multiple of 1024 bytes evict each other. A longer one
        costs memory and nothing else. Where a run decides how many rows a slice has, and some
        numbers may lead there, it has an odd number of them, which is at most one more, and rows
        are longer where as few of them as two would lead there.
        """
        *outer, rows, last = shape
        longer = last + LINE_BYTES // dtype_bytes(dtype)
        low, high = range_of(nbytes((rows, last), dtype) % _SET_BYTES)
        if not low <= 0 <= high:
            return shape
        if isinstance(rows, int) or not isinstance(last, int):
            return (*outer, rows, longer)
        alike = nbytes((last,), dtype) % (_SET_BYTES // 2) == 0
        return (*outer, rows // 2 * 2 + 1, longer if alike else last)


def _bytes(condition: bool | Expr, then: int | Expr, otherwise: int = 0) -> int | Expr:
    """A number where a condition holds, else another: known now, or in a run."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return select(condition, const(then) if isinstance(then, int) else then, const(otherwise))


def _at_least(extent: Extent, least: int) -> bool | Expr:
    """Whether an extent is so large: known now, or in a run."""
    low, high = range_of(extent)
    if low >= least or high < least:
        return low >= least
    return compare(">=", const(extent), const(least))


def _at_most(extent: Extent, most: int) -> bool | Expr:
    """Whether an extent is no larger: known now, or in a run."""
    low, high = range_of(extent)
    if high <= most or low > most:
        return high <= most
    return compare("<=", const(extent), const(most))


def _all(*conditions: bool | Expr) -> bool | Expr:
    return _joined("and", False, conditions)


def _any(*conditions: bool | Expr) -> bool | Expr:
    return _joined("or", True, conditions)


def _joined(op: str, decides: bool, conditions: tuple[bool | Expr, ...]) -> bool | Expr:
    if decides in conditions:
        return decides
    open_ = [c for c in conditions if isinstance(c, Expr)]
    return reduce(lambda a, b: Logic("bool", op, a, b), open_) if open_ else not decides


TACTICS = CpuTactics()
