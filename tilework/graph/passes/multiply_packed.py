"""Products with packed weights unpack them as they multiply."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.extents import known
from tilework.ops.packed import WORD_BITS, byte_order, counts_from
from tilework.runtime.content import let_go


def multiply_packed(net: Network) -> Network:
    """Products read packed weights instead of a matrix that they are unpacked to.

    rewrite:
        dense(x, unpack(q, scales, ..))              ->  packed_dense(x, q, scales, ..)
        matmul(x, transpose(unpack(q, scales, ..)))  ->  packed_dense(x, q, scales, ..)

    Data are filled up with zeros where the last block is. Where weights let them be rounded to
    bytes, they are, and the product is ``byte_dense``. What no product reads along its blocks
    stays, and is unpacked when the network is compiled.
    """
    if not any(n.op == "unpack" for n in net.nodes):
        return net
    ordered: dict[str, str] = {}

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op not in ("dense", "matmul") or "sums" in node.attrs:
            return None
        unpack = _packed(b, node, inputs)
        if unpack is None:
            return None
        x = inputs[0]
        if node.attrs.get("transpose_a"):
            x = b.op("transpose", x, perm=(1, 0))
        bits, (_, blocks, words) = unpack.attrs["bits"], b.shape(unpack.inputs[0])
        after = blocks * words * (WORD_BITS // bits) - unpack.attrs["size"]
        if after:
            x = b.op("pad", x, before=(0, 0), after=(0, after), value=0.0)
        if unpack.attrs.get("data") != "int8":
            return b.op("packed_dense", x, *unpack.inputs, name=node.name, bits=bits)
        q, *others = unpack.inputs
        if q not in ordered:
            ordered[q] = b.constant(byte_order(b.constants[q], bits), f"{q}_bytes")
            let_go(b.constants[q])
        return _of_bytes(b, node.name, x, (ordered[q], *others), bits)

    return rewrite(net, rule)


def _of_bytes(b: Builder, name: str, x: str, weights: tuple[str, ...], bits: int) -> str:
    """A product of data that are rounded to bytes; those of one value are found once."""
    words = b.shape(weights[0])[-1]
    peaks = b.op("block_peaks", x, block=known(words) * (WORD_BITS // bits))
    data, scales = b.op("block_bytes", x, peaks), b.op("block_scales", peaks)
    zeros = b.types[weights[2]].dtype if len(weights) > 2 else None
    totals = b.op("block_totals", data, scales, times=-float(counts_from(bits, zeros) or 1))
    dtype = b.types[x].dtype
    return b.op("byte_dense", data, scales, totals, *weights, name=name, bits=bits, dtype=dtype)


def _packed(b: Builder, node: Node, inputs: tuple[str, ...]) -> Node | None:
    """The packed weights that a product reads along their blocks."""
    value, along = inputs[1], node.op == "dense" or bool(node.attrs.get("transpose_b"))
    while True:
        producer = b.node(value, "transpose", "unpack")
        if producer is None or producer.op == "unpack":
            constant = producer is not None and all(v in b.constants for v in producer.inputs)
            return producer if along and constant else None
        value, along = producer.inputs[0], along != (producer.attrs["perm"] == (1, 0))
