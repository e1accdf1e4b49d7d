"""Quantised numbers move as bytes, and as bytes without a sign."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import MAX_POOLS
from tilework.graph.passes._quantised import Parameters, computed, parameters

_MOVES = ("reshape", "transpose", "slice", "concat", *MAX_POOLS)
"""The result's elements are some of the inputs', in their order where they are compared."""


def move_quantised(net: Network) -> Network:
    """Let operators that only move numbers, or choose the largest, do so before dequantisation.

    All rules keep every bit; scales are one for a whole value. That of one that is moved alone may
    be computed.

    rewrite:
        f(dequantize(x))               ->  dequantize(f(x))     for views, moves, max_pool
        concat(dequantize(x), dequantize(y)), of equal scale and zero point
                                       ->  dequantize(concat(x, y))
        quantize(dequantize(x)), alike ->  x
        quantize(reshape(x))           ->  reshape(quantize(x))
        quantize(concat(x, y))         ->  concat(quantize(x), quantize(y)), if read once
        quantize(x) to int8            ->  flip_sign(quantize(x) to uint8)
        dequantize(flip_sign(x))       ->  dequantize(x), with a zero point 128 more
    """
    if not any(n.op in ("quantize", "dequantize") for n in net.nodes):
        return net

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.op == "quantize":
            return _quantized(b, node, inputs, net.alone(node.inputs[0]))
        if node.op == "dequantize":
            return _dequantized(b, node, inputs)
        if node.op in _MOVES:
            return _moved(b, node, inputs)
        return None

    return rewrite(net, rule)


def _quantized(b: Builder, node: Node, inputs: tuple[str, ...], alone: bool) -> str | None:
    """Args: alone: whether nobody else reads what is quantised."""
    wanted = parameters(b, Node(node.op, inputs, node.name))
    if wanted is None:
        return None
    x = inputs[0]
    view = b.node(x, "reshape")
    if view is not None:
        x = view.inputs[0]
    y, bytes_of = _inner(b, x, wanted), partial(_unsigned, b, node, wanted.unsigned)
    if y is None:
        joined = b.node(inputs[0], "concat")
        if joined is not None and alone:
            y = b.op("concat", *map(bytes_of, joined.inputs), name=node.name, **joined.attrs)
        else:
            y = bytes_of(x)
        if wanted.dtype == "int8":
            y = b.op("flip_sign", y, name=f"{node.name}_signed")
    return y if view is None else b.op("reshape", y, name=node.name, shape=view.attrs["shape"])


def _unsigned(b: Builder, node: Node, wanted: Parameters, x: str) -> str:
    """``x`` as ``node`` quantises it, without a sign."""
    y = _inner(b, x, wanted)
    if y is None:
        y = b.op("quantize", x, *wanted.constants(b), name=node.name, **node.attrs)
    return y


def _inner(b: Builder, x: str, wanted: Parameters) -> str | None:
    """The integers that ``x`` is dequantised from, if they are those that it is quantised to."""
    before = b.node(x, "dequantize")
    if before is None:
        return None
    own = parameters(b, before)
    if own == wanted:
        return before.inputs[0]
    if own is not None and own == wanted.unsigned:
        return b.op("flip_sign", before.inputs[0])
    return None


def _dequantized(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    own = parameters(b, Node(node.op, inputs, node.name))
    flipped = b.node(inputs[0], "flip_sign")
    if own is None or flipped is None or own.dtype != "int8":
        view = b.node(inputs[0], "reshape")
        inner = None if view is None else b.node(view.inputs[0], "flip_sign")
        if own is None or view is None or inner is None or own.dtype != "int8":
            return None
        x = b.op("reshape", inner.inputs[0], shape=view.attrs["shape"])
    else:
        x = flipped.inputs[0]
    return b.op("dequantize", x, *own.unsigned.constants(b), name=node.name, **node.attrs)


def _moved(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    before = [b.node(v, "dequantize") for v in inputs]
    sources = [n for n in before if n is not None and n.inputs[0] not in b.constants]
    all_own = {parameters(b, n) for n in sources}
    own = all_own.pop() if len(all_own) == 1 else None
    if len(sources) < len(inputs):
        return None
    parts = _computed(b, sources) if own is None else own.constants(b)
    if parts is None:
        return None
    y = b.op(node.op, *(n.inputs[0] for n in sources), name=f"{node.name}_bytes", **node.attrs)
    return b.op("dequantize", y, *parts, name=node.name, **sources[0].attrs)


def _computed(b: Builder, sources: Sequence[Node]) -> tuple[str, str] | None:
    """Scale and zero point that a run computes, if one value alone is moved."""
    own = computed(b, sources[0]) if len(sources) == 1 else None
    if own is None or any(len(b.shape(v)) > 1 for v in (own.scale, own.zero)):
        return None
    return own.scale, own.zero
