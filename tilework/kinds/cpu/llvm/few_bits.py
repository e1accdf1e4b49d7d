"""Numbers of four bits as float32: an instruction looks them up, whatever the bits above hold.

``float32(x & 15)``, less a constant or not, is one of 16 numbers, as many as a register of
AVX-512 has. That takes the place of masking, conversion and subtraction.
"""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.ssa import Ssa, literal
from tilework.te import expr as x

_COUNT = 16


@frozen(eq=False)
class FewBits:
    """``float32(numbers & 15) - less``."""

    numbers: x.Expr
    less: float

    @staticmethod
    def of(e: x.Expr) -> FewBits | None:
        """The form of an expression, if it is this one."""
        less = 0.0
        if isinstance(e, x.Binary) and e.op == "-" and isinstance(e.b, x.Const):
            if not isinstance(e.b.value, float):
                return None
            less, e = e.b.value, e.a
        bits = e.a if isinstance(e, x.Cast) and e.dtype == "float32" else None
        if not isinstance(bits, x.Binary) or (bits.op, bits.dtype) != ("&", "int32"):
            return None
        mask = bits.b.value if isinstance(bits.b, x.Const) else None
        return FewBits(bits.a, less) if mask == _COUNT - 1 else None


def looks_up(arith: Arithmetic, v: Ssa) -> bool:
    """Whether `looked_up` is an instruction for these lanes."""
    return v.width == _COUNT and "avx512f" in arith.declarations.features


def looked_up(arith: Arithmetic, few: FewBits, index: Ssa) -> Ssa:
    """The numbers, where `looks_up` says so."""
    symbol, kind = "@llvm.x86.avx512.permvar.sf.512", Ssa("", _COUNT, "float32").type
    arith.declarations.declare(f"declare {kind} {symbol}({kind}, {index.type})")
    table = ", ".join(f"float {literal(i - few.less, 'float32')}" for i in range(_COUNT))
    text = f"call {kind} {symbol}({kind} <{table}>, {index.type} {index.ssa})"
    return Ssa(arith.fn.emit(text), _COUNT, "float32")
