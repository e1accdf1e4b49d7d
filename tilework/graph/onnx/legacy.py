"""Operators of opset 6 in the form that they have since opset 7."""

from __future__ import annotations

from tilework.graph.onnx.context import OnnxContext, Unsupported, attributes
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.operators import Shape
from tilework.index.extents import known_shape

_BINARY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
_STATEFUL = ("BatchNormalization", "Dropout")


def modern(c: OnnxContext, node: NodeProto) -> NodeProto:
    """The node as opset 7 writes it; operands that broadcast along an axis are reshaped.

    before: Add(x[N, C, H, W], b[C]; broadcast=1, axis=1)
    after:  Add(x, Reshape(b, [C, 1, 1]))

    Raises:
        Unsupported: the node is in training mode.
    """
    import onnx

    a = attributes(node)
    new = onnx.NodeProto()
    new.CopyFrom(node)
    if node.op_type in _STATEFUL and not a.get("is_test", 0):
        raise Unsupported("training mode is not supported")
    for i in reversed(range(len(new.attribute))):
        if new.attribute[i].name in ("axis", "broadcast", "consumed_inputs", "is_test") and (
            node.op_type in (*_BINARY, *_STATEFUL, "Gemm")
        ):
            del new.attribute[i]
    if node.op_type in _BINARY and a.get("broadcast", 0):
        rank, own = c.rank(node.input[0]), c.shape(node.input[1])
        _align(c, new, (*own, *(1,) * (rank - a.get("axis", rank - len(own)) - len(own))))
    elif node.op_type == "PRelu" and c.rank(node.input[1]) == 1:
        _align(c, new, (*c.shape(node.input[1]), *(1,) * (c.rank(node.input[0]) - 2)))
    return new


def _align(c: OnnxContext, node: NodeProto, shape: Shape) -> None:
    """Have ``node`` read its second operand in another shape."""
    old = node.input[1]
    if c.shape(old) == shape:
        return
    name = f"{old}.{'x'.join(map(str, shape))}"
    if old in c.constants:
        c.constants[name] = c.constants[old].reshape(known_shape(shape))
    elif name not in c.values:
        c.values[name] = c.op("reshape", c.value(old), shape=shape)
    node.input[1] = name
