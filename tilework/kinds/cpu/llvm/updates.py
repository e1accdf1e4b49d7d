"""Updates of registers by products, ``r = r + a * b``: most statements of an expanded body.

Each is emitted for every point of its loops, and is what `Expressions` makes of it, text by text.
What does not change from point to point is looked up once; of the rest, no more is done than a
point needs.
"""

from __future__ import annotations

from typing import NamedTuple

from tilework.dtypes import is_float
from tilework.index.form import Form
from tilework.kinds.cpu.llvm.expressions import Expressions
from tilework.kinds.cpu.llvm.load_store import LoadKey, extent_of
from tilework.kinds.cpu.llvm.ssa import Ssa, zero_literal
from tilework.lower.ir import Buffer, Load, Store
from tilework.te.expr import Axis, Binary


class _Operand(NamedTuple):
    """A factor in memory, at a linear index."""

    buffer: Buffer
    form: Form[Axis]


class _Update(NamedTuple):
    """The register's index, the literal that needs no addition, and the factors."""

    form: Form[Axis]
    zero: str
    factors: tuple[_Operand, _Operand]


class Updates:
    """Emits updates of registers by products."""

    def __init__(self, expressions: Expressions) -> None:
        self._memory, self._arithmetic = expressions.memory, expressions.arithmetic
        self._addresses = expressions.addresses
        self._known: dict[int, tuple[Store, _Update | None]] = {}

    def emitted(self, s: Store) -> bool:
        """Emit a statement at this point of its loops; False: it is none of these, or not here."""
        hit = self._known.get(id(s))
        if hit is None:
            hit = self._known[id(s)] = (s, self._update(s))
        update, memory = hit[1], self._memory
        if update is None or memory.guards:
            return False
        split, registers = memory.bindings.split, memory.registers
        element, _, _, lane = split(update.form)
        width = 1 if lane is None else lane.width
        held = registers.values.get((s.buffer, element)) if isinstance(element, int) else None
        if held is None or held.width != width or held.ssa == update.zero:
            return False
        keys: list[LoadKey] = []
        for buffer, form in update.factors:
            const, terms, step, along = split(form)
            if step not in (0, 1) or (step and along is not lane):
                return False
            keys.append((buffer, terms, const, *extent_of(along if step else None), ()))
        registers.one_by_one.leave()
        a, b = [memory.loads.get(key) or self._loaded(key) for key in keys]
        registers.keep(s.buffer, element, self._arithmetic.multiply_add(a, b, held), lane)
        return True

    def _loaded(self, key: LoadKey) -> Ssa:
        buffer, terms, const, width, active, _ = key
        pointer = self._addresses.pointer(buffer, terms, const)
        value = self._memory.loads[key] = self._memory.load_at(buffer, pointer, width, active)
        return value

    def _update(self, s: Store) -> _Update | None:
        """The statement, if it is an update."""
        e = s.value
        if s.buffer.scope != "register" or not isinstance(e, Binary) or e.op != "+":
            return None
        flipped = isinstance(e.b, Binary) and e.b.op == "*"
        product, other = (e.b, e.a) if flipped else (e.a, e.b)
        if not (isinstance(product, Binary) and product.op == "*" and is_float(e.dtype)):
            return None
        a, b = product.a, product.b
        if not (isinstance(other, Load) and isinstance(a, Load) and isinstance(b, Load)):
            return None
        if other.buffer is not s.buffer or other.indices != s.indices:
            return None
        if any(x.buffer.scope == "register" for x in (a, b)):
            return None
        flat = self._addresses.flat
        form = flat(s.buffer, s.indices)
        forms = [flat(x.buffer, x.indices) for x in (a, b)]
        if form is None or forms[0] is None or forms[1] is None:
            return None
        factors = _Operand(a.buffer, forms[0]), _Operand(b.buffer, forms[1])
        return _Update(form, zero_literal(e.dtype), factors)
