"""From a group of nodes to tensor expressions: one ComputeDAG per fused call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilework import ops, te
from tilework.graph.ir import Node, ValueType
from tilework.graph.shapes import AVG_POOLS, CONVOLUTIONS, GROUPED, MAX_POOLS, UNARY
from tilework.ops.storage import stored

_COMMUTATIVE = ("add", "multiply", "maximum", "minimum")

# (node, its input tensors, whether its second input is a constant) -> output tensor
_Lowering = Callable[[Node, Sequence[te.Tensor], bool], te.Tensor]


def lower_nodes(
    nodes: Sequence[Node],
    types: Mapping[str, ValueType],
    constants: frozenset[str],
    dtype: str = "float32",
) -> tuple[te.ComputeDAG, tuple[str, ...]]:
    """Declare what a group of nodes computes.

    Args:
        nodes: the group in execution order; the last one is its output.
        types: types of at least all values that the group reads.
        constants: names of values whose layout may be changed at compile time.
        dtype: element type that the output is stored in.

    Returns:
        The DAG, whose placeholders ``p0, p1, ...`` are numbered in order of first use, and the
        value bound to each placeholder.
    """
    placeholders: dict[str, te.Tensor] = {}
    inner: dict[str, te.Tensor] = {}

    def tensor(value: str) -> te.Tensor:
        if value in inner:
            return inner[value]
        if value not in placeholders:
            t = types[value]
            placeholders[value] = te.placeholder(t.shape, f"p{len(placeholders)}", t.dtype)
        return placeholders[value]

    for node in nodes:
        values = node.inputs
        if node.op in _COMMUTATIVE and values[1] in inner and values[0] not in inner:
            values = values[::-1]  # one form, however the network wrote it
        tensors = [tensor(v) for v in values]
        free = len(values) == 2 and values[1] in constants
        inner[node.name] = _LOWERINGS[node.op](node, tensors, free)
    output = stored(inner[nodes[-1].name], dtype)
    return te.ComputeDAG([*placeholders.values(), output]), tuple(placeholders)


def _conv(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    a = node.attrs
    window = (a["strides"], a["pads"], a["dilation"])
    if a.get("groups", 1) > 1:  # one channel each: the others became grouped convolutions
        return ops.depthwise_conv(t[0], t[1], *window, layout_free=free)
    last = a["layout"] == "NHWC"
    return ops.conv(t[0], t[1], *window, channels_last=last, layout_free=free)


def _grouped_conv(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    a = node.attrs
    window = (a["strides"], a["pads"], a["dilation"])
    return ops.grouped_conv(t[0], t[1], *window, layout_free=free)


def _dense(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.dense(t[0], t[1], layout_free=free)


def _matmul(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    a = node.attrs
    return ops.matmul(
        t[0],
        t[1],
        transpose_a=a.get("transpose_a", False),
        transpose_b=a.get("transpose_b", False),
        layout_free=free,
    )


def _max_pool(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    a = node.attrs
    return ops.max_pool(t[0], a["kernel"], a["strides"], a["pads"], a["dilation"])


def _avg_pool(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    a = node.attrs
    return ops.avg_pool(
        t[0], a["kernel"], a["strides"], a["pads"], count_include_pad=a["count_include_pad"]
    )


def _pad(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.pad(t[0], node.attrs["before"], node.attrs["after"], node.attrs["value"])


def _unary(node: Node, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.unary(t[0], node.op)


_LOWERINGS: dict[str, _Lowering] = {
    **dict.fromkeys(CONVOLUTIONS, _conv),
    **dict.fromkeys(GROUPED, _grouped_conv),
    **dict.fromkeys(MAX_POOLS, _max_pool),
    **dict.fromkeys(AVG_POOLS, _avg_pool),
    "dense": _dense,
    "matmul": _matmul,
    "global_avg_pool": lambda n, t, free: ops.global_avg_pool(t[0]),
    "softmax": lambda n, t, free: ops.softmax(t[0], n.attrs["axis"]),
    "add": lambda n, t, free: ops.add(t[0], t[1]),
    "subtract": lambda n, t, free: ops.subtract(t[0], t[1]),
    "multiply": lambda n, t, free: ops.multiply(t[0], t[1]),
    "divide": lambda n, t, free: ops.divide(t[0], t[1]),
    "maximum": lambda n, t, free: ops.maximum(t[0], t[1]),
    "minimum": lambda n, t, free: ops.minimum(t[0], t[1]),
    "relu": lambda n, t, free: ops.relu(t[0]),
    "clip": lambda n, t, free: ops.clip(t[0], n.attrs["low"], n.attrs["high"]),
    "identity": lambda n, t, free: ops.copy(t[0]),
    "transpose": lambda n, t, free: ops.transpose(t[0], n.attrs["perm"]),
    "concat": lambda n, t, free: ops.concatenate(t, n.attrs["axis"]),
    "pad": _pad,
    **dict.fromkeys(UNARY, _unary),
}
