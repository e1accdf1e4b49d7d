"""LLVM's names of operators."""

from __future__ import annotations

from tilework.dtypes import is_float, is_unsigned

FLOAT_OPS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
INT_OPS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
FLOAT_ORDER = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
"""Comparisons of floating-point numbers; those with NaN are false, but ``!=``."""
SIGNED_ORDER = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}


def comparison(op: str, dtype: str) -> str:
    """The comparison instruction for a type."""
    if is_float(dtype):
        return f"fcmp {FLOAT_ORDER[op]}"
    kind = SIGNED_ORDER[op]
    return f"icmp {kind.replace('s', 'u', 1) if is_unsigned(dtype) else kind}"
