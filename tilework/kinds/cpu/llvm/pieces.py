"""Odd functions that become 1, by polynomials of pieces: no division, no exponential.

``|x|`` up to a limit is cut into 16 pieces, as many as a register of AVX-512 has numbers. A number
is added, and the sum's leading bits tell the piece: so pieces are the wider the further they are
from zero, as the functions become flat. The middle of the piece and each coefficient are looked
up by an instruction that units other than those of multiply-adds compute.

Polynomials go through the function at Chebyshev's nodes. They are computed in decimals of 28
digits, so that every machine has the same ones.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache

from tilework.kinds.cpu.llvm.vector_body import PIECES, Body, Lanes

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


@dataclass(frozen=True)
class _Cut:
    """A function, the limit from which on it is 1 in float32, and how it is cut up to there."""

    function: Callable[[Decimal], Decimal]
    limit: float
    degree: int
    offset: float
    """What is added to ``|x|``."""
    shift: int
    """How many of the sum's bits do not tell the piece."""


_CUTS = {
    "erf": _Cut(_erf, 4.03, 4, 1.4, 20),
    "tanh": _Cut(_tanh, 9.19, 5, 0.6325, 21),
}


def in_pieces(f: Body, name: str, x: Lanes) -> Lanes:
    """The function, where `Body.looks_up` is so."""
    cut, (middles, *columns) = _CUTS[name], _tables(name)
    a = f.smaller(f.abs(x), cut.limit)
    piece = f.bits("lshr", f.convert("bitcast", a + cut.offset, "int32"), cut.shift)
    r = a - f.looked_up(middles, piece)
    out = f.polynomial(r, tuple(f.looked_up(column, piece) for column in columns))
    return f.copysign(out, x)


def _float32(x: Decimal) -> float:
    return float(struct.unpack("f", struct.pack("f", x))[0])


def _bits(x: float) -> int:
    return int.from_bytes(struct.pack("<f", x), "little")


def _begin(piece: int, shift: int) -> Decimal:
    """The least sum of a piece."""
    return Decimal(struct.unpack("<f", (piece << shift).to_bytes(4, "little"))[0])


@lru_cache(maxsize=4)
def _tables(name: str) -> tuple[tuple[float, ...], ...]:
    """Where pieces have their middles, then each power's coefficients; by a piece's low bits.

    The first piece begins at 0, and has its middle there.
    """
    cut = _CUTS[name]
    offset = Decimal(_float32(Decimal(cut.offset)))
    first, last = (_bits(float(offset) + end) >> cut.shift for end in (0, cut.limit))
    rows = [[0.0] * (cut.degree + 2) for _ in range(PIECES)]
    with localcontext(Context(prec=28)):
        for piece in range(first, last + 1):
            low, high = (_begin(p, cut.shift) - offset for p in (piece, piece + 1))
            low, high = max(low, Decimal(0)), min(high, Decimal(cut.limit))
            middle = Decimal(_float32((low + high) / 2)) if piece > first else Decimal(0)
            rows[piece % PIECES] = [float(middle), *_through(cut, low, high, middle)]
    return tuple(zip(*rows, strict=True))


def _through(cut: _Cut, low: Decimal, high: Decimal, middle: Decimal) -> list[float]:
    """The polynomial of a piece, in powers of what x is beyond its middle.

    That of the first piece is 0 at 0, so that its error is small beside small numbers, too.
    """
    zero = [] if low else [Decimal(0)]
    count = cut.degree + 1 - len(zero)
    half = (high - low) / 2
    cosines = (round(math.cos(math.pi * (i + 0.5) / count), 9) for i in range(count))
    nodes = zero + [low + half + half * Decimal(c) - middle for c in cosines]
    slopes = [cut.function(middle + x) for x in nodes]
    for order in range(1, len(nodes)):  # Newton's divided differences
        for i in range(cut.degree, order - 1, -1):
            slopes[i] = (slopes[i] - slopes[i - 1]) / (nodes[i] - nodes[i - order])
    out = [slopes[-1]]
    for node, slope in zip(nodes[-2::-1], slopes[-2::-1], strict=True):
        out = [a - node * b for a, b in zip([slope, *out], [*out, Decimal(0)], strict=True)]
    return [_float32(c) for c in out]
