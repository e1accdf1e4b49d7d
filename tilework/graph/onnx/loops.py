"""Loops of few trips, known when a file is read: their bodies one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilework.graph.onnx.branches import Visitor, constants_of, visit_body
from tilework.graph.onnx.budget import MOST_NODES, MOST_TRIPS
from tilework.graph.onnx.context import Unsupported, attributes, optional
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.protos import GraphProto, NodeProto, numpy_type
from tilework.graph.onnx.scopes import Meaning, Scopes
from tilework.graph.onnx.sequences import entry, joined
from tilework.index.extents import known


def _check_size(trips: int, graph: GraphProto) -> None:
    if trips > MOST_TRIPS or trips * len(graph.node) > MOST_NODES:
        raise Unsupported(
            f"a loop of {trips} trips of {len(graph.node)} nodes; up to {MOST_TRIPS} trips that "
            f"make {MOST_NODES} nodes together are unrolled"
        )


def _truth(array: object) -> bool:
    if not isinstance(array, np.ndarray) or array.size != 1:
        raise Unsupported("after how many trips it ends depends on data")
    return bool(array.item())


def _loop(c: Scopes, node: NodeProto) -> None:
    """The body once for each trip, until there are enough or its condition is false.

    Raises:
        Unsupported: the number of trips is not known, or is too large.
    """
    graph = attributes(node)["body"]
    most = MOST_TRIPS + 1
    if optional(node, 0):
        most = int(c.array(node.input[0], "the number of trips").item())
    condition = c.array(node.input[1], "its condition") if optional(node, 1) else np.asarray(True)
    if _truth(condition) and _hands_on(graph):
        _check_size(most, graph)

    def going(trip: int, state: Sequence[Meaning]) -> bool:
        return trip < most and _truth(state[0])

    def inputs(trip: int, state: Sequence[Meaning]) -> list[Meaning]:
        return [np.asarray(trip, np.int64), *state]

    state = [condition, *(c.meaning(i) for i in node.input[2:])]
    results = _unrolled(c, graph, state, inputs, going)
    if results is None:
        c.assign(node, [])
        return
    (_, *carried), scanned = results
    outputs = graph.output[len(state) :]
    stacks = [_stacked(c, trips, 0, out) for trips, out in zip(scanned, outputs, strict=True)]
    c.assign(node, [*carried, *stacks])


def _hands_on(graph: GraphProto) -> bool:
    """Whether a loop's body hands its condition on, so that there is nothing to end it."""
    name = graph.output[0].name
    sources = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Identity"}
    while name in sources:
        name = sources.pop(name)
    return bool(name == graph.input[1].name)


def _scan(c: Scopes, node: NodeProto) -> None:
    """The body once for each entry of the tensors that are gone through."""
    a = attributes(node)
    if c.opset < 9:
        raise Unsupported("in operator set 8 it goes through batches; export it with a newer one")
    graph, count = a["body"], int(a["num_scan_inputs"])
    split = len(node.input) - count
    read = list(node.input[split:])
    axes = [
        normal(d, c.rank(name))
        for d, name in zip(a.get("scan_input_axes", [0] * count), read, strict=True)
    ]
    extents = {known(c.shape(name)[d]) for d, name in zip(axes, read, strict=True)}
    if len(extents) != 1:
        raise Unsupported(f"it goes through tensors of different lengths: {sorted(extents)}")
    (trips,) = extents
    _check_size(trips, graph)
    backwards = a.get("scan_input_directions", [0] * count)

    def inputs(trip: int, state: Sequence[Meaning]) -> list[Meaning]:
        entries = (
            entry(c, name, d, trips - 1 - trip if back else trip, node.output[0])
            for name, d, back in zip(read, axes, backwards, strict=True)
        )
        return [*state, *entries]

    state = [c.meaning(i) for i in node.input[:split]]
    results = _unrolled(c, graph, state, inputs, lambda trip, _: trip < trips)
    if results is None:
        c.assign(node, [])
        return
    carried, scanned = results
    outputs = graph.output[split:]
    places = a.get("scan_output_axes", [0] * len(outputs))
    reverse = a.get("scan_output_directions", [0] * len(outputs))
    stacks = [
        _stacked(c, stack[::-1] if back else stack, d, out)
        for stack, d, back, out in zip(scanned, places, reverse, outputs, strict=True)
    ]
    c.assign(node, [*carried, *stacks])


def _unrolled(
    c: Scopes,
    graph: GraphProto,
    state: list[Meaning],
    inputs: Callable[[int, Sequence[Meaning]], list[Meaning]],
    going: Callable[[int, Sequence[Meaning]], bool],
) -> tuple[list[Meaning], list[list[Meaning]]] | None:
    """Visit a body as often as there is to go.

    Args:
        state: what a trip hands to the next one, as the first outputs of the body.
        inputs: of the body, by the trip's number and the state.
        going: whether there is another trip, by its number and the state.

    Returns:
        The last state, and of each further output what each trip gave; None if any of it depends
        on a problem.
    """
    scanned: list[list[Meaning]] = [[] for _ in graph.output[len(state) :]]
    trip = 0
    with constants_of(c, graph):
        while going(trip, state):
            _check_size(trip + 1, graph)
            arrays = inputs(trip, state)
            if len(arrays) != len(graph.input):
                raise Unsupported(
                    f"its body takes {len(graph.input)} inputs, and {len(arrays)} are given"
                )
            names = (i.name for i in graph.input)
            results = visit_body(c, graph, dict(zip(names, arrays, strict=True)))
            known = [f for f in results if f is not None]
            if len(known) < len(results):
                return None
            state = known[: len(state)]
            for stack, one in zip(scanned, known[len(state) :], strict=True):
                stack.append(one)
            trip += 1
    return state, scanned


def _stacked(c: Scopes, items: Sequence[Meaning], axis: int, declared: Any) -> Meaning:
    """What the trips gave one after another, along a new dimension."""
    if items:
        return joined(c, items, axis, True, declared.name)
    kind = declared.type.tensor_type
    shape = [d.dim_value for d in kind.shape.dim]
    if not kind.HasField("shape") or not all(d.HasField("dim_value") for d in kind.shape.dim):
        raise Unsupported("it makes no trip, and the shape of what it gives is not declared")
    shape.insert(axis, 0)
    return np.empty(shape, numpy_type(kind.elem_type))


VISITORS: dict[str, Visitor] = {"Loop": _loop, "Scan": _scan}
