"""The order of an expanded nest of updates: those that read the same element stand together.

A window sum such as a depthwise convolution reads each input element once per tap, for another
output each time. Tap by tap, an element would be needed again long after its first use: it would
have to wait in a register, and there are none left. Element by element it is used up at once::

    for tap: for pixel: acc[pixel] += x[pixel + tap] * w[tap]       as lowered
    for element: for tap: acc[element - tap] += x[element] * w[tap]     the order chosen here

The accumulators, and as many weights as fit, are all that lives longer than an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import attrgetter

from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.index.symbols import Symbolic, Terms
from tilework.kinds.cpu.llvm.addresses import Addresses
from tilework.lower.ir import For, If, Load, Stmt, Store
from tilework.te.expr import Axis, IfThenElse, Lookup, walk
from tilework.te.parts import Parts


def by_element(s: For, addresses: Addresses) -> tuple[Stmt, list[dict[Axis, int]]] | None:
    """Body and points of a perfect nest of expanded loops, ordered by the element that they read.

    None where that would not help: the nest is not one vector update of a register, it reads
    something that all lanes share (a matrix product, which has an order of its own), or every
    element is read once.
    """
    loops: list[tuple[Axis, int]] = []
    body: Stmt = s
    while isinstance(body, For) and body.kind == "unroll":
        if not isinstance(body.extent, int):
            return None
        loops.append((body.var, body.extent))
        body = body.body
    update = body  # at the border, a condition that is known here leaves points out
    if isinstance(update, If) and update.orelse is None:
        update = update.then
    if not (isinstance(update, For) and update.kind == "vector"):
        return None
    if not isinstance(update.body, Store):
        return None
    forms = _vector_loads(update.body, update.var, addresses)
    if not forms:
        return None
    points = [
        dict(zip((v for v, _ in loops), at, strict=True))
        for at in product(*(range(n) for _, n in loops))
    ]
    best: list[tuple[int, ...]] | None = None
    distinct = 0
    for form in forms:
        terms = [(v, form.step(v)) for v, _ in loops]
        offsets = _places([sum((c * p[v] for v, c in terms), 0) for p in points])
        count = len(set(offsets))
        if distinct < count < len(points):
            best, distinct = offsets, count
        elif count == len(points):
            return None
    if best is None:
        return None
    order = sorted(range(len(points)), key=best.__getitem__)
    return body, [points[i] for i in order]


def _places(offsets: Sequence[Extent]) -> list[tuple[int, ...]]:
    """Offsets as what can be sorted: symbolic ones by their coefficients."""
    terms: list[Terms] = [o.terms if isinstance(o, Symbolic) else {(): o} for o in offsets]
    products = dict.fromkeys(m for own in terms for m in own if m)
    return [tuple(own.get(m, 0) for m in (*products, ())) for own in terms]


def _vector_loads(store: Store, lane: Axis, addresses: Addresses) -> list[Form[Axis]]:
    """Addresses of what an update of a register reads; empty unless all are plain vectors."""
    if store.buffer.scope != "register":
        return []
    forms = []
    for node in walk(store.value, _TAKEN):
        if isinstance(node, Lookup):
            return []
        if isinstance(node, Load) and node.buffer.scope != "register":
            form = addresses.flat(node.buffer, node.indices)
            if form is None or form.step(lane) != 1:
                return []
            forms.append(form)
    return forms


_TAKEN = Parts("Expr")
"""What a value is computed from, without conditions of guards and indices of loads."""
_TAKEN[Load], _TAKEN[IfThenElse] = (lambda e: ()), attrgetter("a", "b")
