"""Loops written out: a body's nodes once for each trip."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.errors import NetworkError
from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.extents import Extent

_MOST = 50_000
"""Nodes that a loop becomes at most."""


def unrolled(net: Network) -> Network:
    """The network without loops whose number of trips is known.

    Raises:
        NetworkError: it would have too many nodes.

    rewrite:
        loop(x, s)  ->  concat(s, f(slice(x), s), f(slice(x), f(slice(x), s)), ...)
    """

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
        known = node.op == "loop" and isinstance(node.attrs["trips"], int)
        return _unrolled(b, node, inputs) if known else None

    return rewrite(net, rule)


def _unrolled(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
    body: Network = node.attrs["body"]
    trips, scanned, carried = (node.attrs[n] for n in ("trips", "scanned", "carried"))
    if trips * len(body.nodes) > _MOST:
        raise NetworkError(
            f"node '{node.name}' has {trips} trips of {len(body.nodes)} nodes; where calls are "
            f"not repeated (on GPUs, in bf16, in ONNX files written here) up to {_MOST} are made"
        )
    constants = {n: b.constant(a, n) for n, a in body.constants.items()}
    names, shapes = list(body.inputs), [t.shape for t in body.inputs.values()]
    states = [list(inputs[scanned : scanned + carried])]
    order = range(trips)
    for trip in reversed(order) if node.attrs["backwards"] else order:
        rows = [
            _rows(b, inputs[i], trip * shapes[i][0], shapes[i], f"{node.name}_{names[i]}")
            for i in range(scanned)
        ]
        given = (*rows, *states[-1], *inputs[scanned + carried :])
        values = constants | dict(zip(names, given, strict=True))
        for one in body.nodes:
            values[one.name] = b.op(
                one.op, *(values[v] for v in one.inputs), name=one.name, **one.attrs
            )
        states.append([values[v] for v in body.outputs])
    if node.attrs["backwards"]:
        states.reverse()
    each = [trip[n] for n in range(carried) for trip in states]
    return b.op("concat", *each, name=node.name, axis=0)


def _rows(b: Builder, value: str, begin: Extent, shape: Sequence[Extent], name: str) -> str:
    rest = (0,) * (len(shape) - 1)
    stride = (1,) * len(shape)
    return b.op("slice", value, name=name, begin=(begin, *rest), size=tuple(shape), stride=stride)
