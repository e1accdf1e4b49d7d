"""Two-dimensional convolution, direct form."""

from __future__ import annotations

from tilework import te
from tilework.ops.pad import pad


def output_size(
    size: int, kernel: int, before: int, after: int, stride: int, dilation: int
) -> int:
    """Number of output positions of a sliding window along one dimension (can be <= 0)."""
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


def conv2d_nhwc(
    data: te.Tensor,
    weight: te.Tensor,
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    *,
    layout_free: bool = False,
) -> te.Tensor:
    """Convolution of ``data`` [N, H, W, CI] with ``weight`` [KH, KW, CI, CO] -> [N, OH, OW, CO].

    Args:
        data: the feature maps.
        weight: the filters.
        strides: steps along H and W.
        pads: zeros added at the top, left, bottom, right.
        dilation: distance between filter taps along H and W.
        layout_free: the weights are constants, whose layout the schedule may change.
    """
    n, h, w, ci = data.shape
    kh, kw, wci, co = weight.shape
    if wci != ci:
        raise ValueError(f"conv2d: data has {ci} channels but the weights expect {wci}")
    (sh, sw), (dh, dw), (top, left, bottom, right) = strides, dilation, pads
    oh = output_size(h, kh, top, bottom, sh, dh)
    ow = output_size(w, kw, left, right, sw, dw)
    padded = pad(data, (0, top, left, 0), (0, bottom, right, 0), name="pad_temp", prefix="i")
    ry, rx, rc = te.reduce_axis(kh, "ry"), te.reduce_axis(kw, "rx"), te.reduce_axis(ci, "rc")
    return te.compute(
        (n, oh, ow, co),
        lambda nn, yy, xx, ff: te.sum(
            padded[nn, yy * sh + ry * dh, xx * sw + rx * dw, rc] * weight[ry, rx, rc, ff],
            axis=[ry, rx, rc],
        ),
        name="conv2d_nhwc",
        attrs={"layout_free": (weight.name,)} if layout_free else {},
    )


def conv2d_nchw(
    data: te.Tensor,
    weight: te.Tensor,
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    *,
    layout_free: bool = False,
) -> te.Tensor:
    """Convolution of ``data`` [N, CI, H, W] with ``weight`` [CO, CI, KH, KW] -> [N, CO, OH, OW].

    Networks are converted to NHWC; this form is for tasks declared by hand. Arguments as in
    `conv2d_nhwc`.
    """
    n, ci, h, w = data.shape
    co, wci, kh, kw = weight.shape
    if wci != ci:
        raise ValueError(f"conv2d: data has {ci} channels but the weights expect {wci}")
    (sh, sw), (dh, dw), (top, left, bottom, right) = strides, dilation, pads
    oh = output_size(h, kh, top, bottom, sh, dh)
    ow = output_size(w, kw, left, right, sw, dw)
    padded = pad(data, (0, 0, top, left), (0, 0, bottom, right), name="pad_temp", prefix="i")
    rc, ry, rx = te.reduce_axis(ci, "rc"), te.reduce_axis(kh, "ry"), te.reduce_axis(kw, "rx")
    return te.compute(
        (n, co, oh, ow),
        lambda nn, ff, yy, xx: te.sum(
            padded[nn, rc, yy * sh + ry * dh, xx * sw + rx * dw] * weight[ff, rc, ry, rx],
            axis=[rc, ry, rx],
        ),
        name="conv2d_nchw",
        attrs={"layout_free": (weight.name,)} if layout_free else {},
    )
