"""Reductions, and positions of extrema."""

from __future__ import annotations

from functools import partial

from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes, optional
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.protos import NodeProto
from tilework.ops.reductions import REDUCTIONS

_FEATURE_MAPS = (4, 5)


def reduced_axes(c: OnnxContext, node: NodeProto) -> tuple[int, ...]:
    """The dimensions to reduce, from the attribute or the second input, in order."""
    a, rank = attributes(node), c.rank(node.input[0])
    axes = a.get("axes")
    if optional(node, 1):
        axes = c.ints(node.input[1], "the list of axes")
    if not axes:
        return () if a.get("noop_with_empty_axes", 0) else tuple(range(rank))
    if any(not -rank <= d < rank for d in axes):
        raise Unsupported(f"axes {list(axes)} do not exist: there are {rank} dimensions")
    dims = sorted({d % rank for d in axes})
    if len(dims) < len(axes):
        raise Unsupported(f"axes {list(axes)} name a dimension twice")
    return tuple(dims)


def _reduction(kind: str, c: OnnxContext, node: NodeProto) -> str:
    axes, shape = reduced_axes(c, node), c.shape(node.input[0])
    keepdims = bool(attributes(node).get("keepdims", 1))
    x, name = c.value(node.input[0]), node.output[0]
    spatial = tuple(range(2, len(shape)))
    floating = c.b.types[x].dtype == "float32"
    maps = kind == "mean" and floating and 3 <= len(shape) <= 5 and axes == spatial
    if not maps and (keepdims or len(shape) not in _FEATURE_MAPS):
        return c.op(f"reduce_{kind}", x, name=name, axes=axes, keepdims=keepdims)
    # with all dimensions it can run in either layout of feature maps; the view costs nothing
    if maps:
        y = c.op("global_avg_pool", x, name=name, layout="NCHW")
    else:
        y = c.op(f"reduce_{kind}", x, name=name, axes=axes, keepdims=True)
    if keepdims:
        return y
    left = tuple(n for d, n in enumerate(shape) if d not in axes)
    return c.op("reshape", y, name=name, shape=left)


def _position(op: str, c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    axis = normal(a.get("axis", 0), c.rank(node.input[0]))
    last, keepdims = bool(a.get("select_last_index", 0)), bool(a.get("keepdims", 1))
    x, name = c.value(node.input[0]), node.output[0]
    return c.op(op, x, name=name, axis=axis, keepdims=keepdims, last=last)


CONVERTERS: dict[str, Converter] = {
    "ArgMax": partial(_position, "argmax"),
    "ArgMin": partial(_position, "argmin"),
    **{f"Reduce{kind.title().replace('_', '')}": partial(_reduction, kind) for kind in REDUCTIONS},
}
