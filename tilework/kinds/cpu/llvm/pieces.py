"""The hyperbolic tangent by polynomials of pieces: no division, no exponential.

``|x|`` up to a limit is cut into 16 pieces, as many as a register of AVX-512 has numbers, or into
32, two registers, which takes a multiply-add and a coefficient less. A number is added, and the
sum's leading bits tell the piece: so pieces are the wider the further they are from zero, as the
function becomes flat. The middle of the piece and each coefficient are looked up by an instruction
that units other than those of multiply-adds compute.

Polynomials go through the function at Chebyshev's nodes. They are computed in decimals of 28
digits, so that every machine has the same ones.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from tilework.kinds.cpu.llvm.vector_body import Body, Lanes

_LIMIT = 9.19
"""From which on the function is 1 in float32."""


class Cut(NamedTuple):
    """How ``|x|`` is cut into pieces.

    Attributes:
        pieces: at most so many.
        degree: of a piece's polynomial.
        offset: what is added to ``|x|``.
        shift: how many of the sum's bits do not tell the piece.
    """

    pieces: int
    degree: int
    offset: float
    shift: int


_CUTS = {cut.pieces: cut for cut in (Cut(16, 5, 0.6325, 21), Cut(32, 4, 0.705, 20))}


def _tanh(x: Decimal) -> Decimal:
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


def tanh_in_pieces(f: Body, x: Lanes) -> Lanes:
    """Hyperbolic tangent, where `Body.looks_up` is so."""
    cut = _CUTS[f.looked_up_of]
    middles, *columns = _tables(cut)
    a = f.smaller(f.abs(x), _LIMIT)
    piece = f.bits("lshr", f.convert("bitcast", a + cut.offset, "int32"), cut.shift)
    r = a - f.looked_up(middles, piece)
    out = f.polynomial(r, tuple(f.looked_up(column, piece) for column in columns))
    return f.copysign(out, x)


def _float32(x: Decimal) -> float:
    return float(struct.unpack("f", struct.pack("f", x))[0])


def _bits(x: float) -> int:
    return int.from_bytes(struct.pack("<f", x), "little")


def _begin(piece: int, cut: Cut) -> Decimal:
    """The least sum of a piece."""
    return Decimal(struct.unpack("<f", (piece << cut.shift).to_bytes(4, "little"))[0])


@lru_cache(maxsize=2)
def _tables(cut: Cut) -> tuple[tuple[float, ...], ...]:
    """Where pieces have their middles, then each power's coefficients; by a piece's low bits.

    The first piece begins at 0, and has its middle there.
    """
    offset = Decimal(_float32(Decimal(cut.offset)))
    first, last = (_bits(float(offset) + end) >> cut.shift for end in (0, _LIMIT))
    rows = [[0.0] * (cut.degree + 2) for _ in range(cut.pieces)]
    with localcontext(Context(prec=28)):
        for piece in range(first, last + 1):
            low, high = (_begin(p, cut) - offset for p in (piece, piece + 1))
            low, high = max(low, Decimal(0)), min(high, Decimal(_LIMIT))
            middle = Decimal(_float32((low + high) / 2)) if piece > first else Decimal(0)
            through = _through(low, high, middle, cut.degree)
            rows[piece % cut.pieces] = [float(middle), *through]
    return tuple(zip(*rows, strict=True))


def _through(low: Decimal, high: Decimal, middle: Decimal, degree: int) -> list[float]:
    """The polynomial of a piece, in powers of what x is beyond its middle.

    That of the first piece is 0 at 0, so that its error is small beside small numbers, too.
    """
    zero = [] if low else [Decimal(0)]
    count = degree + 1 - len(zero)
    half = (high - low) / 2
    cosines = (round(math.cos(math.pi * (i + 0.5) / count), 9) for i in range(count))
    nodes = zero + [low + half + half * Decimal(c) - middle for c in cosines]
    slopes = [_tanh(middle + x) for x in nodes]
    for order in range(1, len(nodes)):  # Newton's divided differences
        for i in range(degree, order - 1, -1):
            slopes[i] = (slopes[i] - slopes[i - 1]) / (nodes[i] - nodes[i - order])
    out = [slopes[-1]]
    for node, slope in zip(nodes[-2::-1], slopes[-2::-1], strict=True):
        out = [a - node * b for a, b in zip([slope, *out], [*out, Decimal(0)], strict=True)]
    return [_float32(c) for c in out]
