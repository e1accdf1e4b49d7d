"""Concatenations and slices without copies: values that lie inside another value's memory.

before:                                  after:
    a = conv(x)          a               a = conv(x)     writes into z, a row of z apart
    b = conv(y)          b               b = conv(y)     writes into z behind a
    z = concat(a, b)     z               (nothing)

A kernel that reads or writes such a value is generated with the distances between its elements
in the memory that it shares; its schedule is that of its task. What cannot be computed in its
place, because it is an input of the network, or part of another concatenation already, is copied
there. A concatenation of many values that the caller receives is put together elsewhere, and
copied at once: a kernel that joins them asks of each element which part it is of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tilework import te
from tilework.compiler.copies import joined, sliced, surrounded
from tilework.dtypes import dtype_bytes
from tilework.index.extents import size
from tilework.index.slots import Slot, whole
from tilework.index.strides import Strides, row_major
from tilework.index.symbols import range_of

if TYPE_CHECKING:
    from tilework.graph import Plan
    from tilework.graph.operators.base import ValueType
    from tilework.graph.plan import Call

_MANY = 8
"""Parts from which on a kernel that joins them is slower than a copy of the whole."""

_ALIGNMENT = 16
"""Bytes; of the widest vector that a machine accepts at its multiples alone."""


def without_copies(
    plan: Plan, given: Mapping[str, Slot] | None = None
) -> tuple[Plan, dict[str, Slot]]:
    """The plan without calls that need not move anything, and the values that share memory.

    A value stays by itself if the caller of the network supplies or receives it, or if it is known
    under another shape as well.

    Args:
        given: values that share memory already, beside those of the plan.
    """
    room = given or {}
    slots = {**plan.slots, **room}
    outside = {*plan.inputs, *plan.constants, *slots}
    outside |= {plan.views.get(v, v) for v in (*plan.inputs, *plan.outputs)}
    alone = outside | {*plan.views, *plan.views.values(), *(s.root for s in slots.values())}
    computed = {c.output for c in plan.calls}
    instead: dict[str, list[Call]] = {}  # output of a call that is gone -> calls in its place
    wholes: dict[str, ValueType] = {}  # what is put together for the caller
    for call in reversed(plan.calls):
        within = surrounded(call.dag)
        parts = within or joined(call.dag)
        if parts is None or _may_vanish(call, plan):
            continue
        if within and (call.inputs[0] not in computed or call.inputs[0] in {*alone, *slots}):
            continue
        joint = slots.get(call.output) or whole(call.output, plan.values[call.output].shape)
        last = []
        if call.output in outside:
            if len(parts) < _MANY or call.output in slots:
                continue
            kind = plan.values[call.output]
            joint = whole(f"{call.output}:whole", kind.shape)
            wholes[joint.root] = kind
            last = [copy_of(call, joint.root, call.output, kind)]
        instead[call.output] = []
        for n, part in enumerate(parts):
            value = call.inputs[part.argument]
            if value not in computed or value in alone or value in slots:
                copy = copy_of(call, value, f"{call.output}:{n}", plan.values[value])
                instead[call.output].append(copy)
                value = copy.output
            slots[value] = joint.at(part.start)
        instead[call.output] += last
    for call in plan.calls:
        box = sliced(call.dag) if call.output not in {*slots, *alone} else None
        source = call.inputs[0] if call.inputs else ""
        root = plan.views.get(source, source)
        if box is None:
            continue
        # the first positions of what an output continues lie at the beginning of a room
        first = source in room and not any(n != 0 for n in box.start)
        if root in outside and source not in plan.slots and not first:
            continue
        if _may_vanish(call, plan):
            continue
        if box.steps[-1:] > (1,):
            continue  # neighbours in vectors would not be neighbours in memory
        there = slots.get(source) or whole(root, plan.values[source].shape)
        slots[call.output] = there.at(box.start, box.steps)
        instead[call.output] = []
    calls = [c for call in plan.calls for c in instead.get(call.output, [call])]
    values = {**plan.values, **wholes}
    values |= {c.output: values[c.inputs[0]] for cs in instead.values() for c in cs}
    return replace(plan, calls=tuple(calls), values=values), slots


def strides_of(call: Call, slots: dict[str, Slot], plan: Plan) -> dict[int, Strides]:
    """Strides of those of a call's arguments that lie in another value's memory.

    Arguments are inputs, then the output. A dense one is left out if it is aligned as values of
    their own are: machines with aligned vectors ask for that.
    """
    by_number = {}
    for i, value in enumerate((*call.inputs, call.output)):
        if value in slots:
            kind, (_, offset, strides) = plan.values[value], slots[value]
            dense = row_major(kind.shape)
            pairs = zip(kind.shape, strides, dense, strict=True)
            aligned = offset * dtype_bytes(kind.dtype) % _ALIGNMENT == 0
            if not aligned or any(s != d for n, s, d in pairs if range_of(n)[1] > 1):
                by_number[i] = strides
    return by_number


def _may_vanish(call: Call, plan: Plan) -> bool:
    """Whether a value of a call has elements at some points only: its reach is none where not."""
    ends = (range_of(size(plan.values[v].shape)) for v in (*call.inputs, call.output))
    return any(low == 0 < high for low, high in ends)


def copy_of(call: Call, value: str, name: str, kind: ValueType) -> Call:
    """A call that copies ``value``."""
    source = te.placeholder(kind.shape, "p0", kind.dtype)
    target = te.compute(kind.shape, lambda *at: source[at], name="T_copy")
    desc = f"copy {'x'.join(map(str, kind.shape))}"
    return replace(
        call,
        dag=te.ComputeDAG([source, target]),
        inputs=(value,),
        output=name,
        name="copy",
        desc=desc,
        complex=False,
    )
