"""Exponentials of float32 over `vector_body`, and the sigmoid.

All of them reduce x to ``k ln 2 + r`` with ``|r| <= ln 2 / 2``; k is rounded by the addition of a
number so large that the sum's last digit is a whole one. So the low bits of the sum are k, and a
shift makes of them what is added to a float's exponent.
"""

from __future__ import annotations

import math

from tilework.kinds.cpu.llvm.pieces import tanh_in_pieces
from tilework.kinds.cpu.llvm.vector_body import ROUND, Body, Lanes

LN2 = math.log(2)
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; products of the first with small whole numbers are exact."""
_HIGHEST = 88.72283935546875
"""The least number whose exponential is no float32."""
_LOWEST = -87.33654
"""Below it the exponential is no normal number."""

# (e^r - 1 - r) / r^2 for |r| < ln 2 / 2: a minimax fit of e^r
_EXP = (0.49999994, 0.16666521, 0.041668389, 0.0083687454, 0.0013814540)
# the same with one term more: near zero e^r - 1 has no digits to lose
_EXPM1 = (0.5, 0.1666666716, 0.04166634381, 0.008333271369, 0.001394202118, 0.0001991500176)
# the same, a fit of e^r - 1 good to 1e-8
_TANH = (0.49999997, 0.16666543, 0.0416672, 0.0083665475, 0.0013882517)


def _reduced(f: Body, y: Lanes, sign: int) -> tuple[Lanes, Lanes, Lanes]:
    """Of ``sign * y``: k in the low bits of a float, k itself, and ``sign * r``."""
    t = f.fma(y, sign / LN2, ROUND)
    k = t - ROUND
    r = f.fma(k, -sign * LN2_LOW, f.fma(k, -sign * LN2_HIGH, y))
    return t, k, r


def _power(f: Body, r: Lanes, sign: int) -> Lanes:
    """e^(sign * r)."""
    terms = (1.0, 1.0, *_EXP)
    return f.polynomial(r, tuple(c * sign**n for n, c in enumerate(terms)))


def _times_power_of_two(f: Body, p: Lanes, t: Lanes) -> Lanes:
    """``p * 2^k``, of t as `_reduced` gives it, where that is a normal number."""
    k = f.bits("shl", f.convert("bitcast", t, "int32"), 23)
    return f.convert("bitcast", f.convert("bitcast", p, "int32") + k, "float32")


def exp(f: Body, x: Lanes) -> Lanes:
    """Exponential; 0 where it would be denormal."""
    under = x < _LOWEST
    if f.scales:
        y = f.smaller(x, 89.0)
        _, k, r = _reduced(f, y, 1)
        return f.select(under, 0.0, f.scale(_power(f, r, 1), k))
    t, _, r = _reduced(f, x, 1)
    e = f.select(under, 0.0, _times_power_of_two(f, _power(f, r, 1), t))
    return f.select(x < _HIGHEST, e, x * math.inf)  # NaN, too


def sigmoid(f: Body, x: Lanes) -> Lanes:
    """``1 / (1 + e^-x)``; what e^-x is where it does not count needs no care."""
    y = f.smaller(x, 87.0)
    if f.scales:
        y = f.larger(y, -89.0)
    t, k, r = _reduced(f, y, -1)
    p = _power(f, r, -1)
    if f.scales:
        e = f.scale(p, k)
    else:
        e = f.select(x > -_HIGHEST, _times_power_of_two(f, p, t), x * -math.inf)
    return 1.0 / (e + 1.0)


def less_one(f: Body, y: Lanes, scale: float) -> Lanes:
    """``(e^y - 1) * scale`` for y up to 89; ``scale`` is a power of two, at most 1/2 beyond 88."""
    t, _, r = _reduced(f, f.larger(y, -25.0), 1)
    p = f.fma(r * r, f.polynomial(r, _EXPM1), r)
    s = _times_power_of_two(f, f.lift(scale, "float32"), t)
    return f.fma(s, p, s - scale)


def expm1(f: Body, x: Lanes) -> Lanes:
    """Exponential less one: ``2^k (e^r - 1) + (2^k - 1)`` with ``r = x - k ln 2``."""
    return less_one(f, f.smaller(x, 89.0), 0.5) * 2.0  # 2^128 is no float32


def tanh(f: Body, x: Lanes) -> Lanes:
    """``h / (h + 1)`` with ``h = (e^2x - 1) / 2``, of ``2x = k ln 2 + 2r``.

    Beyond 9 it is 1, rounded. Up to there k is small, and ln 2 need not be in two parts.
    """
    if f.looks_up:
        return tanh_in_pieces(f, x)
    y = f.larger(f.smaller(x, 9.02), -9.02)
    t = f.fma(y, 2 / LN2, ROUND)
    r = f.fma(t - ROUND, -LN2 / 2, y)
    p = f.fma(r * r, f.polynomial(r, tuple(c * 2.0 ** (n + 1) for n, c in enumerate(_TANH))), r)
    s = _times_power_of_two(f, f.lift(1.0, "float32"), t)
    h = f.fma(s, p, f.fma(s, 0.5, -0.5))
    return h / (h + 1.0)
