"""CUDA C of expressions."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.dtypes import is_float, is_integer
from tilework.errors import ScheduleError
from tilework.index.extents import known
from tilework.index.form import Form
from tilework.kinds.cuda.source.arithmetic import Arithmetic
from tilework.kinds.cuda.source.indices import flat, is_index
from tilework.kinds.cuda.source.names import Names
from tilework.kinds.cuda.source.types import literal
from tilework.lower.ir import Buffer, Load
from tilework.te import expr as x
from tilework.te.affine import sum_of, value_of
from tilework.te.ranges import range_of

_SIMPLE = {"+", "-", "*", "/"}
_PLAIN = {*_SIMPLE, "&", "|", "^"}
"""Of index expressions: a sum that is no sum of terms is a product of two variables."""
_WRAPPING = {"+", "-", "*", "&", "|", "^"}
_REGISTERS = ("register", "thread")


class Expressions:
    """Texts of expressions, given what variables and buffers are called.

    Attributes:
        names: of buffers and variables.
        arithmetic: operators on texts, which knows the helpers that are called.
        values: texts that stand for some nodes, by their identity: values computed before.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.arithmetic = Arithmetic()
        self.values: dict[int, str] = {}

    # -- accesses -----------------------------------------------------------------------------

    def position(self, buffer: Buffer, indices: Sequence[x.Expr]) -> str:
        """The number of an element, as an index."""
        return self.sum(flat(buffer, indices, self.names.known))

    def access(self, what: str, buffer: Buffer, indices: Sequence[x.Expr], *values: str) -> str:
        """An access to memory, from the nearest place that is known.

        Args:
            what: the name of the access: ``LD``, ``ST4``.
            values: what is stored.
        """
        name, form = self.names.buffer(buffer), flat(buffer, indices, self.names.known)
        near = self.names.base(buffer, form)
        if near is None:
            return f"TW_{what}({', '.join((name, self.sum(form), *values))})"
        base, rest = near
        return f"TW_{what}_AT({', '.join((name, base, self.sum(rest), *values))})"

    def load(self, buffer: Buffer, indices: Sequence[x.Expr]) -> str:
        """An element."""
        if buffer.scope in _REGISTERS:
            return f"{self.names.buffer(buffer)}[{self.position(buffer, indices)}]"
        return self.access("LD", buffer, indices)

    def store(self, buffer: Buffer, indices: Sequence[x.Expr], value: str) -> str:
        """The statement that stores a value."""
        if buffer.scope in _REGISTERS:
            return f"{self.names.buffer(buffer)}[{self.position(buffer, indices)}] = {value};"
        return f"{self.access('ST', buffer, indices, value)};"

    def sum(self, form: Form[x.Expr]) -> str:
        """A sum, without parentheses around it."""
        parts = []
        for atom, c in form.coefficients.items():
            value = self.atom(atom)
            parts.append(value if c == 1 else f"-{value}" if c == -1 else f"{value} * {c}")
        if not parts:
            return str(form.const)
        text = " + ".join(parts).replace("+ -", "- ")
        if form.const:
            text += f" + {form.const}" if form.const > 0 else f" - {-form.const}"
        return text

    def atom(self, e: x.Expr) -> str:
        """A term of a sum."""
        if isinstance(e, x.Axis):
            return str(self.names.known[e])
        return self.text(e)

    # -- values -------------------------------------------------------------------------------

    def text(self, e: x.Expr) -> str:
        """An expression, in parentheses unless it is a name, a literal or a call.

        Raises:
            ScheduleError: kernels cannot compute it.
        """
        hit = self.values.get(id(e))
        if hit is not None:
            return hit
        if is_integer(e.dtype) and is_index(e) and not isinstance(e, x.Const):
            return self._index(e)
        match e:
            case x.Const():  # an integer of the type's own: one past the literals of C has no sign
                return literal(e)
            case x.Axis():
                return str(self.names.known[e])
            case Load():
                return self.load(e.buffer, e.indices)
            case x.Binary():
                return self._binary(e)
            case x.Compare():
                return self._compare(e)
            case x.Logic():
                sign = "&&" if e.op == "and" else "||"
                return f"({self.text(e.a)} {sign} {self.text(e.b)})"
            case x.Not():
                return f"(!{self.text(e.a)})"
            case x.Select() | x.IfThenElse():
                return f"({self.text(e.cond)} ? {self.text(e.a)} : {self.text(e.b)})"
            case x.Cast():
                return self.arithmetic.cast(self.text(e.a), e.a.dtype, e.dtype)
            case x.Call():
                return self._call(e)
            case x.Lookup():
                return self._lookup(e)
        raise ScheduleError(f"no CUDA C is known for {type(e).__name__}")

    def index(self, e: x.Expr) -> str:
        """An integer expression on its own: without parentheses around a sum."""
        if id(e) in self.values or not is_index(e):
            return self.text(e)
        return self.sum(sum_of(e, self.names.known))

    def _index(self, e: x.Expr) -> str:
        """An expression of loop variables alone, which cannot overflow."""
        form = sum_of(e, self.names.known)
        if e not in form.coefficients:
            text = self.sum(form)
            single = len(form.coefficients) + bool(form.const) == 1
            return text if single and text[0] != "-" and " " not in text else f"({text})"
        if isinstance(e, x.Axis):
            return str(self.names.known[e])
        if not isinstance(e, x.Binary):
            assert isinstance(e, x.Select | x.IfThenElse)
            return f"({self.text(e.cond)} ? {self.text(e.a)} : {self.text(e.b)})"
        a, b = self.text(e.a), self.text(e.b)
        if e.op in ("//", "%", "quot", "rem") and isinstance(e.b, x.Const) and e.b.value > 0:
            bounds = range_of(e.a)
            if (bounds is not None and bounds[0] >= 0) or e.op in ("quot", "rem"):
                return f"({a} {'/' if e.op in ('//', 'quot') else '%'} {b})"
        if e.op in _PLAIN:
            return f"({a} {e.op} {b})"
        return self.arithmetic.by_helper(e.op, e.dtype, a, b)

    def _binary(self, e: x.Binary) -> str:
        a, b = self.text(e.a), self.text(e.b)
        if is_float(e.dtype) and e.op in _SIMPLE:
            return self._float(e, a, b)
        if e.op in _WRAPPING:
            return self.arithmetic.wrapping(e.op, e.dtype, a, b)
        return self.arithmetic.by_helper(e.op, e.dtype, a, b)

    def accumulated(self, buffer: Buffer, indices: Sequence[x.Expr], value: x.Expr) -> str:
        """What is stored at a place; a maximum or minimum that its register takes part in.

        It never is NaN, so that one instruction does, which leaves NaN out.
        """
        match value:
            case x.Binary(op="max" | "min", a=Load() as old) if old.buffer is buffer:
                known = self.names.known
                same = flat(buffer, indices, known) == flat(buffer, old.indices, known)
                if same and buffer.scope == "register" and is_float(buffer.dtype):
                    name = f"f{value.op}{'' if buffer.dtype == 'float64' else 'f'}"
                    return f"{name}({self.text(old)}, {self.text(value.b)})"
        return self.text(value)

    def _float(self, e: x.Binary, a: str, b: str) -> str:
        """Zeros and ones of constant matrices cost no arithmetic."""
        values = [self._entry(n) if isinstance(n, x.Lookup) else None for n in (e.a, e.b)]
        if e.op == "*" and 0.0 in values:
            return literal(x.Const(e.dtype, 0.0))
        if e.op == "*" and 1.0 in values:
            return b if values[0] == 1.0 else a
        return f"({a} {e.op} {b})"

    def _compare(self, e: x.Compare) -> str:
        a, b = self.text(e.a), self.text(e.b)
        return f"({a} {e.op} {b})"

    def _call(self, e: x.Call) -> str:
        args = [self.text(a) for a in e.args]
        if e.name == "rounded":
            return self._rounded(e.args[0], args[0])
        if e.name == "quotient":
            return f"({args[0]} / {args[1]})"
        return self.arithmetic.call(e.name, e.dtype, args)

    def _rounded(self, e: x.Expr, text: str) -> str:
        """A product by the function that is never contracted; other values are rounded anyway."""
        if not (isinstance(e, x.Binary) and e.op == "*"):
            return text
        name = "__dmul_rn" if e.dtype == "float64" else "__fmul_rn"
        return f"{name}({self.text(e.a)}, {self.text(e.b)})"

    def _entry(self, e: x.Lookup) -> float | None:
        """The element, where its position is known."""
        at = 0
        for index, extent in zip(e.indices, e.shape, strict=True):
            own = value_of(index, self.names.known)
            if own is None:
                return None
            at = at * extent + known(own)
        return float(e.values[at])

    def _lookup(self, e: x.Lookup) -> str:
        value = self._entry(e)
        if value is not None:
            return literal(x.Const(e.dtype, value))
        table = self.names.table(e)
        buffer = Buffer(table, e.shape, e.dtype, "thread")
        return f"{table}[{self.sum(flat(buffer, e.indices, self.names.known))}]"
