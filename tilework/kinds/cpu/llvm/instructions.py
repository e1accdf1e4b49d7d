"""Code of a CPU's instructions on groups of elements: an emitter for each that it has.

Intrinsics exist for whole registers of some widths; operands of fewer lanes are filled up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def _vpdpbusd(arith: Arithmetic, row: Instruction, acc: Ssa, left: str, right: str) -> Ssa:
    """Exact: products and sums have 32 bits."""
    groups, words = vector_type("int8", 4 * acc.width), vector_type("int32", acc.width)
    a, b = (arith.fn.emit(f"bitcast {groups} {v} to {words}") for v in (left, right))
    return _called(arith, row, "llvm.x86.avx512.vpdpbusd", acc, a, b, "int32", 1)


def _vpmaddwd(arith: Arithmetic, row: Instruction, acc: Ssa, left: str, right: str) -> Ssa:
    """Two products and an addition; sums of two products of words fit 32 bits."""
    if acc.width > _most_words(arith):
        return _in_halves(arith, row, acc, left, right, _vpmaddwd, "int16", 2)
    sums = _pairs_added(arith, _PMADDWD, acc.width, left, right, "int16", "int32", 1)
    return arith.binary("+", acc, Ssa(sums, acc.width, "int32"))


def _most_words(arith: Arithmetic) -> int:
    """Lanes of 32 bits in a register of integers, which may be narrower than those of floats."""
    features = arith.declarations.features
    return 16 if "avx512bw" in features else 8 if "avx2" in features else 4


def _pairs_added(
    arith: Arithmetic,
    names: Mapping[int, str],
    width: int,
    left: str,
    right: str,
    dtype: str,
    wider: str,
    sums: int,
) -> str:
    """Sums of products of two neighbours of ``dtype``, so many for each of ``width`` lanes.

    Args:
        names: of the function of a register, by its lanes.
        wider: type of the sums.
    """
    fn, lanes = arith.fn, next(w for w in names if w >= width)
    given, out = vector_type(dtype, 2 * sums * lanes), vector_type(wider, sums * lanes)
    arith.declarations.declare(f"declare {out} @{names[lanes]}({given}, {given})")
    a, b = left, right
    if width < lanes:
        a, b = (_grown(fn, v, dtype, 2 * sums * width, 2 * sums * lanes) for v in (a, b))
    whole = fn.emit(f"call {out} @{names[lanes]}({given} {a}, {given} {b})")
    return _first(fn, whole, wider, sums * lanes, sums * width)


_PMADDWD = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}


def _vpmaddwd_quads(arith: Arithmetic, row: Instruction, acc: Ssa, left: str, right: str) -> Ssa:
    """The same of the even and of the odd bytes of words: both operands lie in order."""
    bytes_, words = vector_type("int8", 4 * acc.width), vector_type("int16", 2 * acc.width)
    fn, shift = arith.fn, arith.splat(Ssa("8", 1, "int16"), 2 * acc.width).ssa
    mask = arith.splat(Ssa("255", 1, "int16"), 2 * acc.width).ssa
    a, b = (fn.emit(f"bitcast {bytes_} {v} to {words}") for v in (left, right))
    raised = fn.emit(f"shl {words} {b}, {shift}")
    even = fn.emit(f"and {words} {a}, {mask}"), fn.emit(f"ashr {words} {raised}, {shift}")
    odd = fn.emit(f"lshr {words} {a}, {shift}"), fn.emit(f"ashr {words} {b}, {shift}")
    for x, y in (even, odd):
        acc = _vpmaddwd(arith, row, acc, x, y)
    return acc


def _vpmaddubsw(arith: Arithmetic, row: Instruction, acc: Ssa, left: str, right: str) -> Ssa:
    """Sums of two products, which the row's types keep within 16 bits, then of two of these."""
    if acc.width > _most_words(arith):
        return _in_halves(arith, row, acc, left, right, _vpmaddubsw, "int8", 4)
    pairs = _pairs_added(arith, _PMADDUBSW, acc.width, left, right, "int8", "int16", 2)
    ones = arith.splat(Ssa("1", 1, "int16"), 2 * acc.width).ssa
    return _vpmaddwd(arith, row, acc, pairs, ones)


_PMADDUBSW = {
    4: "llvm.x86.ssse3.pmadd.ub.sw.128",
    8: "llvm.x86.avx2.pmadd.ub.sw",
    16: "llvm.x86.avx512.pmaddubs.w.512",
}


def _vpmaddwd_pairs(arith: Arithmetic, row: Instruction, acc: Ssa, left: str, right: str) -> Ssa:
    """The same of bytes, widened first."""
    width = 2 * acc.width
    bytes_, words = vector_type("int8", width), vector_type("int16", width)
    a = arith.fn.emit(f"zext {bytes_} {left} to {words}")
    b = arith.fn.emit(f"sext {bytes_} {right} to {words}")
    return _vpmaddwd(arith, row, acc, a, b)


INSTRUCTIONS: dict[str, Emitter] = {
    "vdpbf16ps": _vdpbf16ps,
    "bfloat16_pairs": _bfloat16_pairs,
    "vpdpbusd": _vpdpbusd,
    "vpdpbusd_vex": _vpdpbusd,
    "vpmaddubsw": _vpmaddubsw,
    "vpmaddwd": _vpmaddwd,
    "vpmaddwd_quads": _vpmaddwd_quads,
    "vpmaddwd_pairs": _vpmaddwd_pairs,
}
"""By name of `tilework.kinds.cpu.instructions`."""


def _in_halves(
    arith: Arithmetic,
    row: Instruction,
    acc: Ssa,
    left: str,
    right: str,
    emit: Emitter,
    dtype: str,
    terms: int,
) -> Ssa:
    """What an emitter does, of each half of the lanes; ``terms`` of ``dtype`` for each lane."""
    fn, half = arith.fn, acc.width // 2
    out = []
    for first in (0, half):

        def part(v: str, dtype: str, per: int, at: int = first) -> str:
            lanes = [str(per * at + i) for i in range(per * half)]
            return _shuffled(fn, v, vector_type(dtype, per * acc.width), lanes)

        some = (part(v, dtype, terms) for v in (left, right))
        out.append(emit(arith, row, Ssa(part(acc.ssa, "int32", 1), half, "int32"), *some))
    order = ", ".join(f"i32 {i}" for i in range(acc.width))
    kind, (low, high) = out[0].type, (v.ssa for v in out)
    ssa = fn.emit(f"shufflevector {kind} {low}, {kind} {high}, <{acc.width} x i32> <{order}>")
    return Ssa(ssa, acc.width, "int32")


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
    return Ssa(_first(fn, out, acc.dtype, lanes, acc.width), acc.width, acc.dtype)


def _first(fn: Function, ssa: str, dtype: str, lanes: int, width: int) -> str:
    """The first ``width`` of a register's lanes."""
    kind = vector_type(dtype, lanes)
    if width == 1:
        return fn.emit(f"extractelement {kind} {ssa}, i32 0")
    return ssa if width == lanes else _shuffled(fn, ssa, kind, [str(i) for i in range(width)])


def _grown(fn: Function, ssa: str, dtype: str, width: int, to: int) -> str:
    """A vector with undefined elements behind its own."""
    if width == 1:
        whole, one = vector_type(dtype, to), vector_type(dtype, 1)
        return fn.emit(f"insertelement {whole} poison, {one} {ssa}, i32 0")
    lanes = [str(i) if i < width else "poison" for i in range(to)]
    return _shuffled(fn, ssa, vector_type(dtype, width), lanes)


def _shuffled(fn: Function, ssa: str, kind: str, lanes: list[str]) -> str:
    order = ", ".join(f"i32 {i}" for i in lanes)
    return fn.emit(f"shufflevector {kind} {ssa}, {kind} poison, <{len(lanes)} x i32> <{order}>")
