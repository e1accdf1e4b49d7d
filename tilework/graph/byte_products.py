"""Products of two values that a run quantises, as of attention, in integers.

Those with constant weights are so on every machine (`tilework.graph.passes.integer_products`). Of
a computed operand the terms of a group are put beside each other first, which pays where an
instruction takes them::

    quantize(einsum(dequantize(x), dequantize(w)))
        ->  requantize(einsum(x, w'; sums="int32") - zw' * sums of x - zx * sums of w, init, ...)

with ``w' = w - 128``, which has a sign, in groups (`tilework.graph.paired`), and what both zero
points make of each other, ``init``. Sums are exact, and are scaled once, as ONNX Runtime does. So
are those of operators that say so: ``einsum(int32(x) - zx, int32(w) - zw)``, or in float32.
"""

from __future__ import annotations

import math

import numpy as np

from tilework.dtypes import integer_range
from tilework.frozen import frozen
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators.base import BYTES, Shape
from tilework.graph.paired import Groups
from tilework.graph.passes._quantised import FITS, FLIP, Parameters, plain_scales
from tilework.index.extents import known, most
from tilework.index.symbols import is_static

_GROUP = 4
"""Terms that one instruction takes."""
_MOST_TERMS = 2**13
"""Sums of as many products of bytes, and what zero points add to them, have 32 bits."""
_MOST_OPEN = 2**10 - 1
"""Terms at most where a run says how many: of more, attention is made block by block, in floats
(`tilework.graph.blocks`), so that its matrices stay near."""
_FLIPPED = {"int8": -FLIP, "uint8": FLIP}
"""What is added to a zero point where its numbers become others of a type."""


def byte_products(net: Network) -> Network:
    """Sum products of two quantised values in int32.

    Args:
        net: after all passes.
    """
    matches = {m.last.name: m for m in (_match(net, n) for n in net.nodes) if m is not None}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        match = matches.get(node.name)
        return None if match is None else _built(b, match)

    return rewrite(net, rule) if matches else net


@frozen(eq=False)
class _Bytes:
    """An operand: bytes by name, its shape, and what they mean."""

    value: str
    shape: Shape
    means: Parameters


@frozen(eq=False)
class _Match:
    """A product of two operands of bytes.

    Attributes:
        groups: how it is computed.
        operands: data and matrix.
        y: what the result is quantised to; None where it is dequantised, or stays as it is.
        last: the node whose value is replaced.
        whole: whether that is the sums.
    """

    groups: Groups
    operands: tuple[_Bytes, ...]
    y: Parameters | None
    last: Node
    whole: bool


def _match(net: Network, node: Node) -> _Match | None:
    groups = Groups.of(net, node, _GROUP, fills=True)
    if groups is None:
        return None
    count = groups.size[groups.summed]
    if most(count) > (_MOST_TERMS if is_static((count,)) else _MOST_OPEN):
        return None
    operands = [_bytes(net, v) for v in node.inputs]
    dequantised = tuple(o for o in operands if o is not None)
    if len(dequantised) < len(operands):
        return None
    readers = net.consumers[node.name] if net.alone(node.name) else ()
    y = _parameters(net, readers[0]) if readers and readers[0].op == "quantize" else None
    whole = net.types[node.name].dtype == "int32"
    return _Match(groups, dequantised, y, node if y is None else readers[0], whole)


def _bytes(net: Network, value: str) -> _Bytes | None:
    """The bytes that a value is dequantised from, or differences of, and perhaps a view of."""
    shape, node = net.types[value].shape, net.producer.get(value)
    while node is not None and node.op == "reshape":
        node = net.producer.get(node.inputs[0])
    if node is None:
        return None
    numbers, means = node.inputs[0], None
    if node.op == "dequantize":
        means = _parameters(net, node)
    elif node.op in ("cast", "subtract"):
        point = net.constants.get(node.inputs[1]) if node.op == "subtract" else np.int32(0)
        wide = node if node.op == "cast" else net.producer.get(numbers)
        if wide is not None and wide.op == "cast" and point is not None and point.size == 1:
            numbers, dtype = wide.inputs[0], net.types[wide.inputs[0]].dtype
            number = float(point.reshape(()))
            plain = dtype in BYTES and net.types[value].dtype in ("int32", "float32")
            if plain and number.is_integer() and number in _values(dtype):
                means = Parameters(np.float32(1), int(number), dtype)
    if means is None or numbers in net.constants:
        return None
    return _Bytes(numbers, shape, means)


def _values(dtype: str) -> range:
    low, high = integer_range(dtype)
    return range(low, high + 1)


def _parameters(net: Network, node: Node) -> Parameters | None:
    """Scale and zero point, if they are one of each; zero points may be of float32."""
    dtype = node.attrs.get("of", net.types[node.inputs[0]].dtype)
    scale, zero = (net.constants.get(v) for v in node.inputs[1:3])
    if scale is None or zero is None or scale.size != 1 or zero.size != 1 or dtype not in BYTES:
        return None
    one = np.float32(scale.reshape(()))
    return Parameters(one, int(zero.reshape(())), dtype) if plain_scales(one) else None


def _built(b: Builder, match: _Match) -> str:
    groups, (x, w), y = match.groups, match.operands, match.y
    values, zeros = [], []
    for i, operand in enumerate(match.operands):
        wanted, own = "int8" if i == groups.at else "uint8", operand.means.dtype
        value = b.renamed[operand.value]
        if own != wanted:
            value = b.op("flip_sign", value)
        same = b.shape(value) == operand.shape
        values.append(value if same else b.op("reshape", value, shape=operand.shape))
        zeros.append(operand.means.zero + (0 if own == wanted else _FLIPPED[wanted]))
    acc = groups.product(b, values, f"{match.last.name}_sums", sums="int32")
    count = groups.size[groups.summed]
    # where a run says how many terms there are, they are taken from one operand at once
    taken = 0 if is_static((count,)) or not all(zeros) else zeros[groups.at]
    for i, other in enumerate(reversed(zeros)):
        if other:
            less = taken if i == groups.at else 0
            acc = b.op("add", acc, _sums(b, groups, values[i], i, -other, less))
    init = 0 if taken or not all(zeros) else known(count) * math.prod(zeros)
    scale, name = x.means.scale * w.means.scale, match.last.name
    if match.whole:
        return b.op("add", acc, b.constant(np.asarray(init, np.int32), "init"), name=name)
    if y is None:
        parts = b.constant(np.asarray(scale), "scale"), b.constant(np.asarray(-init, np.int32))
        return b.op("dequantize", acc, *parts, name=name)
    by = np.asarray(scale / y.scale, np.float32)
    fits = {"fits": True} if by <= FITS else {}
    zero = b.constant(np.asarray(y.zero, np.int32 if fits else np.float32), "zero")
    parts = b.constant(np.asarray(init, np.int32), "init"), b.constant(by, "scale")
    return b.op("requantize", acc, *parts, zero, name=name, of=y.dtype, **fits)


def _sums(b: Builder, groups: Groups, value: str, i: int, factor: int, less: int) -> str:
    """An operand's sums of the terms of a product, times a number, to be added to the products.

    Each term is ``less`` so many first.
    """
    labels = groups.form.operands[i]
    at = labels.index(groups.summed)
    wide = b.op("cast", value, to="int32")
    if less:
        wide = b.op("subtract", wide, b.constant(np.asarray(less, np.int32), "less"))
    total = b.op("reduce_sum", wide, axes=(at,), keepdims=True)
    one = b.constant(np.full((1,) * len(labels), factor, np.int32), "factor")
    total = b.op("multiply", total, one)
    kept = [labels.index(n) for n in groups.form.result if n in labels]
    if kept != sorted(kept):
        total = b.op("transpose", total, perm=(*kept, at))
    shape = tuple(groups.size[n] if n in labels else 1 for n in groups.form.result)
    return b.op("reshape", total, shape=shape)
