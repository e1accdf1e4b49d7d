"""Claims: a tile's place in a large output is brought into the cache while the tile is computed.

A store to a line that is in no cache waits until memory has delivered the line, and stores wait
for each other. Alone, a kernel writes where it wrote a moment ago; in a network, where something
else lay ten milliseconds ago. Claimed when its computation begins, the lines are there when it
ends::

    before:                             after:
        acc[..] += ...                      claim out[tile]
        out[tile] = acc[..]                 acc[..] += ...
                                            out[tile] = acc[..]
"""

from __future__ import annotations

from collections.abc import Mapping

from tilework.dtypes import dtype_bytes
from tilework.lower.common import loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import Buffer, Claim, Stmt
from tilework.te.expr import Axis, Expr, binary

LINE_BYTES = 64
_LEAST_BYTES = 1 << 20
"""Smaller outputs gain nothing: L3 delivers their lines soon enough."""


def claim_tile(
    buffer: Buffer, start: Mapping[Axis, Expr], sizes: Mapping[Axis, int]
) -> Stmt | None:
    """Claim the lines of a box of a task's output, or nothing where it is small.

    Args:
        buffer: what is going to be written.
        start, sizes: the box: an entry for each dimension of ``buffer``, in order.
    """
    if buffer.scope != "output" or buffer.size * dtype_bytes(buffer.dtype) < _LEAST_BYTES:
        return None
    *outer, last = start
    line = LINE_BYTES // dtype_bytes(buffer.dtype)
    loops = {a: loop_var(f"{a.name}.c", sizes[a]) for a in outer}
    lines = loop_var(f"{last.name}.c", -(-sizes[last] // line))
    at = [binary("+", start[a], var_or_zero(loops[a])) for a in outer]
    at.append(binary("+", start[last], weighted_sum([(var_or_zero(lines), line)])))
    each: list[tuple[Axis, int | Expr, str]]
    each = [(v, v.extent, "unroll") for v in (*loops.values(), lines)]
    return nest(each, Claim(buffer, tuple(at)))
