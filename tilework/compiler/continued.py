"""Outputs that continue an input in its memory: caches of decoders, which grow in place.

before:                                  after:
    new = f(x)           new                 new = f(x)       writes behind past, in its buffer
    present = concat(past, new)  present     (nothing)        past and what lies behind it
    y = g(present)       y                   y = g(present)   reads the buffer

The caller's buffer has *room* for the longest present of the ranges, so that its rows lie as far
apart at every point: strides are numbers, and nothing moves when a run adds positions.

A past of fixed length is such a buffer itself: some of its rows are replaced, where data say, by a
call that writes these and no others (`tilework.lower.register_tiles.rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tilework.compiler.copies import joined
from tilework.compiler.slots import copy_of
from tilework.errors import NetworkError
from tilework.index.extents import Extent, most, size
from tilework.index.slots import Slot, whole
from tilework.index.strides import viewed
from tilework.index.symbols import Symbolic, range_of
from tilework.te import ComputeDAG, Tensor
from tilework.te.tensor import make_compute
from tilework.te.written import IN_PLACE, WRITTEN

if TYPE_CHECKING:
    from tilework.graph import Plan
    from tilework.graph.plan import Call

Shape = tuple[Extent, ...]


class Continued(NamedTuple):
    """What shares a buffer of the caller's.

    Attributes:
        slots: where these values lie.
        rooms: by input, in which dimension positions follow each other, and for how many there is
            room.
    """

    slots: Mapping[str, Slot]
    rooms: Mapping[str, tuple[int, Extent]]


NONE = Continued({}, {})


def continued(plan: Plan, rows: bool = True) -> tuple[Plan, Continued]:
    """A plan without the concatenations by which outputs continue inputs.

    Args:
        rows: whether the machine has programs that write some rows of an input.

    Raises:
        NetworkError: there is no such output, or one that its readers need in another order.
    """
    slots: dict[str, Slot] = {}
    rooms: dict[str, tuple[int, Extent]] = {}
    grown: list[tuple[str, str]] = []
    calls: list[Call] = []
    values = dict(plan.values)
    own = {c.output for c in plan.calls} - {*plan.outputs, *plan.views, *plan.views.values()}
    for call in plan.calls:
        axis = _grown(call, plan)
        if axis is None or call.inputs[0] in rooms:
            calls.append(call)
            continue
        past, new = call.inputs
        shape, longest = plan.values[past].shape, most(plan.values[call.output].shape[axis])
        rooms[past] = axis, longest
        grown.append((past, str(plan.values[new].shape[axis])))
        room = whole(past, (*shape[:axis], longest, *shape[axis + 1 :]))
        if new not in own or new in slots:
            calls.append(copy_of(call, new, f"{call.output}:new", plan.values[new]))
            new = calls[-1].output
            values[new] = plan.values[call.inputs[1]]
        behind = room.at([n if d == axis else 0 for d, n in enumerate(shape)])
        slots |= {past: room, new: behind, call.output: room}
        slots |= {v: room._replace(strides=s) for v, s in _views(call.output, room, plan)}
    if len({new for _, new in grown}) > 1:
        raise NetworkError(
            f"{plan.name} continues inputs by different numbers of positions: "
            + ", ".join(f"{past} by {new}" for past, new in grown)
        )
    if rows and not rooms:
        calls = _in_place(plan, slots, rooms)
    if not rooms:
        raise NetworkError(
            f"{plan.name} has no output that continues an input: an input, and new positions "
            "behind it along an extent that has a range, in the type of the input; or an input of "
            "which some positions are replaced"
        )
    return replace(plan, calls=tuple(calls), values=values), Continued(slots, rooms)


def _in_place(
    plan: Plan, slots: dict[str, Slot], rooms: dict[str, tuple[int, Extent]]
) -> list[Call]:
    """The calls, of which those that replace rows of an input do so in its memory.

    Whoever reads the input as it was comes before.

    Args:
        slots, rooms: get what shares memory.
    """
    calls = list(plan.calls)
    for call in plan.calls:
        ops, past = call.dag.compute_ops, call.inputs[0] if call.inputs else ""
        if len(ops) != 1 or WRITTEN not in ops[0].attrs or past not in plan.inputs:
            continue
        if past in rooms:  # another output has its memory
            continue
        at, behind = calls.index(call), _last_reader(plan, calls, past)
        early = {plan.views.get(v, v) for c in calls[at + 1 : behind + 1] for v in c.inputs}
        returned = past in (plan.views.get(v, v) for v in plan.outputs)
        if call.output in early or returned or not _alone(plan, call.output):
            continue
        (op,), shape = ops, plan.values[past].shape
        slots[call.output] = whole(past, shape)
        rooms[past] = op.attrs[WRITTEN], shape[op.attrs[WRITTEN]]
        written = Tensor(make_compute(op.name, op.axes, op.body, {**op.attrs, IN_PLACE: True}))
        dag = ComputeDAG([*call.dag.inputs, written])
        calls.insert(behind + 1, replace(call, dag=dag))
        del calls[at]
    return calls


def _last_reader(plan: Plan, calls: Sequence[Call], value: str) -> int:
    """The number of the last call that reads a value, or of the last one repeated with it."""
    last = max(i for i, c in enumerate(calls) if value in (plan.views.get(v, v) for v in c.inputs))
    repeat = calls[last].repeat
    while repeat is not None and last + 1 < len(calls) and calls[last + 1].repeat is repeat:
        last += 1
    return last


def _alone(plan: Plan, value: str) -> bool:
    """Whether a value is an output of the network, and no other output is a view of it."""
    return [v for v in plan.outputs if plan.views.get(v, v) == value] == [value]


def _grown(call: Call, plan: Plan) -> int | None:
    """Along which dimension a call continues an input of the network; None if it does not.

    The call's output is one of the network, and a run decides how long the input is.
    """
    parts = joined(call.dag)
    if parts is None or [p.argument for p in parts] != [0, 1]:
        return None
    past, new = call.inputs
    known = {*plan.outputs, *plan.views.values()}
    if past not in plan.inputs or past in known or not _alone(plan, call.output):
        return None
    if range_of(size(plan.values[new].shape))[0] < 1:
        return None
    open_ = [d for d, n in enumerate(parts[1].start) if isinstance(n, Symbolic)]
    return open_[0] if open_ else None


def _views(name: str, room: Slot, plan: Plan) -> Iterator[tuple[str, Shape]]:
    """Strides of what knows a value under another shape.

    Raises:
        NetworkError: its elements do not lie so in a buffer with room.
    """
    shape = plan.values[name].shape
    for view in (v for v, root in plan.views.items() if root == name):
        strides = viewed(shape, room.strides, plan.values[view].shape)
        if strides is None:
            raise NetworkError(
                f"{plan.name} cannot continue {room.root} in its memory: {name} of "
                f"{list(map(str, shape))} is read as {list(map(str, plan.values[view].shape))}, "
                "and its positions lie apart there"
            )
        yield view, strides
