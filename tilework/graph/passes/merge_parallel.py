"""Compute small convolutions or dense layers that share their input as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from tilework.frozen import frozen
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import CONVOLUTIONS
from tilework.graph.passes._scales import constant_operand
from tilework.index.extents import known

_NARROW = 32
"""A branch of fewer output channels leaves registers of its kernel unused."""


@frozen
class _Branch:
    """A convolution or dense layer, and the additions of constants and activations behind it."""

    nodes: tuple[Node, ...]
    channels: int

    @property
    def output(self) -> str:
        return self.nodes[-1].name


def merge_parallel(net: Network) -> Network:
    """Concatenate the weights of branches that read the same input in the same way.

    Where a concatenation puts the branches together again, that is a convolution for several and
    no more: it takes 0.75 to 0.97 times their time. Where others read the branches, they do so in
    slices of the result, in place; that gains up to 5 % if all branches are too narrow to use the
    machine (28 x 28 x 256 to 16, 24 and 16 channels), and loses up to 3 % if one is wide, which
    runs near the peak by itself. Slices that would have to be copied (for a view, the caller, or
    another concatenation) are not worth it.

    rewrite:
        relu(conv2d(x, w) + a), relu(conv2d(x, v) + b)
            ->  y = relu(conv2d(x, concat(w, v)) + concat(a, b)), slices of y
    """
    groups = [g for g in _groups(net) if len(g) > 1 and _pays(net, g)]
    if not groups:
        return net
    first = {branches[0].nodes[0].name: branches for branches in groups}
    gone = {n.name for branches in groups for m in branches for n in m.nodes}
    merged: dict[str, str] = {}  # output of a branch -> its slice of the new network

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        if node.name in first:
            merged.update(_merge(net, b, first[node.name], inputs[0]))
        return merged.get(node.name, "") if node.name in gone else None

    return rewrite(net, rule)


def _groups(net: Network) -> list[list[_Branch]]:
    """Branches that can be merged, in execution order of their first."""
    groups: dict[Hashable, list[_Branch]] = {}
    for node in net.nodes:
        weight = net.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        plain = node.attrs.get("groups", 1) == 1 and node.attrs.get("layout", "NHWC") == "NHWC"
        if node.op not in (*CONVOLUTIONS, "dense") or weight is None or not plain:
            continue
        if "sums" in node.attrs:  # of bytes: what rounds the sums must stay behind them
            continue
        if node.inputs[0] in net.constants:
            continue
        branch = _branch(net, node)
        kinds = tuple((n.op, tuple(sorted(n.attrs.items()))) for n in branch.nodes)
        taps = weight.shape[:-1] if node.op != "dense" else weight.shape[1:]
        groups.setdefault((node.inputs[0], taps, kinds), []).append(branch)
    return list(groups.values())


def _pays(net: Network, branches: Sequence[_Branch]) -> bool:
    outputs = tuple(m.output for m in branches)
    if set(outputs) & set(net.outputs):
        return False
    readers = {r.name: r for value in outputs for r in net.consumers.get(value, ())}
    joined = [r for r in readers.values() if r.op == "concat" and _contains(r.inputs, outputs)]
    if len(joined) == len(readers):
        return True
    others = {r.op for r in readers.values() if r not in joined}
    return max(m.channels for m in branches) < _NARROW and not others & {"reshape", "concat"}


def _contains(values: Sequence[str], run: Sequence[str]) -> bool:
    """Whether ``run`` stands in ``values``, one after another."""
    return any(tuple(values[i : i + len(run)]) == tuple(run) for i in range(len(values)))


def _branch(net: Network, node: Node) -> _Branch:
    channels = known(net.types[node.name].shape[-1])
    nodes = [node]
    while True:
        readers = net.consumers.get(nodes[-1].name, ())
        if len(readers) != 1 or nodes[-1].name in net.outputs:
            break
        reader = readers[0]
        adds = constant_operand(net, reader, "add") is not None
        if not adds and reader.op not in ("relu", "clip"):
            break
        nodes.append(reader)
    return _Branch(tuple(nodes), channels)


def _merge(net: Network, b: Builder, branches: Sequence[_Branch], x: str) -> dict[str, str]:
    """Append the merged nodes; the slice that is each branch's output."""
    value = x
    for link in zip(*(m.nodes for m in branches), strict=True):
        node = link[0]
        operands = [value]
        if len(node.inputs) > 1:
            arrays = [net.constants[n.inputs[1]] for n in link]
            if node.op == "add":
                arrays = [
                    np.broadcast_to(a, (*a.shape[:-1], m.channels))
                    for a, m in zip(arrays, branches, strict=True)
                ]
            axis = 0 if node.op == "dense" else -1
            operands.append(b.constant(np.concatenate(arrays, axis), f"{node.inputs[1]}_merged"))
        value = b.op(node.op, *operands, name=f"{node.name}_merged", **node.attrs)
    shape, begin = b.shape(value), 0
    out = {}
    for m in branches:
        at = (*(0 for _ in shape[1:]), begin)
        size = (*shape[:-1], m.channels)
        name = m.output
        out[name] = b.op("slice", value, name=name, begin=at, size=size, stride=(1,) * len(shape))
        begin += m.channels
    return out
