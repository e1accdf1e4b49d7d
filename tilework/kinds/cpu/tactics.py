"""What Tilework does about the caches of CPUs in every program: `tilework.lower.tactics`.

Where a run brings extents, only what holds for all of them decides: a claim, or a prefetch, that
pays for the largest ones alone costs more at the small ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilework.dtypes import dtype_bytes
from tilework.index.extents import Extent, nbytes
from tilework.index.symbols import range_of
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.lower.common import loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import Buffer, Claim, Stmt
from tilework.lower.tactics import Tactics
from tilework.space.nest import BlockNest
from tilework.space.packing import Packed
from tilework.te.expr import Axis, Expr, binary
from tilework.te.tensor import Operation

_CLAIMED_BYTES = 1 << 20
"""Smaller outputs gain nothing from claims: L3 delivers their lines soon enough."""
_STREAMED_BYTES = 1 << 20
_SET_BYTES = 1024


class CpuTactics(Tactics):
    """Claims of output lines, streamed weights, and results spread over the sets of a cache."""

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
        if buffer.scope != "output" or _least(nbytes(buffer.shape, buffer.dtype)) < _CLAIMED_BYTES:
            return None
        *outer, last = start
        line = LINE_BYTES // dtype_bytes(buffer.dtype)
        loops = {a: loop_var(f"{a.name}.c", sizes[a]) for a in outer}
        lines = loop_var(f"{last.name}.c", -(-sizes[last] // line))
        at = [binary("+", start[a], var_or_zero(loops[a])) for a in outer]
        at.append(binary("+", start[last], weighted_sum([(var_or_zero(lines), line)])))
        each: list[tuple[Axis, Extent | Expr, str]]
        each = [(v, v.extent, "unroll") for v in (*loops.values(), lines)]
        return nest(each, Claim(buffer, tuple(at)))

    def streamed(self, nest: BlockNest, weight: Operation, packed: Packed) -> bool:
        """Whether packed weights come from memory, more slowly than they are used.

        Weights of a megabyte come from memory in every run, for other layers' weights pass
        through the caches between two. While they are used for the first of several register
        tiles, the processor itself does not fetch them far enough ahead. Weights that are read
        only once keep memory busy as it is; asking for them then only costs.
        """
        if _least(nbytes(packed.packing.packed_shape, weight.dtype)) < _STREAMED_BYTES:
            return False
        used = {axis for axis, _ in packed.loops}
        others = [a for a in nest.block.spatial if a not in used]
        return any(_least(a.extent) > int(nest.tiles[a][-1][0]) for a in others)

    def spread(self, shape: tuple[Extent, ...], dtype: str) -> tuple[Extent, ...]:
        """A longer last dimension where the points of a tile fall into few cache sets.

        Neighbouring points are a slice of the last two dimensions apart. A cache looks only at
        some bits of the address: slices of a multiple of 1024 bytes evict each other. A longer one
        costs memory and nothing else, so that it is taken where some extents may lead there.
        """
        size = dtype_bytes(dtype)
        low, high = range_of(nbytes(shape[-2:], dtype) % _SET_BYTES)
        if low <= 0 <= high:
            return (*shape[:-1], shape[-1] + LINE_BYTES // size)
        return shape


def _least(extent: Extent) -> int:
    return range_of(extent)[0]


TACTICS = CpuTactics()
