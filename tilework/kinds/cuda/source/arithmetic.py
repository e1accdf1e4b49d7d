"""CUDA C of operators and functions on operands that are texts."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.dtypes import NARROW_FLOATS, is_float, is_integer
from tilework.errors import ScheduleError
from tilework.kinds.cuda.source.types import UNSIGNED, VALUE

_FUNCTIONS = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh", "erf": "erf",
    "abs": "fabs", "floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
    "expm1": "expm1", "log1p": "log1p", "pow": "pow", "fmod": "fmod",
}  # fmt: skip
"""CUDA's names of math functions of double; those of float end in ``f``."""
_HELPERS = {
    "//": "tw_floordiv", "%": "tw_modulo", "quot": "tw_quotient", "rem": "tw_remainder",
    "<<": "tw_left", ">>": "tw_right", "max": "tw_maximum", "min": "tw_minimum",
}  # fmt: skip


class Arithmetic:
    """Texts of operators, casts and calls.

    Attributes:
        called: helper functions that texts call.
    """

    def __init__(self) -> None:
        self.called: set[str] = set()

    def helper(self, name: str) -> str:
        """A helper function, which the kernel's text will define."""
        self.called.add(name)
        return name

    def wrapping(self, op: str, dtype: str, a: str, b: str) -> str:
        """A sum, difference, product or operation on bits; integers wrap around."""
        if dtype not in UNSIGNED:
            return f"({a} {op} {b})"
        wide = UNSIGNED[dtype]
        return f"({VALUE[dtype]})(({wide}){a} {op} ({wide}){b})"

    def by_helper(self, op: str, dtype: str, a: str, b: str) -> str:
        """An operator that CUDA C has not, or not with our meaning."""
        name = self.helper(_HELPERS[op])
        return f"{name}<{VALUE[dtype]}>({a}, {b})"

    def cast(self, text: str, source: str, to: str) -> str:
        """A conversion; narrow floats are values of float that are rounded."""
        if to == source:
            return text
        if to == "bool":
            return f"({text} != 0)"
        if to in NARROW_FLOATS:
            value = text if source in ("float32", *NARROW_FLOATS) else f"(float){text}"
            return f"TW_ROUND_{'F16' if to == 'float16' else 'BF16'}({value})"
        if source in NARROW_FLOATS and to == "float32":
            return text
        if is_float(source) and is_integer(to):
            if to == "uint64":
                return f"{self.helper('tw_to_uint64')}({text})"
            if to in ("int32", "int64"):
                return f"({VALUE[to]}){text}"
            way = "int64_t" if to == "uint32" else "int"
            return f"({VALUE[to]})({way}){text}"
        return f"({VALUE[to]}){text}"

    def call(self, name: str, dtype: str, args: Sequence[str]) -> str:
        """A function of ``dtype``.

        Raises:
            ScheduleError: there is none in CUDA C.
        """
        if name == "round_tf32":
            return f"__uint_as_float(TW_ROUND_TF32({args[0]}))"
        if name == "sigmoid":
            return f"{self.helper('tw_sigmoid')}({args[0]})"
        if name not in _FUNCTIONS:
            raise ScheduleError(f"no CUDA C is known for the function {name}")
        suffix = "" if dtype == "float64" else "f"
        return f"{_FUNCTIONS[name]}{suffix}({', '.join(args)})"
