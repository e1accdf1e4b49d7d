"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tilework.graph.aten.context import AtenContext, Converter, Unsupported, Value, first_of
from tilework.graph.aten.convert.normal import channels
from tilework.graph.operators.windows import ceil_pads


def _each(numbers: Any, rank: int) -> tuple[int, ...]:
    """One number for each spatial axis."""
    given = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(int(n) for n in (given * rank if len(given) == 1 else given))


def _convolution(
    c: AtenContext,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Value:
    v, w = c.value(x), c.value(weight)
    rank = c.rank(v) - 2
    if not 1 <= rank <= 3:
        raise Unsupported(f"{rank} spatial axes")
    pads = _each(padding, rank) * 2
    attrs: dict[str, Any] = {
        "strides": _each(stride, rank),
        "pads": pads,
        "dilation": _each(dilation, rank),
        "layout": "NCHW",
    }
    if transposed:
        more = _each(output_padding, rank)
        y = c.op(f"conv_transpose{rank}d", v, w, output_padding=more, groups=int(groups), **attrs)
    else:
        some = {"groups": int(groups)} if groups != 1 else {}
        y = c.op(f"conv{rank}d", v, w, **attrs, **some)
    return y if bias is None else c.op("add", y, channels(c, c.value(bias), rank + 2))


def _window(
    c: AtenContext,
    v: Value,
    rank: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[Value, dict[str, Any], tuple[int, ...]]:
    """Images in a batch, the attributes of the window, and the pads without those of rounding."""
    if c.rank(v) == rank + 1:
        v = c.reshape(v, (1, *c.shape(v)))
    if c.rank(v) != rank + 2:
        raise Unsupported(f"of {c.rank(v)} dimensions")
    size = _each(kernel, rank)
    steps = size if stride is None or stride == [] else _each(stride, rank)
    pads, spread = _each(padding, rank) * 2, _each(dilation, rank)
    whole = ceil_pads(c.shape(v)[2:], size, steps, pads, spread) if ceil_mode else pads
    attrs = {"kernel": size, "strides": steps, "pads": whole, "layout": "NCHW"}
    return v, {**attrs, "dilation": spread}, pads


def _unbatched(c: AtenContext, y: Value, x: Value) -> Value:
    return y if c.rank(x) == c.rank(y) else c.reshape(y, c.shape(y)[1:])


def _max_pool(
    rank: int,
    c: AtenContext,
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Value:
    own = c.value(x)
    v, attrs, _ = _window(c, own, rank, kernel, stride, padding, dilation, ceil_mode)
    return _unbatched(c, c.op(f"max_pool{rank}d", v, **attrs), own)


def _avg_pool(
    rank: int,
    c: AtenContext,
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    if divisor_override is not None:
        raise Unsupported("with a divisor of its own")
    own = c.value(x)
    v, attrs, pads = _window(c, own, rank, kernel, stride, padding, 1, ceil_mode)
    del attrs["dilation"]
    if count_include_pad and attrs["pads"] != pads:
        ends = zip(attrs["pads"][rank:], pads[rank:], strict=True)
        attrs["surplus"] = tuple(w - p for w, p in ends)
    y = c.op(f"avg_pool{rank}d", v, count_include_pad=bool(count_include_pad), **attrs)
    return _unbatched(c, y, own)


def _adaptive(kind: str, rank: int, c: AtenContext, x: Any, size: Sequence[int]) -> Value:
    own = c.value(x)
    v = own if c.rank(own) == rank + 2 else c.reshape(own, (1, *c.shape(own)))
    wanted = _each(size, rank)
    if kind == "avg" and set(wanted) == {1} and c.dtype(v) == "float32":
        y = c.op("global_avg_pool", v, layout="NCHW")
    else:
        y = c.op(f"adaptive_{kind}_pool", v, size=wanted, layout="NCHW")
    return _unbatched(c, y, own)


_PLACES = "its positions are not offered"

CONVERTERS: dict[str, Converter] = {
    "convolution": _convolution,
    **{f"max_pool{n}d": partial(_max_pool, n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": first_of(2, partial(_max_pool, n), _PLACES) for n in (2, 3)},
    **{f"avg_pool{n}d": partial(_avg_pool, n) for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d": partial(_adaptive, "avg", n) for n in (2, 3)},
    **{
        f"adaptive_max_pool{n}d": first_of(2, partial(_adaptive, "max", n), _PLACES)
        for n in (2, 3)
    },
}
