"""Reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.graph.onnx.context import Context, Converter, Unsupported, attributes, optional

if TYPE_CHECKING:
    import onnx


def _reduce_mean(c: Context, node: onnx.NodeProto) -> str:
    a = attributes(node)
    shape = c.shape(node.input[0])
    axes = a.get("axes")
    if optional(node, 1):
        axes = c.ints(node.input[1], "axes")
    spatial = list(range(2, len(shape)))
    if (
        axes is None
        or not 3 <= len(shape) <= 5
        or any(not -len(shape) <= d < len(shape) for d in axes)
        or sorted(d % len(shape) for d in axes) != spatial
    ):
        raise Unsupported("only the mean over all spatial axes of feature maps is supported")
    y = c.op("global_avg_pool", c.value(node.input[0]), name=node.output[0], layout="NCHW")
    if a.get("keepdims", 1):
        return y
    return c.op("reshape", y, name=node.output[0], shape=shape[:2])


CONVERTERS: dict[str, Converter] = {
    "ReduceMean": _reduce_mean,
}
