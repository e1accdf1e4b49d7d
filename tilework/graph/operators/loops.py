"""What is computed again and again, each time from what the time before has left.

    loop(scanned..., states..., others...; body, trips, scanned, carried, backwards)

``body`` is a network of one trip. Its inputs are a trip's rows of each *scanned* value, which is
as many trips long, the *carried* states [R, W], and the others, which are the same at each trip;
its outputs are the new states. The result holds all states one below the other, each from before
the first trip to after the last: [carried * (trips + 1) * R, W]. Where it goes backwards, the
first trip reads the last rows of what is scanned, and a state begins in its last rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.operators.base import Attrs, Operator, Pattern, ValueType


def _loop(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    body, trips, scanned, carried = (attrs[n] for n in ("body", "trips", "scanned", "carried"))
    wanted = [
        ValueType((trips * t.shape[0], *t.shape[1:]), t.dtype) if i < scanned else t
        for i, t in enumerate(body.inputs.values())
    ]
    if [tuple(t) for t in types] != [tuple(t) for t in wanted]:
        raise ValueError(f"its body takes {[*map(str, wanted)]}, and not {[*map(str, types)]}")
    states = list(types[scanned : scanned + carried])
    new = [body.types[v] for v in body.outputs]
    if new != states or len(set(states)) != 1 or len(states[0].shape) != 2:
        raise ValueError(f"states {[*map(str, states)]} become {[*map(str, new)]}")
    if len(set(body.outputs)) != carried:
        raise ValueError("two states are the same value")
    (rows, width), dtype = states[0]
    return ValueType((carried * (trips + 1) * rows, width), dtype)


OPERATORS = (Operator("loop", _loop, None, Pattern.OPAQUE),)
