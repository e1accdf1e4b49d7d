"""Math functions of float32 in vectors, written over `vector_body`.

Those of exponentials are in `exponential`.

Errors, in units of the last place against the exact value, over all finite float32 numbers (tests
sample them with denormal numbers, both ends of every range, and where methods change):

    exp 1, sigmoid 3, log 1, log1p 2, expm1 2, tanh 3, erf 6, atan 2, asin 2, acos 2, sin 2, cos 2,
    tan 4, sinh 4, cosh 4, asinh 3, acosh 3, atanh 4, pow 1

and up to two more on CPUs without fused multiply-adds. Infinities, NaN and numbers outside the
domain give what the C library gives; the sign of a zero may differ. Polynomials are weighted
minimax fits of their functions (Lawson's algorithm) on the interval that the reduction leaves,
good to 1e-9 of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilework.kinds.cpu.llvm.exponential import (
    LN2,
    LN2_HIGH,
    LN2_LOW,
    exp,
    expm1,
    less_one,
    sigmoid,
    tanh,
)
from tilework.kinds.cpu.llvm.vector_body import Body, Lanes

_HALF_PI = 1.57079637050628662109375
_HALF_PI_LOW = -4.37113900018624283e-8
_NAN, _INF = math.nan, math.inf

# (log(1 + g) - g + g^2 / 2) / g^3 for 1 + g between the roots of 1/2 and 2
_LOG = (
    0.3333331048, -0.2499998659, 0.2000222355, -0.166692555, 0.1421868652, -0.1238424107,
    0.1187280566, -0.1179060563, 0.06916625053,
)  # fmt: skip
# (log(1 + g) - g) / g^2 there, good to 3e-8; for log1p. The last is positive: infinity stays.
_LOG1P = (
    -0.49999991, 0.3333395, -0.25001755, 0.19962072, -0.16570513, 0.14917979, -0.14307493,
    0.08734792,
)  # fmt: skip
# erf(x) = y (k - y^2) with y = x (R(x^2)^2 + c), from the limit on 1
_ERF_LIMIT = 3.9266
_ERF_R = (0.6527355, -0.06618254, 0.0049310443, -0.000283411, 9.6972235e-06, -1.5760736e-07)
_ERF_C, _ERF_K = 0.17099993, 1.8898815
# (atan(z) - z) / z^3 in z^2 for z <= 1
_ATAN = (
    -0.3333330154, 0.1999864131, -0.1426526904, 0.1095768735, -0.08419762552, 0.05823945627,
    -0.03146035969, 0.01106684096, -0.001827730797,
)  # fmt: skip
# (asin(s) - s) / s^3 in s^2 for s <= 1/2
_ASIN = (0.1666665971, 0.07500515133, 0.04451473802, 0.03182674572, 0.01436502393, 0.03762177005)
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2 for |r| <= pi / 4
_SIN = (-0.1666666716, 0.008333329111, -0.0001983930124, 2.717977623e-06)
_COS = (0.04166664556, -0.001388734789, 2.443585618e-05)
# log2((1 + f) / (1 - f)) / f in f^2, and 2^r for |r| <= 1/2; in double precision
_LOG2 = (
    2.885390081777847, 0.961796694114852, 0.5770779419163439, 0.41220929883540636,
    0.31990374643861963, 0.2829286458856098,
)  # fmt: skip
_EXP2 = (
    1.0000000000000269, 0.6931471805459337, 0.24022650695470257, 0.055504109412108475,
    0.00961812922803293, 0.001333345056316679, 0.0001540341188739512, 1.531008060808594e-05,
    1.3264024047261626e-06,
)  # fmt: skip
FAR = 1e6
"""Angles beyond this are reduced by the C library."""
# pi / 2 in two parts: products of the first with whole numbers below 2^20 are exact in double
_TURN_HIGH, _TURN_LOW = 1.57079632673412561417, 6.07710050650619224932e-11


def erf(f: Body, x: Lanes) -> Lanes:
    """``y (k - y^2)``: a cubic that is 1, and flat, where y is largest.

    So y need not be exact where erf is near 1, and one polynomial serves for all numbers. k is
    rounded down: whatever y is, the result is not beyond 1.
    """
    if f.scales:  # units of AVX-512 all compare, and two limits are an instruction less
        y = a = f.larger(f.smaller(x, _ERF_LIMIT), -_ERF_LIMIT)
    else:
        a = f.smaller(f.abs(x), _ERF_LIMIT)
        y = f.signed(a, x)
    root = f.polynomial(a * a, _ERF_R)
    y = y * f.fma(root, root, _ERF_C)
    return y * f.fma(-y, y, _ERF_K)


_ROOT = 0x3F3504F3
"""Bits of the root of 1/2. Less these, ``m 2^e`` has e in its exponent, for m from the root on."""


def log(f: Body, x: Lanes) -> Lanes:
    """Natural logarithm: that of m, between the roots of 1/2 and 2, plus ``e ln 2``."""
    denormal = x < 1.1754943508222875e-38
    bits = f.convert("bitcast", f.select(denormal, x * 8388608.0, x), "int32")
    e = f.bits("ashr", bits - _ROOT, 23)
    g = f.convert("bitcast", bits - f.bits("shl", e, 23), "float32") - 1.0
    whole = f.convert("sitofp", e, "float32") - f.select(denormal, 23.0, 0.0)
    square = g * g
    y = square * g * f.polynomial(g, _LOG)
    y = f.fma(square, -0.5, f.fma(whole, LN2_LOW, y))
    out = f.fma(whole, LN2_HIGH, g + y)
    inside = f.select(x < _INF, out, x)
    return f.select(x > 0.0, inside, f.select(x.equals(0.0), -_INF, _NAN))


def log1p(f: Body, x: Lanes) -> Lanes:
    """``log(1 + g) + e ln 2`` with ``1 + g = 2^-e (1 + x)``, which is rounded once.

    e is in the bits of a float's exponent, so 2^23 times as large. 2^-e itself may be too small
    for a normal number, 2^(2 - e) is not.
    """
    e = (f.convert("bitcast", x + 1.0, "int32") - _ROOT) & -(2**23)
    four = f.convert("bitcast", f.lift(0x40800000, "int32") - e, "float32")
    g = f.fma(x * four, 0.25, f.fma(four, 0.25, -1.0))
    y = f.fma(g * g, f.polynomial(g, _LOG1P), g)
    out = f.fma(f.convert("sitofp", e, "float32"), LN2 / 2**23, y)
    return f.select(x > -1.0, out, f.select(x.equals(-1.0), -_INF, _NAN))


def _halves(f: Body, x: Lanes) -> tuple[Lanes, Lanes]:
    """Hyperbolic sine and cosine of ``|x| / 2``; beyond 90 those of 45, whose squares overflow."""
    a = f.abs(x)
    half = f.select(a < 90.0, a, 90.0) * 0.5
    t = less_one(f, half, 1.0)
    e = t + 1.0
    return (t + t / e) * 0.5, (e + 1.0 / e) * 0.5


def sinh(f: Body, x: Lanes) -> Lanes:
    """Twice the product of the halves' sine and cosine, which do not overflow early."""
    s, c = _halves(f, x)
    return f.select(x.differs(x), x, f.copysign(s * 2.0 * c, x))


def cosh(f: Body, x: Lanes) -> Lanes:
    """One more than twice the square of the half's sine."""
    s, _ = _halves(f, x)
    return f.select(x.differs(x), x, f.fma(s * 2.0, s, 1.0))


_LARGE = 1e9
"""Beyond this 1 + x^2 is x^2, and the inverse hyperbolic functions are log(2x)."""


def asinh(f: Body, x: Lanes) -> Lanes:
    """Of the magnitude a: ``log1p(a + a^2 / (1 + sqrt(1 + a^2)))``."""
    a = f.abs(x)
    large = a > _LARGE
    square = a * a
    z = a + square / (f.intrinsic("sqrt", square + 1.0) + 1.0)
    out = log1p(f, f.select(large, a, z)) + f.select(large, LN2, 0.0)
    return f.copysign(out, x)


def acosh(f: Body, x: Lanes) -> Lanes:
    """With ``t = x - 1``: ``log1p(t + sqrt(2t + t^2))``."""
    large = x > _LARGE
    t = x - 1.0
    z = t + f.intrinsic("sqrt", f.fma(t, t, t * 2.0))
    out = log1p(f, f.select(large, x, z)) + f.select(large, LN2, 0.0)
    return f.select(x >= 1.0, out, _NAN)


def atanh(f: Body, x: Lanes) -> Lanes:
    """Of the magnitude a: ``log1p(2a / (1 - a)) / 2``."""
    a = f.abs(x)
    return f.copysign(log1p(f, a * 2.0 / (1.0 - a)) * 0.5, x)


def atan(f: Body, x: Lanes) -> Lanes:
    """Arc tangent: a polynomial up to 1, beyond it a quarter turn less that of 1/a."""
    a = f.abs(x)
    inverse = a > 1.0
    z = f.select(inverse, 1.0 / a, a)
    u = z * z
    p = f.fma(u * f.polynomial(u, _ATAN), z, z)
    out = f.select(inverse, (_HALF_PI - p) + _HALF_PI_LOW, p)
    return f.copysign(out, x)


def _asin_parts(f: Body, x: Lanes) -> tuple[Lanes, Lanes]:
    """Whether ``|x|`` is above 1/2, and asin of ``|x|``, or of ``sqrt((1 - |x|) / 2)`` there."""
    a = f.abs(x)
    large = a > 0.5
    u = f.select(large, (1.0 - a) * 0.5, a * a)
    s = f.select(large, f.intrinsic("sqrt", u), a)
    return large, f.fma(u * f.polynomial(u, _ASIN), s, s)


def asin(f: Body, x: Lanes) -> Lanes:
    """Arc sine: a polynomial up to 1/2; beyond it from that of ``sqrt((1 - a) / 2)``."""
    large, p = _asin_parts(f, x)
    out = f.select(large, f.fma(p, -2.0, _HALF_PI) + _HALF_PI_LOW, p)
    return f.copysign(out, x)


def acos(f: Body, x: Lanes) -> Lanes:
    """Arc cosine: a quarter turn less the arc sine; twice the other angle where large."""
    large, p = _asin_parts(f, x)
    middle = (_HALF_PI - f.copysign(p, x)) + _HALF_PI_LOW
    back = f.fma(p, -2.0, 2 * _HALF_PI) + 2 * _HALF_PI_LOW
    return f.select(large, f.select(x > 0.0, p * 2.0, back), middle)


def _angle(f: Body, x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Quarter turn, sine and cosine of the rest, for ``|x|`` below `FAR`.

    The quarter turns are taken off in double precision, the polynomials are in float32.
    """
    near = f.select(f.abs(x) < FAR, x, 0.0)
    d = f.convert("fpext", near, "float64")
    k = f.intrinsic("floor", f.fma(d, 2 / math.pi, 0.5))
    rest = f.fma(k, -_TURN_LOW, f.fma(k, -_TURN_HIGH, d))
    r = f.convert("fptrunc", rest, "float32")
    u = r * r
    s = f.fma(r * u, f.polynomial(u, _SIN), r)
    c = f.fma(u * u, f.polynomial(u, _COS), f.fma(u, -0.5, 1.0))
    return f.convert("fptosi", k, "int32"), s, c


def _turned(f: Body, value: Lanes, quarter: Lanes) -> Lanes:
    """``value`` negated in the second half of a turn."""
    sign = f.bits("shl", quarter & 2, 30)
    return f.convert("bitcast", f.convert("bitcast", value, "int32") ^ sign, "float32")


def sin(f: Body, x: Lanes) -> Lanes:
    """Sine for ``|x|`` below `FAR`."""
    q, s, c = _angle(f, x)
    out = _turned(f, f.select((q & 1).differs(0), c, s), q)
    return f.select(x.differs(x), x, out)


def cos(f: Body, x: Lanes) -> Lanes:
    """Cosine for ``|x|`` below `FAR`: the sine a quarter turn on."""
    q, s, c = _angle(f, x)
    out = _turned(f, f.select((q & 1).differs(0), s, c), q + 1)
    return f.select(x.differs(x), x, out)


def tan(f: Body, x: Lanes) -> Lanes:
    """Tangent for ``|x|`` below `FAR`."""
    q, s, c = _angle(f, x)
    odd = (q & 1).differs(0)
    out = f.select(odd, -c, s) / f.select(odd, s, c)
    return f.select(x.differs(x), x, out)


def pow(f: Body, x: Lanes, y: Lanes) -> Lanes:
    """Two to the power ``y log2|x|`` in double precision, with the sign of an odd power.

    Numbers that stand for the logarithms of zero and infinity, and for infinite exponents, are
    large enough to overflow with any factor, and small enough not to make NaN of zero.
    """
    bits = f.convert("bitcast", f.convert("fpext", f.abs(x), "float64"), "int64")
    e = f.bits("ashr", bits - 0x3FE6A09E667F3BCD, 52)
    m = f.convert("bitcast", bits - f.bits("shl", e, 52), "float64")
    g = (m - 1.0) / (m + 1.0)
    logarithm = f.fma(g, f.polynomial(g * g, _LOG2), f.convert("sitofp", e, "float64"))
    a = f.abs(x)
    logarithm = f.select(a.equals(0.0), -1e60, f.select(a.equals(_INF), 1e60, logarithm))
    wide = f.convert("fpext", y, "float64")
    wide = f.select(wide > 1e40, 1e40, f.select(wide < -1e40, -1e40, wide))
    t = wide * logarithm
    t = f.select(t < 200.0, t, 200.0)
    t = f.select(t > -200.0, t, -200.0)
    k = f.nearest(t)
    scale = f.power_of_two(f.convert("fptosi", k, "int64"))
    size = f.convert("fptrunc", f.polynomial(t - k, _EXP2) * scale, "float32")
    whole = f.intrinsic("floor", y).equals(y)
    half = y * 0.5
    even = f.intrinsic("floor", half).equals(half)
    mask = f.lift(-(2**31), "int32")
    odd = f.select(even, f.lift(0, "int32"), f.select(whole, mask, f.lift(0, "int32")))
    sign = f.convert("bitcast", x, "int32") & odd
    out = f.convert("bitcast", f.convert("bitcast", size, "int32") | sign, "float32")
    root = f.select(x < 0.0, f.select(x > -_INF, _NAN, out), out)  # no real number
    out = f.select(whole, out, root)
    out = f.select(x.differs(x), x, f.select(y.differs(y), y, out))
    one = f.select(x.equals(1.0), 1.0, out)
    return f.select(y.equals(0.0), 1.0, one)


VECTOR: dict[str, Callable[..., Lanes]] = {
    fn.__name__: fn
    for fn in (
        exp, sigmoid, expm1, log, log1p, tanh, erf, sinh, cosh, asinh, acosh, atanh, atan, asin,
        acos, sin, cos, tan, pow,
    )
}  # fmt: skip
PERIODIC = frozenset({"sin", "cos", "tan"})
"""Functions that `FAR` limits."""
