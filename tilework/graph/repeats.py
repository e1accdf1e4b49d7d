"""From a node that repeats a body to the calls of its body, which a run makes trip by trip.

All states that a body hands on lie in the result of its node, one trip's below the other's. A
call reads a state where the trip before has left it and writes the new one beside it: nothing is
copied, and each trip calls the same kernels, whose arguments lie as far from those of the trip
before as a trip has rows.

    result   s  s  s  s  s        trip 1 reads the second and writes the third
                r1 w1
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tilework.graph.declare import declare_nodes
from tilework.graph.ir import Network, Node
from tilework.graph.operators.base import ValueType
from tilework.graph.planned import Call, Plan, Repeat
from tilework.index.extents import Extent, shape_text, size
from tilework.index.slots import Slot
from tilework.index.strides import row_major
from tilework.index.symbols import range_of, symbol


class Repeated(NamedTuple):
    """What takes the place of nodes, as `Plan` has it."""

    calls: list[Call]
    values: dict[str, ValueType]
    constants: dict[str, np.ndarray]
    views: dict[str, str]
    slots: dict[str, Slot]

    def add(self, other: Repeated) -> None:
        """Append what takes another node's place."""
        self.calls.extend(other.calls)
        self.values.update(other.values)
        self.constants.update(other.constants)
        self.views.update(other.views)
        self.slots.update(other.slots)


def body_of(node: Node, constants: Mapping[str, np.ndarray]) -> Network:
    """The network of a trip, in which inputs that are constants are such."""
    body: Network = node.attrs["body"]
    given = dict(zip(body.inputs, node.inputs, strict=True))
    first = node.attrs["scanned"] + node.attrs["carried"]
    fixed = [v for v in list(given)[first:] if given[v] in constants]
    return replace(
        body,
        inputs={n: t for n, t in body.inputs.items() if n not in fixed},
        constants={**body.constants, **{n: constants[given[n]] for n in fixed}},
    )


def repeated(
    node: Node,
    types: Mapping[str, ValueType],
    views: Mapping[str, str],
    body: Plan,
    outside: Container[str],
) -> Repeated:
    """The calls of a node.

    Args:
        node: the node.
        types: of all values around it.
        views: those of them that are others' in another shape.
        body: the plan of `body_of`.
        outside: what the caller of the network or its constants hold.
    """
    trips = node.attrs["trips"]
    out = Repeated([], {}, {f"{node.name}/{n}": a for n, a in body.constants.items()}, {}, {})
    for n, value in enumerate(_states(node)):
        start = f"{node.name}/start{n}"
        out.calls.append(copy_call(value, start, types[value]))
        out.values[start] = types[value]
        first = trips if node.attrs["backwards"] else 0
        out.slots[start] = _state(node, types[value], n, first)
    scanned = []
    for n, value in enumerate(node.inputs[: node.attrs["scanned"]]):
        root = views.get(value, value)
        if root in outside:
            root = f"{node.name}/scanned{n}"
            out.calls.append(copy_call(value, root, types[value]))
            out.values[root] = types[value]
        scanned.append(root)
    _add_body(out, node, types, views, body, scanned)
    return out


def _add_body(
    out: Repeated,
    node: Node,
    types: Mapping[str, ValueType],
    views: Mapping[str, str],
    body: Plan,
    scanned: list[str],
) -> None:
    """Append the calls of a trip, which read their rows of what is scanned."""
    trips, back, carried = (node.attrs[n] for n in ("trips", "backwards", "carried"))
    trip = symbol(f"trip of {node.name}", 0, range_of(trips)[1] - 1)
    before, after = (trips - trip, trips - 1 - trip) if back else (trip, trip + 1)
    repeat = Repeat(trips, trip)
    inputs = list(node.attrs["body"].inputs)
    given = dict(zip(inputs, node.inputs, strict=True))
    states = inputs[len(scanned) : len(scanned) + carried]
    slots: dict[str, Slot] = {}
    for name, root in zip(inputs, scanned, strict=False):
        rows = size(node.attrs["body"].inputs[name].shape)
        slots[name] = Slot(root, (trips - 1 - trip if back else trip) * rows, ())
    for n, name in enumerate(states):
        kind = types[given[name]]
        slots[name] = _state(node, kind, n, before)
        slots[body.views.get(body.outputs[n], body.outputs[n])] = _state(node, kind, n, after)
    slots |= {v: slots[source] for v, source in body.views.items() if source in slots}

    def named(value: str) -> str:
        outer = value in given and value not in slots and value not in body.constants
        return given[value] if outer else f"{node.name}/{value}"

    for value, kind in body.values.items():
        name = named(value)
        if name != given.get(value):
            out.values[name] = kind
        if value in slots:
            out.slots[name] = slots[value]._replace(strides=row_major(kind.shape))
        elif value in body.views:
            root = named(body.views[value])
            out.views[name] = views.get(root, root)
    out.calls.extend(
        replace(c, inputs=tuple(map(named, c.inputs)), output=named(c.output), repeat=repeat)
        for c in body.calls
    )


def _states(node: Node) -> tuple[str, ...]:
    """What the states are before the first trip."""
    first = node.attrs["scanned"]
    return node.inputs[first : first + node.attrs["carried"]]


def _state(node: Node, kind: ValueType, number: int, trips: Extent) -> Slot:
    """Where a state lies after so many trips, or where it goes backwards with so many to go."""
    rows = number * (node.attrs["trips"] + 1) + trips
    return Slot(node.name, rows * size(kind.shape), row_major(kind.shape))


def copy_call(value: str, name: str, kind: ValueType) -> Call:
    """The call that copies a value to another one."""
    node = Node("identity", (value,), name)
    dag, inputs = declare_nodes([node], {value: kind}, frozenset(), kind.dtype)
    return Call(dag, inputs, name, "copy", f"copy {shape_text(kind.shape)}", False)
