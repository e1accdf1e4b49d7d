"""Vector loops: 2 or 4 neighbours in one access where they are aligned, for sure.

A load that moves by one element with the loop, and begins at a multiple of its length, becomes one
of a vector; a condition that is the same for all lanes is asked once::

    for v in 0..4 (vector):  s[4*t + v] = y < 14 ? x[4*t + v] : 0

    const float4 v0 = (y < 14) ? TW_LD4(x, 4*t) : TW_ZERO4;
    TW_ST4(s, 4*t, v0.x, v0.y, v0.z, v0.w);

Everything else is computed lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework.kinds.cuda.source.expressions import Expressions
from tilework.kinds.cuda.source.indices import flat, mentions
from tilework.kinds.cuda.source.lines import Lines
from tilework.kinds.cuda.source.types import VALUE
from tilework.lower.ir import Buffer, Load, Store
from tilework.te.affine import sum_of
from tilework.te.expr import Axis, Compare, Const, Expr, IfThenElse, Logic, Not, children
from tilework.te.ranges import multiple_of

_TYPES = {
    "float32": "float", "float16": "float", "bfloat16": "float", "int32": "int",
}  # fmt: skip
"""By type of element: what vectors in registers are made of."""
_ADDRESSED = ("input", "output", "global", "block")
LANES = (2, 4)


class VectorStore:
    """One store of a vector loop, whose variable is ``var``."""

    def __init__(self, store: Store, var: Axis, texts: Expressions, lines: Lines) -> None:
        self.store, self.var, self.texts, self.lines = store, var, texts, lines
        self.count = var.points
        self._vectors: dict[int, str] = {}
        self._variables: dict[tuple[object, ...], str] = {}

    def write(self) -> None:
        """Print it."""
        self._collect(self.store.value, [])
        known = self.texts.names.known
        buffer, indices = self.store.buffer, self.store.indices
        value: list[str] = []
        for lane in range(self.count):
            known[self.var] = lane
            for node, name in self._vectors.items():
                self.texts.values[node] = f"{name}.{'xyzw'[lane]}"
            value.append(self.texts.accumulated(buffer, indices, self.store.value))
        for node in self._vectors:
            del self.texts.values[node]
        if self.is_vector(buffer, indices):
            known[self.var] = 0
            self.lines.add(f"{self.texts.access(f'ST{self.count}', buffer, indices, *value)};")
        else:
            if buffer.scope in _ADDRESSED:  # all values first: one may be what another overwrites
                value = [self._named(v) for v in value]
            for lane in range(self.count):
                known[self.var] = lane
                self.lines.add(self.texts.store(buffer, indices, value[lane]))
        del known[self.var]

    def _named(self, value: str) -> str:
        if "TW_LD" not in value:
            return value
        name = self.texts.names.fresh("v")
        self.lines.add(f"const {VALUE[self.store.buffer.dtype]} {name} = {value};")
        return name

    def is_vector(self, buffer: Buffer, indices: Sequence[Expr]) -> bool:
        """Whether an access is one of aligned neighbours."""
        if buffer.scope not in _ADDRESSED or buffer.dtype not in _TYPES:
            return False
        return is_aligned(buffer, indices, self.var, self.texts.names.known)

    def _collect(self, e: Expr, conditions: list[Expr]) -> None:
        """Load vectors for what ``e`` loads where ``conditions`` hold, all of them uniform."""
        if isinstance(e, Load):
            self._load(e, e, conditions)
        elif isinstance(e, IfThenElse):
            self._collect(e.cond, conditions)
            if not is_uniform(e.cond, self.var, self.texts.names.known):
                return
            inner = [*conditions, e.cond]
            own, load = self._guarded(e)
            if load is None or not self._load(e, load, [*conditions, *own]):
                self._collect(e.a, inner)
                self._collect(e.b, [*conditions, Not("bool", e.cond)])
        else:
            for part in children(e):
                self._collect(part, conditions)

    def _guarded(self, e: Expr) -> tuple[list[Expr], Load | None]:
        """The conditions, all of them uniform, under which a value is loaded and not zero."""
        conditions = []
        while isinstance(e, IfThenElse) and isinstance(e.b, Const) and e.b.value == 0:
            if not is_uniform(e.cond, self.var, self.texts.names.known):
                return [], None
            conditions.append(e.cond)
            e = e.a
        return conditions, e if isinstance(e, Load) else None

    def _load(self, node: Expr, load: Load, conditions: list[Expr]) -> bool:
        """Whether a vector was loaded, of which ``node`` is a lane; zeros where it may not be."""
        if not self.is_vector(load.buffer, load.indices):
            for index in load.indices:
                self._collect(index, conditions)
            return False
        texts, n = self.texts, self.count
        texts.names.known[self.var] = 0
        value = texts.access(f"LD{n}", load.buffer, load.indices)
        where = " && ".join(texts.text(c) for c in conditions)
        del texts.names.known[self.var]
        key = (value, where)
        if key not in self._variables:
            self._variables[key] = texts.names.fresh("v")
            kind = _TYPES[load.buffer.dtype]
            if where:
                zero = f"TW_ZERO{n}" if kind == "float" else f"make_int{n}({', '.join('0' * n)})"
                value = f"({where}) ? {value} : {zero}"
            self.lines.add(f"const {kind}{n} {self._variables[key]} = {value};")
        self._vectors[id(node)] = self._variables[key]
        return True


def is_aligned(
    buffer: Buffer, indices: Sequence[Expr], var: Axis, known: dict[Axis, str | int]
) -> bool:
    """Whether an access moves by one element with ``var``, from a multiple of its extent.

    An argument inside a larger array may begin at any of its elements.
    """
    if buffer.own_strides is not None and buffer.scope != "block":
        return False
    rest = {a: v for a, v in known.items() if a is not var}
    form = flat(buffer, indices, rest)
    if form.step(var) != 1:
        return False
    for atom, c in form.coefficients.items():
        if atom is var:
            continue
        if mentions(atom, var) or c * multiple_of(atom) % var.points:
            return False
    return form.const % var.points == 0


def is_uniform(e: Expr, var: Axis, known: dict[Axis, str | int]) -> bool:
    """Whether a predicate has one value for all points of a vector loop.

    One that does not mention the loop has. So has ``4*i + v < 4*n``: its sides meet at a multiple
    of the loop's extent, where no vector is cut.
    """
    if not mentions(e, var):
        return True
    match e:
        case Logic():
            return is_uniform(e.a, var, known) and is_uniform(e.b, var, known)
        case Not():
            return is_uniform(e.a, var, known)
        case Compare(op="<" | ">=" | "<=" | ">"):
            rest = {a: v for a, v in known.items() if a is not var}
            form = sum_of(e.a, rest) - sum_of(e.b, rest)
            if form.step(var) != 1 or e.a.dtype != "int32":
                return False
            # a < b asks for the sign of a - b, a <= b for that of a - b - 1
            const = form.const - (e.op in ("<=", ">"))
            others = {a: c for a, c in form.coefficients.items() if a is not var}
            if const % var.points or any(mentions(atom, var) for atom in others):
                return False
            return all(c * multiple_of(atom) % var.points == 0 for atom, c in others.items())
    return False
