"""Nodes know their parts: what walks and rewrites goes by the fields of their classes."""

from __future__ import annotations

from tilework import te
from tilework.frozen import frozen
from tilework.lower.ir import VALUES, Buffer, For, Load, Store, expressions
from tilework.lower.loads import loads
from tilework.te.expr import Axis, Cast, Const, Expr, children, rebuild, rewritten, walk

AT, K = Axis("int32", "i", 8, "spatial"), te.reduce_axis(4, "k")
ZERO, ONE = Const("int32", 0), Const("int32", 1)
DATA, ROWS = (Buffer(n, (8,), t, "input") for n, t in (("data", "float32"), ("rows", "int32")))
GATHERED = Load("float32", DATA, (Load("int32", ROWS, (AT,)),))


@frozen(eq=False)
class Chosen(Expr):
    """A class that the engine does not know."""

    which: str
    by: Expr
    among: tuple[Expr, ...]


def test_parts_are_found_by_the_fields_of_any_class():
    node = Chosen("int32", "first", AT, (ZERO, ONE))
    assert children(node) == (AT, ZERO, ONE)
    other = rebuild(node, (AT, ONE, ONE))
    assert isinstance(other, Chosen) and (other.which, other.by) == ("first", AT)
    assert other.among == (ONE, ONE)
    assert rebuild(node, [AT, ZERO, ONE]) is node


def test_limits_of_a_reduction_are_parts_and_its_axes_are_none():
    body = te.sum(te.cast("float32", K), K, limits={K: AT})
    assert [type(e) for e in children(body)] == [Cast, Axis]
    other = rebuild(body, (body.source, ONE))
    assert (other.axes, other.limits) == ((K,), ((K, ONE),))


def test_walks_go_into_the_indices_of_loads_unless_they_ask_for_values():
    assert [n.buffer for n in walk(GATHERED) if isinstance(n, Load)] == [DATA, ROWS]
    assert list(walk(GATHERED, VALUES)) == [GATHERED]
    moved = rewritten(GATHERED, lambda e, kids: ZERO if e is AT else None)
    assert ZERO in walk(moved) and AT not in walk(moved)


def test_what_a_statement_evaluates():
    store = Store(DATA, (AT,), GATHERED)
    assert expressions(store) == (AT, GATHERED)
    assert expressions(For(AT, 8, "serial", store, GATHERED.indices[0])) == GATHERED.indices
    seen = set()
    assert loads(expressions(store), seen) == [GATHERED, *GATHERED.indices]
    assert not loads(expressions(store), seen)
