"""Products of matrices and convolutions that something was fused into."""

from __future__ import annotations

from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes, optional
from tilework.graph.onnx.convert.matrices import gemm, product
from tilework.graph.onnx.convert.microsoft.activations import activated
from tilework.graph.onnx.convert.normal import like
from tilework.graph.onnx.convert.windows import conv, convolution
from tilework.graph.onnx.protos import NodeProto


def _fused_matmul(c: OnnxContext, node: NodeProto) -> str:
    a, name = attributes(node), node.output[0]
    x, y = (
        _turned(c, c.value(i), bool(a.get(f"trans{side}", 0)), bool(a.get(f"transBatch{side}", 0)))
        for i, side in zip(node.input, "AB", strict=True)
    )
    z = product(c, x, y, name)
    alpha = float(a.get("alpha", 1.0))
    if alpha != 1.0:
        z = c.op("multiply", z, like(c, alpha, z), name=f"{name}_scaled")
    return activated(c, z, a, name)


def _turned(c: OnnxContext, value: str, last: bool, batch: bool) -> str:
    """An operand in the order that it is multiplied in.

    Args:
        last: its last two dimensions change places; vectors have none that could.
        batch: its first dimension, of matrices, stands behind those that are the batch.
    """
    order = list(range(len(c.b.shape(value))))
    if batch and len(order) > 2:
        order = [*order[1:-1], 0, order[-1]]
    if last and len(order) > 1:
        order = [*order[:-2], order[-1], order[-2]]
    if order == sorted(order):
        return value
    if value in c.b.constants:  # so that a constant matrix is the weight of a dense layer
        return c.b.constant(c.b.constants[value].transpose(order), value)
    return c.op("transpose", value, perm=tuple(order))


def _fused_gemm(c: OnnxContext, node: NodeProto) -> str:
    return activated(c, gemm(c, node), attributes(node), node.output[0])


def _fused_conv(c: OnnxContext, node: NodeProto) -> str:
    """A convolution, to which another value may be added, and an activation."""
    a = attributes(node)
    y = conv(c, node)
    if optional(node, 3):
        y = c.op("add", y, c.value(node.input[3]), name=f"{node.output[0]}_sum")
    return activated(c, y, a, node.output[0], a.get("activation_params", ()))


def _nhwc_conv(c: OnnxContext, node: NodeProto) -> str:
    """A convolution of [N, H, W, C] with weights [M, H, W, C]."""
    x, w = (c.value(i) for i in node.input[:2])
    if len(c.b.shape(x)) != 4 or len(c.b.shape(w)) != 4:
        raise Unsupported("only two spatial axes are supported")
    first = (0, 3, 1, 2)
    x = c.op("transpose", x, perm=first)
    if w in c.b.constants:
        w = c.b.constant(c.b.constants[w].transpose(first), w)
    else:
        w = c.op("transpose", w, perm=first)
    y = convolution(c, attributes(node), x, w, optional(node, 2), node.output[0])
    return c.op("transpose", y, name=f"{node.output[0]}_last", perm=(0, 2, 3, 1))


def _gemm_fast_gelu(c: OnnxContext, node: NodeProto) -> str:
    x, w = (c.value(i) for i in node.input[:2])
    y = product(c, x, w, node.output[0])
    if optional(node, 2):
        y = c.op("add", y, c.value(node.input[2]))
    return c.op("gelu", y, name=node.output[0], approximate="tanh")


CONVERTERS: dict[str, Converter] = {
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "GemmFastGelu": _gemm_fast_gelu,
    "NhwcConv": _nhwc_conv,
    "TransposeMatMul": _fused_matmul,  # its old name
}
