"""Steps of a reduction whose lanes lie apart: a loop around one, in place of copies.

Lanes that are no neighbours in memory are a load and an insertion each. Expanded, such steps would
be most of a kernel's text, and of what LLVM takes for it: 7,200 of 7,400 lines of a product of one
row by weights that lie the other way. They take so long that a loop around them costs nothing.
Where steps are neighbours in memory a block of them is loaded at once (`transposed`): those are
expanded.
"""

from __future__ import annotations

import math

from tilework.dtypes import is_float
from tilework.kinds.cpu.llvm.addresses import Addresses
from tilework.kinds.cpu.llvm.transposed import SIDE, unconditional
from tilework.lower.ir import VALUES, For, Load, Stmt, Store
from tilework.te.expr import Axis, Binary, Compare, Const, IfThenElse, Read, walk

_PLAIN = Load | Binary | IfThenElse | Compare | Const | Axis
"""What a step may consist of: no function, which takes a vector of its own."""
_ENOUGH = 64
"""Elements, read one by one, of a step that takes a loop: some 32 cycles or more."""


def by_lane(e: IfThenElse, lane: Axis) -> bool:
    """Whether a choice is made lane by lane: some must not read what others compare."""
    return (
        not isinstance(e.a, Load | Read)
        and any(n is lane for n in walk(e.cond, VALUES))
        and any(isinstance(n, Load | Read) and not is_float(n.dtype) for n in walk(e.a, VALUES))
    )


def scattered(s: For, addresses: Addresses) -> bool:
    """Whether an expanded loop is as fast unexpanded: its steps add up numbers that lie apart."""
    extents: dict[Axis, int] = {}
    body: Stmt = s
    while isinstance(body, For) and body.kind in ("unroll", "vector"):
        if not isinstance(body.extent, int):
            return False
        extents[lane := body.var] = body.extent
        body = body.body
    if not isinstance(body, Store) or body.buffer.scope != "register" or s.extent == 1:
        return False
    nodes = list(walk(body.value, VALUES))
    sums = addresses.flat(body.buffer, body.indices)
    if not is_float(body.value.dtype) or sums is None or sums.step(s.var) != 0:
        return False
    if any(isinstance(n, IfThenElse) and by_lane(n, lane) for n in nodes):
        return extents[lane] > 1
    if not all(isinstance(n, _PLAIN) for n in nodes):
        return False
    forms = (addresses.flat(n.buffer, n.indices) for n in nodes if isinstance(n, Load))
    apart = (f for f in forms if f is not None and f.step(lane) not in (0, 1))
    if s.extent % SIDE == 0 and unconditional(s):
        apart = (f for f in apart if f.step(s.var) != 1)
    del extents[s.var]
    each = (math.prod([n for v, n in extents.items() if f.step(v) != 0]) for f in apart)
    return sum(each) >= _ENOUGH
