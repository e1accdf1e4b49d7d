"""Vectors with idle lanes: the ends of vector loops that are no multiple of a register."""

from __future__ import annotations

from tilework.dtypes import NARROW_FLOATS
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.integers import Integers
from tilework.kinds.cpu.llvm.lanes import Mask
from tilework.kinds.cpu.llvm.ssa import BYTES, LLVM_TYPE, SUFFIX, Ssa, vector_type
from tilework.kinds.cpu.llvm.vector_math import VECTOR
from tilework.lower.ir import VALUES, For, Load, Stmt, Store, walk_stmts
from tilework.te.expr import Binary, Call, Const, Expr, IfThenElse, Select, children, walk

_VECTOR_CALLS = frozenset(
    {"sqrt", "rsqrt", "abs", "floor", "ceil", "round", "trunc", "rounded", "quotient", *VECTOR}
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


def some_lanes(
    integers: Integers, active: Expr, offset: int, width: int, vector_bits: int
) -> Mask:
    """Which lanes of a vector count where the first ``active`` points of its loop do.

    Args:
        offset, width: the vector's points of the loop.
        vector_bits: of a register. Where there are mask registers a predicate is kept in one;
            elsewhere an integer for each lane is kept, whose sign moves under masks look at.
    """
    count, depth = integers.int_value(active)
    depth = max(depth, integers.fn.branch_depth)  # outside, it would take a register from others
    put, bits = integers.fn.hoist, max(32, min(vector_bits // width, 64))
    one, kind = f"i{bits}", f"<{width} x i{bits}>"
    if bits < 64 and not count.startswith("%"):
        short = count
    elif bits < 64:
        short = put(depth, ("short", count, bits), f"trunc i64 {count} to {one}")
    else:
        short = count
    text = f"insertelement {kind} poison, {one} {short}, i32 0"
    first = put(depth, text, text)
    text = f"shufflevector {kind} {first}, {kind} poison, <{width} x i32> zeroinitializer"
    every = put(depth, text, text)
    steps = ", ".join(f"{one} {offset + i}" for i in range(width))
    text = f"icmp sgt {kind} {every}, <{steps}>"
    value = Ssa(put(depth, text, text), width, "bool")
    if vector_bits < 512:
        text = f"sext {value.type} {value.ssa} to {kind}"
        value = Ssa(put(depth, text, text), width, f"int{bits}")
    return Mask(value, count, depth, offset)


def masked_load(
    declarations: Declarations, dtype: str, width: int, lanes: str, pointer: str
) -> str:
    """A load of some of ``width`` lanes; the others become 0.

    Args:
        lanes: which ones, a vector of predicates: a name, or as `first_lanes` writes it.
    """
    kind, name = vector_type(dtype, width), f"@llvm.masked.load.{_suffix(dtype, width)}.p0"
    declarations.declare(f"declare {kind} {name}(ptr, i32 immarg, <{width} x i1>, {kind})")
    mask = f"<{width} x i1> {lanes}"
    return f"call {kind} {name}(ptr {pointer}, i32 {BYTES[dtype]}, {mask}, {kind} zeroinitializer)"


def masked_store(declarations: Declarations, dtype: str, v: Ssa, lanes: str, pointer: str) -> str:
    """A store of some lanes of a vector; ``dtype`` is that of memory."""
    kind, name = vector_type(dtype, v.width), f"@llvm.masked.store.{_suffix(dtype, v.width)}.p0"
    declarations.declare(f"declare void {name}({kind}, ptr, i32 immarg, <{v.width} x i1>)")
    mask = f"<{v.width} x i1> {lanes}"
    return f"call void {name}({kind} {v.ssa}, ptr {pointer}, i32 {BYTES[dtype]}, {mask})"


def first_lanes(width: int, active: int) -> str:
    """The first lanes as a constant."""
    lanes = ", ".join("i1 true" if i < active else "i1 false" for i in range(width))
    return f"<{lanes}>"


def moves(dtype: str, features: frozenset[str]) -> bool:
    """Whether a CPU loads and stores elements of a type under a mask."""
    if BYTES[dtype] < 4:
        return {"avx512bw", "avx512vl"} <= features
    return not features.isdisjoint({"avx2", "avx512f"})


def plain_type(dtype: str) -> str:
    """The type to move elements in under a mask: there are no moves of narrow floats."""
    return f"int{8 * BYTES[dtype]}" if dtype in NARROW_FLOATS or dtype == "bool" else dtype


def _suffix(dtype: str, width: int) -> str:
    return f"v{width}{SUFFIX.get(dtype) or LLVM_TYPE[dtype]}"
