"""Activation functions of a single element, as expressions.

Without branches where that is possible, so that an activation is computed on the registers of
what comes before it. Each accepts the parameters of the ONNX operator of its name, whose defaults
are the operator's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilework import te

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
# exp(x) of float32 is far from overflow here, and log(1 + exp(x)) is x in any float type
_SATURATED = 40.0


def leaky_relu(x: te.Expr, alpha: float = 0.01) -> te.Expr:
    """``x`` where positive, else ``alpha * x``."""
    if 0.0 < alpha <= 1.0:
        return te.maximum(x, x * alpha)
    return te.select(x < 0.0, x * alpha, x)


def thresholded_relu(x: te.Expr, alpha: float = 1.0) -> te.Expr:
    """``x`` where above ``alpha``, else 0."""
    return te.select(x > alpha, x, 0.0)


def elu(x: te.Expr, alpha: float = 1.0) -> te.Expr:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return te.maximum(x, 0.0) + (te.exp(te.minimum(x, 0.0)) - 1.0) * alpha


def selu(
    x: te.Expr, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> te.Expr:
    """``gamma`` times `elu` with ``alpha``."""
    return elu(x, alpha) * gamma


def celu(x: te.Expr, alpha: float = 1.0) -> te.Expr:
    """``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``."""
    return te.maximum(x, 0.0) + te.minimum((te.exp(x / alpha) - 1.0) * alpha, 0.0)


def hard_sigmoid(x: te.Expr, alpha: float = 0.2, beta: float = 0.5) -> te.Expr:
    """``alpha * x + beta`` limited to 0..1."""
    return te.maximum(te.minimum(x * alpha + beta, 1.0), 0.0)


def hard_swish(x: te.Expr) -> te.Expr:
    """``x`` times `hard_sigmoid` of slope 1/6."""
    return x * hard_sigmoid(x, 1.0 / 6.0, 0.5)


def softplus(x: te.Expr) -> te.Expr:
    """``log(1 + exp(x))``, which neither overflows nor loses large arguments."""
    return te.maximum(x, 0.0) + te.log1p(te.exp(te.abs(x) * -1.0))


def softsign(x: te.Expr) -> te.Expr:
    """``x / (1 + |x|)``."""
    return x / (te.abs(x) + 1.0)


def gelu(x: te.Expr, approximate: str = "none") -> te.Expr:
    """``x`` times the normal distribution function of ``x``; ``"tanh"``: its usual approximation.

    Raises:
        ValueError: ``approximate`` is neither ``"none"`` nor ``"tanh"``.
    """
    if approximate == "none":
        return x * 0.5 * (te.erf(x * _ROOT_HALF) + 1.0)
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * _ROOT_TWO_OVER_PI
        return x * 0.5 * (te.tanh(inner) + 1.0)
    raise ValueError(f"gelu knows the approximations 'none' and 'tanh', not '{approximate}'")


def silu(x: te.Expr, alpha: float = 1.0) -> te.Expr:
    """``x * sigmoid(alpha * x)``, also called swish."""
    return x * te.sigmoid(x if alpha == 1.0 else x * alpha)


def mish(x: te.Expr) -> te.Expr:
    """``x * tanh(log(1 + exp(x)))``, with the logarithm and the tanh cancelled.

    tanh(log(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1) = n / (n + 2) with n = e * (e + 2).
    """
    e = te.exp(te.minimum(x, _SATURATED))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def shrink(x: te.Expr, lambd: float = 0.5, bias: float = 0.0) -> te.Expr:
    """``x`` moved towards 0 by ``bias`` outside ``-lambd..lambd``, 0 inside."""
    return te.select(x < -lambd, x + bias, te.select(x > lambd, x - bias, 0.0))


ACTIVATIONS: dict[str, Callable[..., te.Expr]] = {
    f.__name__: f
    for f in (
        leaky_relu, thresholded_relu, elu, selu, celu, hard_sigmoid, hard_swish, softplus,
        softsign, gelu, silu, mish, shrink,
    )
}  # fmt: skip
