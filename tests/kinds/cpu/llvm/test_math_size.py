"""The analytic model counts the code of math functions."""

from __future__ import annotations

from tilework.kinds.cpu.llvm.math_size import math_operations
from tilework.te.functions import MATH_FUNCTIONS


def size(name, dtype="float32"):
    return math_operations(name, dtype, {"pow": 2, "fmod": 2, "quotient": 3}.get(name, 1))


def test_every_function_has_a_size():
    assert all(size(name) >= 1 for name in MATH_FUNCTIONS if name != "rounded")
    assert size("rounded") == 0


def test_one_instruction_is_one_and_a_longer_code_is_more():
    assert {size(name) for name in ("abs", "floor", "ceil", "round", "trunc")} == {1}
    assert size("sqrt") < size("rsqrt") < size("exp") < size("sigmoid") < size("pow")


def test_the_library_is_called_for_each_element():
    assert size("exp", "float64") == size("fmod") > 5 * size("pow")
    assert size("sin") < size("fmod")  # angles that only the library can reduce are left out
