"""Functions of a byte as tables, where an instruction looks bytes up.

A network that is quantised around each of its operators computes, say, GELU from bytes, rounding
to bytes on its way: ten operators, of which each result is one of 256. They become one look-up,
whose table is what they make of all 256::

    quantize(multiply(dequantize(x), dequantize(quantize(add(dequantize(quantize(erf(...
        ->  lookup(x, table)
"""

from __future__ import annotations

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import OPERATORS, Pattern
from tilework.graph.operators.base import BYTES
from tilework.graph.passes.fold_constants import fold_constants
from tilework.ops.quantized import VALUES

_PLAIN = ("dequantize", "quantize", "flip_sign", "add", "subtract", "multiply", "relu", "clip")
"""Operators of an instruction or a few."""
_LEAST = 6
"""So many of them take longer than a look-up."""


def tabulate_bytes(net: Network) -> Network:
    """Look up what is computed from one value of bytes alone, element by element.

    Args:
        net: after all passes.
    """
    if not any(n.op == "quantize" for n in net.nodes):
        return net
    sources = _sources(net)

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        source = sources.get(node.name, node.name)
        if source == node.name or net.types[node.name].dtype not in BYTES:
            return None
        table = None if _inner(net, node, sources) else _table(net, node, source)
        if table is None:
            return None
        return b.op("lookup", b.renamed[source], b.constant(table, "table"), name=node.name)

    return rewrite(net, rule)


def _inner(net: Network, node: Node, sources: dict[str, str]) -> bool:
    """Whether all that is made of a value ends in other bytes that are functions of its source."""
    readers = net.consumers.get(node.name, ())
    return (
        bool(readers)
        and node.name not in net.outputs
        and all(
            sources.get(r.name) == sources[node.name]
            and (net.types[r.name].dtype in BYTES or _inner(net, r, sources))
            for r in readers
        )
    )


def _sources(net: Network) -> dict[str, str]:
    """The value of bytes that each value is a function of, element by element, if there is one."""
    sources: dict[str, str] = {v: v for v, t in net.inputs.items() if t.dtype in BYTES}
    for node in net.nodes:
        own, kind = net.types[node.name], OPERATORS[node.op]
        read = [v for v in node.inputs if v not in net.constants or net.constants[v].size != 1]
        source = sources.get(read[0]) if read and kind.pattern <= Pattern.BROADCAST else None
        same = all(sources.get(v) == source and net.types[v].shape == own.shape for v in read)
        if source is not None and same:
            sources[node.name] = source
        elif own.dtype in BYTES and own.shape:
            sources[node.name] = node.name
    return sources


def _table(net: Network, node: Node, source: str) -> np.ndarray | None:
    """What ``node`` is for each byte of ``source``; None where it is not worth a table."""
    needed = {node.name}
    for one in reversed(net.nodes):
        if one.name in needed and one.name != source:
            needed.update(one.inputs)
    steps = [n for n in net.nodes if n.name in needed and n.name != source and n.inputs]
    steps = [n for n in steps if any(v not in net.constants for v in n.inputs)]
    if len(steps) < _LEAST and all(n.op in _PLAIN for n in steps):
        return None
    b, kind = Builder("table"), net.types[source]
    byte = np.arange(VALUES, dtype=np.uint8).view(kind.dtype)
    names = {source: b.constant(byte.reshape((1,) * (len(kind.shape) - 1) + (VALUES,)))}
    for step in steps:
        for v in step.inputs:
            if v not in names:
                names[v] = b.constant(net.constants[v])
        own = (names[v] for v in step.inputs)
        names[step.name] = b.op(step.op, *own, name=step.name, **step.attrs)
    folded = fold_constants(b.finish([names[node.name]]))
    table = folded.constants.get(folded.outputs[0])
    return None if table is None else table.reshape(-1)
