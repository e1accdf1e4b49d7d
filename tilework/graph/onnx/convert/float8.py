"""Numbers of 8 bits with an exponent: quantised, they are float32 that are rounded to them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilework.graph.onnx.values import Value


@dataclass(frozen=True)
class Float8:
    """A type.

    Attributes:
        fraction: bits behind the leading one.
        least: exponent of the least normal number.
        most: the largest number.
    """

    fraction: int
    least: int
    most: float


FLOAT8 = {
    "float8_e4m3fn": Float8(3, -6, 448.0),
    "float8_e4m3fnuz": Float8(3, -7, 240.0),
    "float8_e5m2": Float8(2, -14, 57344.0),
    "float8_e5m2fnuz": Float8(2, -15, 57344.0),
}


def rounded(x: Value, kind: Float8) -> Value:
    """The nearest number of a type, ties to the even one, within its range; NaN stays NaN.

    The distance of its numbers is found by halving the range of exponents: all products are of
    powers of two, and exact.
    """
    inside = x.clamped(-kind.most, kind.most)
    size, step = inside.op("abs"), x.constant(2.0 ** (kind.least - kind.fraction))
    exponents = math.frexp(kind.most)[1] - 1 - kind.least
    for k in reversed(range(exponents.bit_length())):
        large = size >= 2.0 ** (kind.least + (1 << k))
        size = (size * 2.0 ** -(1 << k)).where(large, size)
        step = (step * 2.0 ** (1 << k)).where(large, step)
    near = inside.op("quotient", step).op("round") * step
    return x.where(x.op("isnan"), near)
