"""Operators that rearrange elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework import ops, te
from tilework.graph.operators.base import (
    Attrs,
    Operator,
    Pattern,
    Shape,
    ValueType,
    common_dtype,
    declared,
    moved_axes,
    moved_lists,
    normal_axis,
    shaped,
)
from tilework.ops.pixels import CHANNELS, pixel_words


def _reshape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    shape = tuple(attrs["shape"])
    if math.prod(shape) != math.prod(shapes[0]):
        raise ValueError(f"cannot reshape {list(shapes[0])} to {list(shape)}")
    return shape


def _transpose(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    perm = attrs["perm"]
    if sorted(perm) != list(range(len(shapes[0]))):
        raise ValueError(f"{list(perm)} is not a permutation of {len(shapes[0])} dimensions")
    return tuple(shapes[0][p] for p in perm)


def _bytes_of(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (words,) = types
    common_dtype(types, ("int32",))
    return ValueType((*words.shape, 4), "uint8")


def _pixel_words(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (x,) = types
    common_dtype(types, ("uint8",))
    again = attrs.get("again", ())
    channels = x.shape[-1] if len(x.shape) == 4 else 0
    if not 1 <= channels <= CHANNELS - len(again) or any(not 0 <= c < channels for c in again):
        raise ValueError(f"{list(x.shape)} has no pixels of up to {CHANNELS} channels")
    return ValueType(x.shape[:-1], "int32")


def _concat(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    axis = normal_axis(attrs["axis"], len(shapes[0]))
    rests = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rests) != 1 or len({len(s) for s in shapes}) != 1:
        raise ValueError(f"the inputs differ in more than dimension {axis}")
    first = shapes[0]
    return (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :])


def _pad(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    around = zip(attrs["before"], shapes[0], attrs["after"], strict=True)
    if any(n < 0 for n in (*attrs["before"], *attrs["after"])):
        raise ValueError("negative padding (cropping) is not supported")
    return tuple(b + n + a for b, n, a in around)


def _pad_self(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    if attrs["mode"] not in ops.PAD_MODES[1:]:
        raise ValueError(f"unknown mode '{attrs['mode']}'")
    if attrs["mode"] == "reflect":
        for b, n, a in zip(attrs["before"], shapes[0], attrs["after"], strict=True):
            bool((b == 0 and a == 0) or n > 1)  # one element has no neighbour: that is other code
    return _pad(shapes, attrs)


def _declare_concat(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.concatenate(t, a["axis"])


_AROUND = ("before", "after")

OPERATORS = (
    Operator("reshape", shaped(_reshape), None, Pattern.OPAQUE),  # a view: no kernel at all
    Operator("bytes_of", _bytes_of, None, Pattern.OPAQUE),  # another one, of words, lowest first
    Operator("pixel_words", _pixel_words, declared(pixel_words, "again"), Pattern.INJECTIVE),
    Operator("transpose", shaped(_transpose), declared(ops.transpose, "perm"), Pattern.INJECTIVE),
    Operator(
        # not fused: its inputs are computed where they belong in its output (compiler/slots.py)
        "concat",
        shaped(_concat),
        _declare_concat,
        Pattern.OPAQUE,
        permute=moved_axes("axis"),
    ),
    Operator(
        "pad",
        shaped(_pad),
        declared(ops.pad, *_AROUND, "value", "free"),
        Pattern.INJECTIVE,
        permute=moved_lists(*_AROUND),
    ),
    Operator(
        "pad_self",
        shaped(_pad_self),
        declared(ops.pad_with_self, *_AROUND, "mode"),
        Pattern.INJECTIVE,
        permute=moved_lists(*_AROUND),
    ),
)
