"""Code of a CPU's instructions on groups of elements: an emitter for each that it has.

Intrinsics exist for whole registers of some widths; operands of fewer lanes are filled up.
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.ssa import Ssa, vector_type
from tilework.space.instructions import Instruction

Emitter = Callable[[Arithmetic, Instruction, Ssa, str, str], Ssa]
"""``emit(arithmetic, row, acc, left, right)``; operands are a group for each lane of ``acc``."""


def _vdpbf16ps(arith: Arithmetic, row: Instruction, acc: Ssa, left: str, right: str) -> Ssa:
    """It rounds after each addition, and takes and gives zeros for denormal numbers."""
    name = "llvm.x86.avx512bf16.dpbf16ps"
    return _called(arith, row, name, acc, left, right, row.left, row.terms)


def _bfloat16_pairs(arith: Arithmetic, row: Instruction, acc: Ssa, left: str, right: str) -> Ssa:
    """Two multiply-adds."""
    wide = (_halves(arith, v, acc.width) for v in (left, right))
    for x, y in zip(*wide, strict=True):
        acc = arith.multiply_add(x, y, acc)
    return acc


INSTRUCTIONS: dict[str, Emitter] = {"vdpbf16ps": _vdpbf16ps, "bfloat16_pairs": _bfloat16_pairs}
"""By name of `tilework.kinds.cpu.instructions`."""


def _halves(arith: Arithmetic, pairs: str, width: int) -> tuple[Ssa, Ssa]:
    """The first and the second numbers of ``width`` neighbouring pairs of bfloat16, as float32."""
    int32, float32 = (Ssa("", width, t).type for t in ("int32", "float32"))
    source = vector_type("bfloat16", 2 * width)
    bits = Ssa(arith.fn.emit(f"bitcast {source} {pairs} to {int32}"), width, "int32")
    out = []
    for op, number in (("shl", 16), ("and", -(2**16))):  # the first is the lower half
        right = arith.splat(Ssa(str(number), 1, "int32"), width)
        ssa = arith.fn.emit(f"{op} {int32} {bits.ssa}, {right.ssa}")
        out.append(Ssa(arith.fn.emit(f"bitcast {int32} {ssa} to {float32}"), width, "float32"))
    return out[0], out[1]


def _called(
    arith: Arithmetic,
    row: Instruction,
    name: str,
    acc: Ssa,
    left: str,
    right: str,
    dtype: str,
    terms: int,
) -> Ssa:
    """A call of an intrinsic whose name ends in the register's bits.

    Args:
        arith: where it goes.
        row: the instruction, with the widths that there are.
        name: without the bits.
        acc: scalar or vector.
        left, right: ``terms`` elements of ``dtype`` for each of its lanes.
    """
    fn, lanes = arith.fn, min(w for w in row.widths if w >= acc.width)
    sums, groups = vector_type(acc.dtype, lanes), vector_type(dtype, terms * lanes)
    name = f"{name}.{32 * lanes}"
    arith.declarations.declare(f"declare {sums} @{name}({sums}, {groups}, {groups})")
    x, a, b = acc.ssa, left, right
    if acc.width < lanes:
        a, b = (_grown(fn, v, dtype, terms * acc.width, terms * lanes) for v in (a, b))
        x = _grown(fn, x, acc.dtype, acc.width, lanes)
    out = fn.emit(f"call {sums} @{name}({sums} {x}, {groups} {a}, {groups} {b})")
    if acc.width == 1:
        out = fn.emit(f"extractelement {sums} {out}, i32 0")
    elif acc.width < lanes:
        out = _shuffled(fn, out, sums, lanes, [str(i) for i in range(acc.width)])
    return Ssa(out, acc.width, acc.dtype)


def _grown(fn: Function, ssa: str, dtype: str, width: int, to: int) -> str:
    """A vector with undefined elements behind its own."""
    if width == 1:
        whole, one = vector_type(dtype, to), vector_type(dtype, 1)
        return fn.emit(f"insertelement {whole} poison, {one} {ssa}, i32 0")
    lanes = [str(i) if i < width else "poison" for i in range(to)]
    return _shuffled(fn, ssa, vector_type(dtype, width), width, lanes)


def _shuffled(fn: Function, ssa: str, kind: str, width: int, lanes: list[str]) -> str:
    order = ", ".join(f"i32 {i}" for i in lanes)
    return fn.emit(f"shufflevector {kind} {ssa}, {kind} poison, <{len(lanes)} x i32> <{order}>")
