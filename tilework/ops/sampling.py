"""Tables of positions and weights that change the extent of a dimension by interpolation.

The rules are those of ONNX's operator Resize. Coordinates are computed in float32, as engines do,
so that ties round alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
"""How a coordinate between two elements is rounded; ``simple`` is that of operator set 10: down
where the dimension grows, up where it shrinks."""
TIE = 1e-6
"""What rounding the scale may have taken off a coordinate between two elements."""
KINDS = ("nearest", "linear", "cubic")


@frozen
class Sampling:
    """How to sample one dimension.

    Attributes:
        kind: of interpolation: one of `KINDS`.
        coordinates: how an element of the result is mapped to a place of the input.
        nearest: how that is rounded, where ``kind`` is nearest.
        cubic_a: the coefficient of the cubic kernel.
        antialias: widen the kernel where the dimension shrinks.
        exclude_outside: leave out places outside the input, instead of repeating the outermost
            element.
    """

    kind: str
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def __post_init__(self) -> None:
        for value, known in (
            (self.kind, KINDS), (self.coordinates, COORDINATES), (self.nearest, NEAREST),
        ):  # fmt: skip
            if value not in known:
                raise ValueError(f"unknown mode '{value}'; known: {', '.join(known)}")


@frozen(eq=False)
class Table:
    """What each element of the result is made of.

    Attributes:
        positions: int32 [extent, taps], all within the input.
        weights: float32 [extent, taps].
        inside: for each element of the result, whether its coordinate lies in the input.
    """

    positions: NDArray[Any]
    weights: NDArray[Any]
    inside: NDArray[Any]


def table(
    sampling: Sampling, size: int, extent: int, scale: float, roi: tuple[float, float] = (0, 1)
) -> Table:
    """Positions and weights for one dimension.

    Args:
        sampling: the rules.
        size: extent of the input.
        extent: of the result.
        scale: how many times the result is longer; near ``extent / size``.
        roi: the part of the input that ``tf_crop_and_resize`` stretches, in fractions of it.
    """
    x = coordinates(sampling.coordinates, size, extent, scale, roi)
    inside = (x >= 0) & (x <= size - 1)
    if sampling.kind == "nearest":
        at = _rounded(x, sampling.nearest, scale)[:, None]
        weights = np.ones((extent, 1))
    elif sampling.kind == "linear" and not sampling.antialias:
        x = np.clip(x, 0, size - 1)
        low = np.floor(x)
        at = low[:, None] + np.arange(2)
        weights = np.stack([1 - (x - low), x - low], 1)
    else:
        at, weights = _kernel(sampling, x, scale)
    if sampling.exclude_outside and weights.shape[1] > 2:
        weights = np.where((at < 0) | (at >= size), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    positions = np.clip(at, 0, size - 1).astype(np.int32)
    return Table(positions, weights.astype(np.float32), inside)


def coordinates(
    mode: str, size: int, extent: int, scale: float, roi: tuple[float, float] = (0, 1)
) -> NDArray[Any]:
    """The place in the input of each element of the result, float32."""
    f = np.float32
    length = f(scale) * f(size)  # standard and reference take it without rounding it down
    if abs(length - extent) < 1e-3:
        length = f(extent)
    i, s = np.arange(extent, dtype=f), f(scale)
    half = f(0.5)
    if mode == "asymmetric":
        x = i / s
    elif mode == "align_corners":
        x = i * f(size - 1) / (length - f(1)) if extent > 1 else f(0) * i
    elif mode == "pytorch_half_pixel" and extent == 1:
        x = f(0) * i
    elif mode == "tf_half_pixel_for_nn":
        x = (i + half) / s
    elif mode == "half_pixel_symmetric":
        adjustment = f(extent) / (s * f(size))
        center = f(size) / f(2)
        x = center * (f(1) - adjustment) + (i + half) / s - half
    elif mode == "tf_crop_and_resize":
        start, end = f(roi[0]), f(roi[1])
        if extent > 1:
            x = start * f(size - 1) + i * (end - start) * f(size - 1) / (length - f(1))
        else:
            x = half * (start + end) * f(size - 1) + i
    else:
        x = (i + half) / s - half
    return np.asarray(x, np.float64)


def _rounded(x: NDArray[np.float64], mode: str, scale: float) -> NDArray[np.float64]:
    if mode == "simple":
        mode = "ceil" if scale < 1 else "floor"
    if mode == "round_prefer_floor":
        return np.ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(x + 0.5 + TIE)
    return np.ceil(x) if mode == "ceil" else np.floor(x)


def _kernel(
    sampling: Sampling, x: NDArray[Any], scale: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Taps around each coordinate and the kernel's values there.

    A coordinate on an element counts as a whole element right of the one before it.
    """
    stretch = min(scale, 1.0) if sampling.antialias else 1.0
    reach = 1 if sampling.kind == "linear" else 2
    start = math.floor(-reach / stretch) + 1
    offsets = np.arange(start, reach - start + (1 if sampling.kind == "linear" else 0))
    base = np.ceil(x) - 1
    distance = np.abs(offsets - (x - base)[:, None]) * stretch
    if sampling.kind == "linear":
        weights = np.clip(1 - distance, 0, 1)
    else:
        weights = _cubic(distance, sampling.cubic_a)
    if sampling.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return base[:, None] + offsets, weights


def _cubic(d: NDArray[Any], a: float) -> NDArray[Any]:
    """Keys' cubic convolution kernel at distances ``d``."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
