"""Bytes looked up in a table of 256, which four registers of 512 bits hold.

An instruction looks into two of them by the low seven bits of each byte; the eighth chooses.
"""

from __future__ import annotations

from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.ssa import Ssa
from tilework.lower.ir import Load
from tilework.te import expr as x

_ENTRIES = 256
REGISTER = 64
"""Bytes of one."""
_KIND = f"<{REGISTER} x i8>"
_SYMBOL = "@llvm.x86.avx512.vpermi2var.qi.512"


def byte_index(e: Load) -> x.Expr | None:
    """The uint8 that says which entry of a table of 256 bytes is loaded, if one does."""
    (index, *more) = e.indices
    if more or e.buffer.shape != (_ENTRIES,) or e.buffer.dtype not in ("int8", "uint8"):
        return None
    return index.a if isinstance(index, x.Cast) and index.a.dtype == "uint8" else None


def looks_up(arith: Arithmetic) -> bool:
    """Whether `looked_up` is a few instructions."""
    return "avx512vbmi" in arith.declarations.features


def looked_up(arith: Arithmetic, table: list[Ssa], index: Ssa) -> Ssa:
    """The bytes, where `looks_up` says so.

    Args:
        arith: emits.
        table: its four registers.
        index: a vector of up to 64 lanes.
    """
    fn, width = arith.fn, index.width
    arith.declarations.declare(f"declare {_KIND} {_SYMBOL}({_KIND}, {_KIND}, {_KIND})")
    lanes = ", ".join(f"i32 {i}" if i < width else "i32 poison" for i in range(REGISTER))
    wide = f"shufflevector {index.type} {index.ssa}, {index.type} poison"
    at = fn.emit(f"{wide}, <{REGISTER} x i32> <{lanes}>")
    halves = []
    for low, high in (table[:2], table[2:]):
        operands = f"{_KIND} {low.ssa}, {_KIND} {at}, {_KIND} {high.ssa}"
        half = fn.emit(f"call {_KIND} {_SYMBOL}({operands})")
        lanes = ", ".join(f"i32 {i}" for i in range(width))
        text = f"shufflevector {_KIND} {half}, {_KIND} poison, <{width} x i32> <{lanes}>"
        halves.append(Ssa(fn.emit(text), width, table[0].dtype))
    upper = Ssa(fn.emit(f"icmp slt {index.type} {index.ssa}, zeroinitializer"), width, "bool")
    return arith.select(upper, halves[1], halves[0])
