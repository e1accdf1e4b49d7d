"""Layouts of feature maps and weights: ``NHWC`` (channels last, HWIO) and ``NCHW`` (first, OIHW).

The names stand for any number of spatial axes.
"""

from __future__ import annotations

from tilework.graph.operators.base import Attrs, Shape


def maps_order(rank: int, layout: str) -> tuple[int, ...]:
    """The permutation that brings feature maps of ``rank`` dimensions to ``layout``.

    ``NHWC`` stands for channels last and ``NCHW`` for channels first, whatever the rank.
    """
    inner = tuple(range(1, rank - 1))
    if layout == "NHWC":
        return (0, *(d + 1 for d in inner), 1)
    return (0, rank - 1, *inner)


def weights_order(rank: int, layout: str) -> tuple[int, ...]:
    """The permutation that brings convolution weights of ``rank`` dimensions to ``layout``.

    From outputs, inputs, taps to taps, inputs, outputs, or back.
    """
    if layout == "NHWC":
        return (*range(2, rank), 1, 0)
    return (rank - 1, rank - 2, *range(rank - 2))


def channels_last(shape: Shape, attrs: Attrs) -> Shape:
    """The extents of feature maps with the channels moved to the end."""
    if len(shape) < 3:
        raise ValueError(f"expected 3 dimensions or more, got {len(shape)}")
    if attrs["layout"] not in ("NHWC", "NCHW"):
        raise ValueError(f"unknown layout '{attrs['layout']}'; known: NHWC, NCHW")
    return shape if attrs["layout"] == "NHWC" else (shape[0], *shape[2:], shape[1])


def as_declared(shape: Shape, attrs: Attrs) -> Shape:
    """Inverse of `channels_last`."""
    if attrs["layout"] == "NHWC":
        return shape
    return (shape[0], shape[-1], *shape[1:-1])


def require_dimensions(count: int, **shapes: Shape) -> None:
    """Refuse shapes of another number of dimensions, each by the name of its argument."""
    for what, shape in shapes.items():
        if len(shape) != count:
            raise ValueError(f"the {what} have {len(shape)} dimensions, expected {count}")
