"""Products with packed weights unpack them as they multiply."""

from __future__ import annotations

from tilework.graph.ir import Builder, Network, Node, keep, rewrite
from tilework.graph.passes._built import Built
from tilework.ops.packed import WORD_BITS


def multiply_packed(net: Network) -> Network:
    """Products read packed weights instead of a matrix that they are unpacked to.

    rewrite:
        dense(x, unpack(q, scales, ..))             ->  packed_dense(x, q, scales, ..)
        matmul(x, transpose(unpack(q, scales, ..)))  ->  packed_dense(x, q, scales, ..)

    Data are filled up with zeros where the last block is. What no product reads along its blocks
    stays, and is unpacked when the network is compiled.
    """
    if not any(n.op == "unpack" for n in net.nodes):
        return net
    built = Built()

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        found = _packed(b, built, node, inputs) if node.op in ("dense", "matmul") else None
        if found is None:
            return keep(b, node, inputs)
        x = inputs[0]
        if node.attrs.get("transpose_a"):
            x = b.op("transpose", x, perm=(1, 0))
        bits, (_, blocks, words) = found.attrs["bits"], b.shape(found.inputs[0])
        after = blocks * words * (WORD_BITS // bits) - found.attrs["size"]
        if after:
            x = b.op("pad", x, before=(0, 0), after=(0, after), value=0.0)
        return b.op("packed_dense", x, *found.inputs, name=node.name, bits=bits)

    return rewrite(net, rule)


def _packed(b: Builder, built: Built, node: Node, inputs: tuple[str, ...]) -> Node | None:
    """The packed weights that a product reads along their blocks."""
    value, along = inputs[1], node.op == "dense" or bool(node.attrs.get("transpose_b"))
    while True:
        found = built.node(b, value, "transpose", "unpack")
        if found is None or found.op == "unpack":
            constant = found is not None and all(v in b.constants for v in found.inputs)
            return found if along and constant else None
        value, along = found.inputs[0], along != (found.attrs["perm"] == (1, 0))
