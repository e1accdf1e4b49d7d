"""The dot product of pairs of bfloat16 (AVX512_BF16): two multiply-adds per lane and instruction.

``acc[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1]`` for the lanes i of a register. The instruction
rounds after each addition, and takes and gives zeros for denormal numbers.
"""

from __future__ import annotations

from tilework.codegen.function import Function
from tilework.codegen.math_functions import MathLibrary
from tilework.codegen.types import Value, vector_type

_SMALLEST = 4


def pair_dot(fn: Function, math: MathLibrary, acc: Value, a: str, b: str) -> Value:
    """Emit the instruction.

    Args:
        fn: the function that it goes to.
        math: takes the declaration.
        acc: float32, scalar or vector.
        a, b: SSA values of twice as many bfloat16.
    """
    lanes = max(acc.width, _SMALLEST)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
    floats, pairs = vector_type("float32", lanes), vector_type("bfloat16", 2 * lanes)
    math.declare(f"declare {floats} @{name}({floats}, {pairs}, {pairs})")
    x = acc.ssa
    if acc.width < lanes:
        a, b = (_grown(fn, v, 2 * acc.width, 2 * lanes) for v in (a, b))
        if acc.width == 1:
            x = fn.emit(f"insertelement {floats} poison, float {x}, i32 0")
        else:
            x = _grown(fn, x, acc.width, lanes, "float32")
    out = fn.emit(f"call {floats} @{name}({floats} {x}, {pairs} {a}, {pairs} {b})")
    if acc.width == 1:
        out = fn.emit(f"extractelement {floats} {out}, i32 0")
    elif acc.width < lanes:
        out = _shuffled(fn, out, floats, lanes, [str(i) for i in range(acc.width)])
    return Value(out, acc.width, "float32")


def _grown(fn: Function, ssa: str, width: int, to: int, dtype: str = "bfloat16") -> str:
    """A vector with undefined elements behind its own."""
    lanes = [str(i) if i < width else "poison" for i in range(to)]
    return _shuffled(fn, ssa, vector_type(dtype, width), width, lanes)


def _shuffled(fn: Function, ssa: str, kind: str, width: int, lanes: list[str]) -> str:
    order = ", ".join(f"i32 {i}" for i in lanes)
    return fn.emit(f"shufflevector {kind} {ssa}, {kind} poison, <{len(lanes)} x i32> <{order}>")
