"""ONNX operators that only rearrange values, or compute shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.numbers import Known, shape_of
from tilework.graph.onnx.protos import NodeProto
from tilework.index.extents import Extent, known
from tilework.index.symbols import Symbolic, exact_quotient, same, symbols_of


def _constant(c: OnnxContext, node: NodeProto) -> np.ndarray:
    (a,) = node.attribute
    plain: dict[str, Callable[[], Any]] = {
        "value": lambda: c.tensor(a.t),
        "sparse_value": lambda: c.sparse_tensor(a.sparse_tensor),
        "value_float": lambda: np.float32(a.f),
        "value_int": lambda: np.int64(a.i),
        "value_floats": lambda: np.asarray(a.floats, np.float32),
        "value_ints": lambda: np.asarray(a.ints, np.int64),
        "value_string": lambda: np.asarray(a.s, object),
        "value_strings": lambda: np.asarray(a.strings, object),
    }
    if a.name not in plain:
        raise Unsupported(f"a constant of kind '{a.name}' is not supported")
    return np.asarray(plain[a.name]())


def _shape(c: OnnxContext, node: NodeProto) -> Known:
    a = attributes(node)
    shape = c.shape(node.input[0])
    return shape_of(shape[a.get("start", 0) : a.get("end", len(shape))])


def _identity(c: OnnxContext, node: NodeProto) -> str:
    return c.value(node.input[0])


def _dropout(c: OnnxContext, node: NodeProto) -> Result:
    training = optional(node, 2)
    if training and bool(c.array(training, "training_mode").item()):
        raise Unsupported("training mode is not supported")
    mask = len(node.output) > 1 and node.output[1]
    if not mask:
        return [c.value(node.input[0]), None]
    shape = [known(n) for n in c.shape(node.input[0])]
    return [c.value(node.input[0]), np.ones(shape, bool)]


def _to_shape(c: OnnxContext, node: NodeProto, shape: Sequence[Extent]) -> str:
    return c.op("reshape", c.value(node.input[0]), name=node.output[0], shape=tuple(shape))


def _flatten(c: OnnxContext, node: NodeProto) -> str:
    shape = c.shape(node.input[0])
    axis = attributes(node).get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return _to_shape(c, node, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _reshape(c: OnnxContext, node: NodeProto) -> str:
    old, new = c.shape(node.input[0]), c.extents(node.input[1], "the shape")
    if not attributes(node).get("allowzero", 0):
        if 0 in new[len(old) :]:
            raise Unsupported(f"the shape {new} takes dimensions that {list(old)} does not have")
        new = [old[d] if n == 0 else n for d, n in enumerate(new)]
    if new.count(-1) > 1 or any(n < -1 for n in new):
        raise Unsupported(f"the shape {new} makes no sense")
    if -1 in new:
        rest = _rest(old, [n for n in new if n != -1])
        if rest is None:
            _check_equal(old, new)
            raise Unsupported(f"cannot reshape {list(old)} to {new}{_some(old, new)}")
        new[new.index(-1)] = rest
    return _to_shape(c, node, new)


def _rest(old: Sequence[Extent], new: Sequence[Extent]) -> Extent | None:
    """What the extents of ``new`` leave of ``old``; None where they do not divide it.

    An extent of 0 that both have counts on neither side: the rest is what it would be for any
    other number there.
    """
    left, by = list(old), list(new)
    while 0 in left and 0 in by:
        left.remove(0)
        by.remove(0)
    return None if 0 in by else exact_quotient(math.prod(left), math.prod(by))


def _check_equal(old: Sequence[Extent], new: Sequence[Extent]) -> None:
    """Ask whether the first symbol that only one shape has is the first that only the other has.

    Raises:
        Undecided: they are equal at some points only.
    """
    here, there = ([s for n in shape for s in symbols_of([n])] for shape in (old, new))
    alone = zip(
        (Symbolic.of({(s,): 1}) for s in here if s not in there),
        (Symbolic.of({(s,): 1}) for s in there if s not in here),
        strict=False,
    )
    for one, other in alone:
        same(one, other)


def _some(*shapes: Sequence[Extent]) -> str:
    """Behind shapes that do not fit: that they may at some points."""
    names = [s.name for s in symbols_of(n for shape in shapes for n in shape)]
    if not names:
        return ""
    numbers = "it a number" if len(names) == 1 else "them numbers"
    return f" for every {', '.join(names)}; give {numbers}, such as --shape {names[0]}=64"


def _axes(c: OnnxContext, node: NodeProto, rank: int) -> list[int] | None:
    axes = attributes(node).get("axes")
    if optional(node, 1):
        axes = c.ints(node.input[1], "axes")
    if axes is None:
        return None
    axes = sorted(d + rank if d < 0 else d for d in axes)
    if len(set(axes)) < len(axes) or (rank and axes and not 0 <= axes[0] <= axes[-1] < rank):
        raise Unsupported("an axis is named twice, or does not exist")
    return axes


def _squeeze(c: OnnxContext, node: NodeProto) -> str:
    shape = c.shape(node.input[0])
    axes = _axes(c, node, len(shape))
    drop = [d for d, n in enumerate(shape) if same(n, 1)] if axes is None else axes
    return _to_shape(c, node, [n for d, n in enumerate(shape) if d not in drop])


def _unsqueeze(c: OnnxContext, node: NodeProto) -> str:
    shape = list(c.shape(node.input[0]))
    count = len(_axes(c, node, 0) or [])
    for d in _axes(c, node, len(shape) + count) or []:
        shape.insert(d, 1)
    return _to_shape(c, node, shape)


def _transpose(c: OnnxContext, node: NodeProto) -> str:
    perm = attributes(node).get("perm", range(c.rank(node.input[0]))[::-1])
    return c.op("transpose", c.value(node.input[0]), name=node.output[0], perm=tuple(perm))


def _concat(c: OnnxContext, node: NodeProto) -> str:
    values = [c.value(i) for i in node.input]
    axis = normal(attributes(node)["axis"], c.rank(node.input[0]))
    if len(values) == 1:
        return values[0]
    return c.op("concat", *values, name=node.output[0], axis=axis)


CONVERTERS: dict[str, Converter] = {
    "Concat": _concat,
    "Constant": _constant,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Identity": _identity,
    "Reshape": _reshape,
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
