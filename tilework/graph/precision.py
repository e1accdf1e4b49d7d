"""In which element type each value of a network is stored, and what its products multiply.

``f32`` is float32 throughout; ``bf16`` and ``f16`` store narrow values where it pays; ``tf32``
stores float32 and rounds what is multiplied.

In precision ``bf16``, what passes from one fused call to the next is bfloat16, and so are the
weights that are multiplied by such values. Everything is computed in float32: sums of products,
biases, scales, residual additions, pooling; a value is rounded once, when its call stores it.
Float32 remain

- the network's inputs and outputs, and values of other types than float32 are left as they are;
  inputs that products read are copied narrow first, on CPUs,
- biases and other parameters of epilogues, depthwise filters (each is read once),
- what a softmax reads: differences of its inputs become factors of its outputs,
- angles of positions, as rotary embeddings have them: rounded they would be off by turns,
- what enters a convolution or product that cannot take its channels in pairs: an odd number of
  channels, or two computed operands whose terms lie in no pairs,
- what continues an input as an output of the network: new positions of a decoder's cache,
- what enters a product with block-sparse weights, and these weights,
- what steps of a layer that are repeated read and hand on,
- what becomes bytes for a product, and what these bytes are worth.

Accuracy: rounding changes an element by at most 2^-8 of itself, usually less than half of that,
and independently of others. Outputs of ImageNet networks differ from float32 by 2e-3 to 2e-2 of
the largest.

Precision ``f16`` is the same with float16: an element changes by at most 2^-11 of itself, an
eighth as much; but a magnitude above 65504 becomes infinite, and one below 6e-5 loses digits.

In precision ``tf32``, convolutions and products of float32 that take their channels in fours round
both factors to tf32 numbers, by at most 2^-11 of themselves; products are exact and sums are
float32. Nothing else changes: all values are stored as float32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tilework import te
from tilework.dtypes import PRECISIONS, Precision
from tilework.errors import NetworkError
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import CONVOLUTIONS, GROUPED, SPARSE
from tilework.graph.operators.base import FLOATS, ValueType
from tilework.graph.paired import in_pairs
from tilework.ops.storage import WEIGHTS_OF_7_BITS, bounded_products, tf32_if_product
from tilework.target import Target

__all__ = ["PRECISIONS", "Precision", "require_precision", "rounds_factors", "stored_types"]

NARROW: dict[str, str] = {"bf16": "bfloat16", "f16": "float16"}
"""Element types of the precisions that store narrow values."""
_ROUNDED = ("block_peaks", "block_bytes", "block_scales", "block_totals", "byte_dense")
_LOOKUPS = ("gather_nd", "take", "take_along")
_TF32_CHANNELS = 4
"""Elements that one copy to a tensor core's memory takes."""


def require_precision(target: Target, precision: str) -> None:
    """Refuse a precision that does not exist, or that the target has no instructions for.

    Raises:
        NetworkError: no such precision.
        TargetError: the target lacks a feature, which the message names.
    """
    if precision not in PRECISIONS:
        raise NetworkError(f"precision '{precision}' is unknown; known: {', '.join(PRECISIONS)}")
    target.require_precision(precision)


def floats_for_bytes(net: Network) -> Network:
    """Weights of 8 bits that data in float multiply as float32, which become narrow with others.

    Small whole numbers lose nothing then.
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op != "dense" or node.attrs.get("sums") != "float32":
            return None
        weight = b.constants[inputs[1]].astype(np.float32)
        return b.op("dense", inputs[0], b.constant(weight, inputs[1]), name=node.name)

    return rewrite(net, rule)


def narrow_inputs(net: Network) -> Network:
    """Copy the inputs of the network that products read: a copy is stored narrow, once.

    Others that read them, such as residual additions, take them as they are.
    """
    copies: dict[str, str] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if not _pairs(net, node) or _viewed(net, node.inputs[0]) not in net.inputs:
            return None
        data = inputs[0]
        if data not in copies:
            copies[data] = b.op("identity", data)
        return b.op(node.op, copies[data], *inputs[1:], name=node.name, **node.attrs)

    return rewrite(net, rule)


def stored_types(
    net: Network, groups: Sequence[tuple[Node, ...]], precision: Precision
) -> dict[str, ValueType]:
    """Type of every value as it is stored; values inside a group keep float32.

    Args:
        net: the network.
        groups: its fused calls; see `tilework.graph.fuse`.
        precision: what to store.
    """
    types = dict(net.types)
    narrow = NARROW.get(precision)
    if narrow is None:
        return types
    kept = _kept(net)
    for group in groups:
        node = group[-1]
        if node.op == "reshape":
            dtype = types[node.inputs[0]].dtype
        else:
            dtype = types[node.name].dtype
            if dtype == "float32" and node.name not in kept:
                dtype = narrow
        types[node.name] = ValueType(types[node.name].shape, dtype)
    weights = {
        node.inputs[1]
        for node in net.nodes
        if _pairs(net, node) and node.inputs[1] in net.constants
        and types[node.inputs[0]].dtype == narrow
    }  # fmt: skip
    joined = {
        v
        for node in net.nodes
        if node.op == "concat" and types[node.name].dtype == narrow
        for v in node.inputs
        if v in net.constants
    }

    def takes(node: Node) -> bool:
        """Whether a reader of a constant takes it as it takes narrow values."""
        if node.op == "concat":
            return types[node.name].dtype == narrow
        return _pairs(net, node) and types[node.inputs[0]].dtype == narrow

    for name in (*weights, *joined):
        if all(map(takes, net.consumers[name])):
            types[name] = ValueType(types[name].shape, narrow)
    return types


def rounds_factors(net: Network, node: Node, precision: str) -> bool:
    """Whether the factors of a node's products are rounded to tf32."""
    if precision != "tf32" or not _multiplies(node):
        return False
    if len(node.inputs) < 2 or any(net.types[v].dtype != "float32" for v in node.inputs):
        return False
    shape = net.types[node.inputs[0]].shape
    return bool(shape) and shape[-1] % _TF32_CHANNELS == 0


def narrow_factors(
    net: Network, rounded: Collection[str], bounds_weights: bool
) -> dict[str, Callable[[te.Tensor], te.Tensor]]:
    """What becomes of the declared products of nodes, by name.

    Args:
        net: the network.
        rounded: nodes whose factors are rounded to tf32.
        bounds_weights: whether weights of 7 bits are declared so; see `Target.bounds_weights`.
    """
    out: dict[str, Callable[[te.Tensor], te.Tensor]] = dict.fromkeys(rounded, tf32_if_product)
    for node in net.nodes if bounds_weights else ():
        w = net.constants.get(node.inputs[1]) if node.attrs.get("sums") == "int32" else None
        if w is None or w.dtype != np.int8 or not w.size:
            continue
        if w.min() >= -WEIGHTS_OF_7_BITS and w.max() <= WEIGHTS_OF_7_BITS:
            out[node.name] = bounded_products
    return out


def _kept(net: Network) -> set[str]:
    """Values that stay float32, and those that they are views of."""
    kept = {*net.outputs, *_angles(net)}
    for node in net.nodes:
        if node.op == "softmax":
            kept.update(node.inputs)
        elif _multiplies(node) and not _pairs(net, node):
            kept.update(node.inputs[:2])
        elif node.op in SPARSE:
            kept.add(node.inputs[0])
        elif node.op == "loop":
            kept.update((*node.inputs, node.name))
        elif node.op in _ROUNDED or _continues(net, node):
            kept.update(node.inputs)
    for node in reversed(net.nodes):
        if node.op == "reshape" and node.name in kept:
            kept.update(node.inputs)
    return kept


def _angles(net: Network) -> set[str]:
    """What sines and cosines read, and what that is made of, where whole numbers alone say it."""
    whole: set[str] = set()
    for node in net.nodes:
        floats = (v for v in node.inputs if net.types[v].dtype in FLOATS)
        if node.op not in _LOOKUPS and all(v in whole or v in net.constants for v in floats):
            whole.add(node.name)
    angles = {v for node in net.nodes if node.op in ("cos", "sin") for v in node.inputs}
    for node in reversed(net.nodes):
        if node.name in angles & whole:
            angles.update(node.inputs)
    return angles & whole


def _viewed(net: Network, value: str) -> str:
    """What a value is, seen in other shapes."""
    while value in net.producer and net.producer[value].op == "reshape":
        value = net.producer[value].inputs[0]
    return value


def _continues(net: Network, node: Node) -> bool:
    """Whether the node is an output that continues an input, as caches of decoders do."""
    ends = node.op == "concat" and node.name in net.outputs
    return ends and any(v in net.inputs for v in node.inputs)


def _multiplies(node: Node) -> bool:
    """Whether the node sums products over channels."""
    if node.op in CONVOLUTIONS:
        return bool(node.attrs.get("groups", 1) == 1)
    return node.op in (*GROUPED, "dense", "matmul", "einsum")


def _pairs(net: Network, node: Node) -> bool:
    """Whether the node sums products of constant weights over an even number of channels."""
    if not _multiplies(node):
        return False
    if node.op == "einsum":  # which may have a single operand
        return in_pairs(net, node)
    if node.inputs[1] not in net.constants or node.attrs.get("transpose_a"):
        return False
    if any(net.types[v].dtype != "float32" for v in node.inputs):
        return False
    channels = net.types[node.inputs[0]].shape[-1]
    if channels == 1 and node.op in CONVOLUTIONS and not any(node.attrs["pads"]):
        channels = net.types[node.inputs[1]].shape[-3]  # neighbours along a row are taps
    return channels % 2 == 0
