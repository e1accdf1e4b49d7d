"""Odd functions that become 1, by polynomials of pieces: no division, no exponential.

``|x|`` up to a limit is cut into 32 pieces, as many as one instruction of AVX-512 can look up. The
middle of the nearest one is taken off, and each coefficient is looked up by the piece's number.

Polynomials go through the function at Chebyshev's nodes. They are computed in decimals of 28
digits, so that every machine has the same ones.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import lru_cache

from tilework.kinds.cpu.llvm.vector_body import ROUND, Body, Lanes

_HALF_ROOT_OF_PI = Decimal("0.8862269254527580136490837416706")


def _erf(x: Decimal) -> Decimal:
    """By a series whose terms are all positive."""
    term = total = x / _HALF_ROOT_OF_PI * (-x * x).exp()
    n = 1
    while term > total * Decimal("1e-20"):
        n += 2
        term *= 2 * x * x / n
        total += term
    return total


def _tanh(x: Decimal) -> Decimal:
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


_FUNCTIONS: dict[str, tuple[Callable[[Decimal], Decimal], float, int]] = {
    "erf": (_erf, 4.03, 4),
    "tanh": (_tanh, 9.19, 5),
}
"""The function, a limit from which on it is 1 in float32, and the degree of its polynomials."""


def in_pieces(f: Body, name: str, x: Lanes) -> Lanes:
    """The function, where `Body.looks_up` is so."""
    limit, width, columns = _coefficients(name)
    a = f.smaller(f.abs(x), limit)
    t = f.fma(a, 1 / width, ROUND)
    r = f.fma(t - ROUND, -width, a)
    piece = f.convert("bitcast", t, "int32")
    out = f.polynomial(r, tuple(f.looked_up(column, piece) for column in columns))
    return f.copysign(out, x)


def _float32(x: Decimal) -> float:
    return float(struct.unpack("f", struct.pack("f", x))[0])


@lru_cache(maxsize=4)
def _coefficients(name: str) -> tuple[float, float, tuple[tuple[float, ...], ...]]:
    """The limit, a piece's width, and for each power of the rest 32 coefficients.

    The first piece begins at its middle, and the limit is within the last.
    """
    function, limit, degree = _FUNCTIONS[name]
    with localcontext(Context(prec=28)):
        width = Decimal(_float32(Decimal(limit) / Decimal("31.49")))
        rows = [_through(function, k * width, width, degree) for k in range(32)]
    return limit, float(width), tuple(zip(*rows, strict=True))


def _through(
    function: Callable[[Decimal], Decimal], middle: Decimal, width: Decimal, degree: int
) -> list[float]:
    """The polynomial of a piece, in powers of what x is beyond its middle.

    That of the first piece is 0 at 0, so that its error is small beside small numbers, too.
    """
    zero = [] if middle else [Decimal(0)]
    count = degree + 1 - len(zero)
    low = Decimal(0) if zero else -width / 2
    half = (width / 2 - low) / 2
    cosines = (round(math.cos(math.pi * (i + 0.5) / count), 9) for i in range(count))
    nodes = zero + [low + half + half * Decimal(c) for c in cosines]
    slopes = [function(middle + x) for x in nodes]
    for order in range(1, len(nodes)):  # Newton's divided differences
        for i in range(degree, order - 1, -1):
            slopes[i] = (slopes[i] - slopes[i - 1]) / (nodes[i] - nodes[i - order])
    out = [slopes[-1]]
    for node, slope in zip(nodes[-2::-1], slopes[-2::-1], strict=True):
        out = [a - node * b for a, b in zip([slope, *out], [*out, Decimal(0)], strict=True)]
    return [_float32(c) for c in out]
