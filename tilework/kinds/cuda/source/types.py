"""Names of element types in CUDA C, and literals of them."""

from __future__ import annotations

import math

import numpy as np

from tilework.dtypes import NARROW_FLOATS, is_float, numpy_dtype
from tilework.errors import ScheduleError
from tilework.index.extents import known
from tilework.te.expr import Const

MEMORY = {
    "bool": "bool", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
    "uint64": "uint64_t", "float16": "tw_f16", "bfloat16": "tw_bf16", "float32": "float",
    "float64": "double",
}  # fmt: skip
"""Of elements in global and shared memory."""
VALUE = MEMORY | {"float16": "float", "bfloat16": "float", "int32": "int"}
"""Of elements in registers: narrow floats are held as float32 numbers that were rounded."""
UNSIGNED = {
    "int8": "uint32_t", "uint8": "uint32_t", "int16": "uint32_t", "uint16": "uint32_t",
    "int32": "uint32_t", "uint32": "uint32_t", "int64": "uint64_t", "uint64": "uint64_t",
}  # fmt: skip
"""In which arithmetic wraps around without undefined behaviour, C's promotions included."""
_SUFFIX = {"uint32": "u", "int64": "ll", "uint64": "ull"}


def memory_type(name: str, dtype: str) -> str:
    """The type of a buffer's elements.

    Raises:
        ScheduleError: no kernel can hold it.
    """
    if dtype not in MEMORY:
        raise ScheduleError(f"{name} has dtype {dtype}; kernels support {', '.join(MEMORY)}")
    return MEMORY[dtype]


def literal(e: Const) -> str:
    """A literal."""
    if e.dtype == "bool":
        return "true" if e.value else "false"
    if is_float(e.dtype):
        return _real(e.real, e.dtype)
    value = known(e.whole)
    suffix = _SUFFIX.get(e.dtype, "")
    if value in (-(2**31), -(2**63)):  # its magnitude is no literal of the type
        return f"({value + 1}{suffix} - 1)"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def _real(value: float, dtype: str) -> str:
    wide = "double" if dtype == "float64" else "float"
    if dtype in NARROW_FLOATS:
        value = float(np.asarray(value, np.float32).astype(numpy_dtype(dtype)))
    if math.isnan(value):
        return f"({wide})(TW_INF - TW_INF)"
    if dtype != "float64":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if math.isinf(value):
        text = "TW_INF" if value > 0 else "(-TW_INF)"
        return text if wide == "float" else f"(double){text}"
    text = repr(value) if wide == "double" else f"{np.float32(value)!s}f"
    return f"({text})" if text.startswith("-") else text
