"""Reductions across the lanes of vectors: terms of one register element that lie side by side.

What is left of a reduction whose neighbours were summed apart, of as many terms as a run says::

    for u in 0..15 (expanded): acc = acc + (part[u] + (u < rest ? x[at + u] : 0))

One by one each term waits for the one before. Here all lanes are added at once, and halves of the
vector to each other after that::

    v = part[0:16] + (x[at : at + rest], else 0);  v = v[0:8] + v[8:16];  ...  acc = acc + v

The order of a sum is another one, so that kernels of known extents, which are the same code as
ever, keep theirs. Sums of bytes are exact in any order: as many as stand beside each other are
added at once, for which CPUs have an instruction, whatever their number::

    for u in 0..63 (expanded): acc = acc + int32(x[u])
"""

from __future__ import annotations

from itertools import product

from tilework.kinds.cpu.llvm.convert import binary
from tilework.kinds.cpu.llvm.expressions import Expressions
from tilework.kinds.cpu.llvm.lanes import Lane
from tilework.kinds.cpu.llvm.masks import some_lanes
from tilework.kinds.cpu.llvm.ssa import Ssa, vector_type
from tilework.lower.ir import For, Load, Stmt, Store
from tilework.space.rests import has_rest, rest_of
from tilework.te.expr import Axis, Binary, Cast, Const, Expr, IfThenElse, children, walk

FLIP = 128
_OPERATORS = frozenset({"+", "*", "max", "min"})
_SUMMED, _BYTES = ("float32", "int32"), ("uint8", "int8")
FEWEST_BYTES, MOST_BYTES = 4, 64
"""So few bytes are added one by one, and so many at once."""


class Across:
    """Emits reductions across lanes."""

    def __init__(self, expressions: Expressions, lanes: int) -> None:
        self._expressions, self._lanes = expressions, lanes
        self._memory = expressions.memory

    def emitted(self, s: For, symbolic: bool) -> bool:
        """Emit an expanded loop over such terms; False: it is none.

        Args:
            s: the loop.
            symbolic: whether a run decides extents of the program.
        """
        around, store = _inner(s.body)
        if store is None:
            return False
        of_bytes = self._is_sum_of_bytes(s, store)
        if not of_bytes and not (symbolic and self._is_sum(s, store)):
            return False
        bindings = self._expressions.bindings
        for point in product(*(range(n) for _, n in around)):
            for (var, _), at in zip(around, point, strict=True):
                bindings.bind(var, at)
            if of_bytes:
                self._sum_of_bytes(s, store)
            else:
                self._sum(s, store)
        return True

    def _is_sum_of_bytes(self, s: For, store: Store) -> bool:
        """Whether bytes that lie side by side are added to an int32 in a register."""
        value = store.value
        if store.buffer.scope != "register" or not isinstance(s.extent, int):
            return False
        if not (isinstance(value, Binary) and value.op == "+" and _is_same(value.a, store)):
            return False
        term = value.b
        if not (isinstance(term, Cast) and term.dtype == "int32" and isinstance(term.a, Load)):
            return False
        read = term.a
        form = self._expressions.addresses.flat(read.buffer, read.indices)
        plain = read.dtype in _BYTES and read.buffer.scope != "register"
        beside = form is not None and form.step(s.var) == 1
        varies = any(s.var in walk(i) for i in store.indices)
        return plain and beside and not varies and s.extent >= FEWEST_BYTES

    def _sum_of_bytes(self, s: For, store: Store) -> None:
        value = store.value
        assert isinstance(value, Binary)
        assert isinstance(value.b, Cast)
        assert isinstance(s.extent, int)
        bindings, arithmetic = self._expressions.bindings, self._memory.arithmetic
        whole, at = self._expressions.value(value.a), 0
        while at < s.extent:
            width = min(MOST_BYTES, 1 << (s.extent - at).bit_length() - 1)
            outer, bindings.vector = bindings.vector, s.var
            bindings.bind(s.var, Lane(at, width, width))
            x = self._expressions.value(value.b.a)
            bindings.vector = outer
            wide = vector_type("int32", width)
            if x.dtype == "int8":  # 128 more, so that none has a sign
                flip = arithmetic.splat(Ssa(str(-FLIP), 1, "int8"), width)
                x = Ssa(self._memory.fn.emit(f"xor {x.type} {x.ssa}, {flip.ssa}"), width, "uint8")
            each = self._memory.fn.emit(f"zext {x.type} {x.ssa} to {wide}")
            if width > 1:
                name = f"@llvm.vector.reduce.add.v{width}i32"
                arithmetic.declarations.declare(f"declare i32 {name}({wide})")
                each = self._memory.fn.emit(f"call i32 {name}({wide} {each})")
            whole = binary(arithmetic, "+", whole, Ssa(each, 1, "int32"))
            at += width
        if value.b.a.dtype == "int8":
            less = Ssa(str(-FLIP * s.extent), 1, "int32")
            whole = binary(arithmetic, "+", whole, less)
        bindings.bind(s.var, 0)
        self._memory.store(store.buffer, store.indices, whole)

    def _is_sum(self, s: For, store: Store) -> bool:
        """Whether all terms lie side by side, and fill registers, up to an end that a run says."""
        value = store.value
        if store.buffer.scope != "register" or store.buffer.dtype not in _SUMMED:
            return False
        if not isinstance(s.extent, int) or s.extent % self._lanes or self._lanes == 1:
            return False
        if (
            not isinstance(value, Binary)
            or value.op not in _OPERATORS
            or not _is_same(value.a, store)
        ):
            return False
        varies = any(s.var in walk(i) for i in store.indices)
        return not varies and has_rest(value.b, s.var) and self._side_by_side(value.b, s.var)

    def _side_by_side(self, term: Expr, var: Axis) -> bool:
        """Whether loads move on by an element or not at all, and are combined lane by lane."""
        match term:
            case Load():
                form = self._expressions.addresses.flat(term.buffer, term.indices)
                step = None if form is None else form.step(var)
                memory = term.buffer.scope != "register" or step == 0
                return step in (0, 1) and memory and term.dtype in (*_SUMMED, *_BYTES)
            case Const():
                return True
            case Cast():
                narrow = isinstance(term.a, Load) and term.a.dtype in _BYTES
                return term.dtype in _SUMMED and narrow and self._side_by_side(term.a, var)
            case Binary():
                plain = term.dtype in _SUMMED and term.op in (*_OPERATORS, "-")
                return plain and all(self._side_by_side(e, var) for e in children(term))
            case IfThenElse():
                return (
                    rest_of(term, var) is not None
                    and self._side_by_side(term.a, var)
                    and isinstance(term.b, Const)
                )
        return False

    def _sum(self, s: For, store: Store) -> None:
        assert isinstance(store.value, Binary)
        assert isinstance(s.extent, int)
        bindings, arithmetic = self._expressions.bindings, self._memory.arithmetic
        op, whole = store.value.op, self._expressions.value(store.value.a)
        first = whole if op in ("+", "*") else None
        outer, bindings.vector = bindings.vector, s.var
        values = [self._term(store.value.b, s.var, at) for at in range(0, s.extent, self._lanes)]
        bindings.vector = outer
        bindings.bind(s.var, 0)
        if first is not None:
            whole, *values = values
        for value in values:  # a NaN on the right is left out
            whole = binary(arithmetic, op, whole, value)
        while whole.width > 1:
            half = whole.width // 2
            whole = binary(arithmetic, op, self._half(whole, 0), self._half(whole, half))
        done = whole if first is None else binary(arithmetic, op, first, whole)
        self._memory.store(store.buffer, store.indices, done)

    def _half(self, v: Ssa, first: int) -> Ssa:
        """Half the lanes of a vector, from one on."""
        half = v.width // 2
        if half == 1:
            text = f"extractelement {v.type} {v.ssa}, i32 {first}"
        else:
            lanes = ", ".join(f"i32 {first + i}" for i in range(half))
            text = f"shufflevector {v.type} {v.ssa}, {v.type} poison, <{half} x i32> <{lanes}>"
        return Ssa(self._memory.fn.emit(text), half, v.dtype)

    def _term(self, e: Expr, var: Axis, offset: int) -> Ssa:
        """A term in some lanes."""
        bindings, arithmetic = self._expressions.bindings, self._memory.arithmetic
        plain = Lane(offset, self._lanes, self._lanes)
        match e:
            case IfThenElse():
                end = rest_of(e, var)
                assert end is not None
                mask = some_lanes(
                    self._expressions.integers, end, offset, self._lanes, 32 * self._lanes
                )
                bindings.bind(var, Lane(offset, self._lanes, self._lanes, mask))
                value = self._expressions.value(e.a)
                counts = Ssa(self._memory.masked.lanes(self._lanes, mask), self._lanes, "bool")
                return arithmetic.select(counts, value, self._expressions.value(e.b))
            case Binary():
                a, b = (self._term(x, var, offset) for x in (e.a, e.b))
                return binary(arithmetic, e.op, a, b)
        bindings.bind(var, plain)
        return arithmetic.splat(self._expressions.value(e), self._lanes)


def _inner(body: Stmt) -> tuple[list[tuple[Axis, int]], Store | None]:
    """The statement within expanded loops, and these."""
    around = []
    while isinstance(body, For) and body.kind == "unroll" and isinstance(body.extent, int):
        around.append((body.var, body.extent))
        body = body.body
    return around, body if isinstance(body, Store) else None


def _is_same(e: Expr, store: Store) -> bool:
    return isinstance(e, Load) and e.buffer is store.buffer and e.indices == store.indices
