"""Vectors with idle lanes: the ends of vector loops that are no multiple of a register."""

from __future__ import annotations

from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.ssa import Ssa
from tilework.kinds.cpu.llvm.vector_math import VECTOR
from tilework.lower.ir import VALUES, For, Load, Stmt, Store, walk_stmts
from tilework.te.expr import Binary, Call, Const, Expr, IfThenElse, Select, children, walk

_VECTOR_CALLS = frozenset(
    {"sqrt", "rsqrt", "abs", "floor", "ceil", "round", "trunc", "rounded", *VECTOR}
)


def maskable(body: Stmt) -> bool:
    """Whether all vector loops of a region may leave lanes idle.

    They share registers, so it is all or none. Idle lanes compute on whatever they hold, which is
    harmless in float32 arithmetic and in the functions that have a vector form.
    """
    loops = [s for s in walk_stmts(body) if isinstance(s, For) and s.kind == "vector"]
    stores = [s for loop in loops for s in walk_stmts(loop) if isinstance(s, Store)]
    return all(s.buffer.dtype == "float32" and _plain(s.value) for s in stores)


def _plain(e: Expr) -> bool:
    match e:
        case Load():
            return e.buffer.dtype == "float32"
        case Const():
            return e.dtype == "float32"
        case Call():
            return e.name in _VECTOR_CALLS and all(_plain(a) for a in e.args)
        case Select() | IfThenElse():
            # a condition on data compares, lane by lane
            return _plain(e.a) and _plain(e.b) and all(map(_loads_plain, walk(e.cond, VALUES)))
        case Binary():
            return e.dtype == "float32" and all(_plain(x) for x in children(e))
    return False


def _loads_plain(e: Expr) -> bool:
    return not isinstance(e, Load) or e.buffer.dtype == "float32"


def masked_load(
    declarations: Declarations, kind: str, width: int, active: int, pointer: str
) -> str:
    """A load of the first ``active`` of ``width`` float32 lanes; the others become 0."""
    name = f"@llvm.masked.load.v{width}f32.p0"
    declarations.declare(f"declare {kind} {name}(ptr, i32 immarg, <{width} x i1>, {kind})")
    mask = _mask(width, active)
    return f"call {kind} {name}(ptr {pointer}, i32 4, {mask}, {kind} zeroinitializer)"


def masked_store(declarations: Declarations, v: Ssa, active: int, pointer: str) -> str:
    """A store of the first ``active`` lanes of a float32 vector."""
    name = f"@llvm.masked.store.v{v.width}f32.p0"
    declarations.declare(f"declare void {name}({v.type}, ptr, i32 immarg, <{v.width} x i1>)")
    mask = _mask(v.width, active)
    return f"call void {name}({v.type} {v.ssa}, ptr {pointer}, i32 4, {mask})"


def _mask(width: int, active: int) -> str:
    lanes = ", ".join("i1 true" if i < active else "i1 false" for i in range(width))
    return f"<{width} x i1> <{lanes}>"
