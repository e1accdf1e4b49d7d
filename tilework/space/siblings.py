"""Sketches that differ in one thing: where one stage is computed, how it is tiled, how it is cut.

Such a difference is a decision like those of a row, but one that changes which columns a row has:
it is made by going from one sketch to another (`Sketch.moved`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

from tilework.space.plan import At, FinishedBy, Fused, Root, StagePlan
from tilework.te.tensor import Compute

PARTIAL = "_rf"
"""What the name of a stage of partial results ends in, after that of their reduction."""


class Formed(Protocol):
    """The part of a sketch that tells how it differs from others."""

    @property
    def form(self) -> str:
        """What its DAG is, in words; only sketches of one form can be siblings."""

    @property
    def stages(self) -> Mapping[str, Hashable]:
        """By name of a stage, what becomes of it; see `stages_of`."""


def stages_of(
    plans: Mapping[Compute, StagePlan], cuts: Mapping[str, str]
) -> dict[str, tuple[Hashable, ...]]:
    """By name of each stage that has a choice of its own, what was chosen.

    A stage that finishes a reduction goes where that goes, and partial results belong to theirs.

    Args:
        plans: what becomes of each stage.
        cuts: how reductions were cut into partial results, by name.
    """
    finished = {p.place.stage: op for op, p in plans.items() if isinstance(p.place, FinishedBy)}
    partial = {name + PARTIAL for name in cuts}
    out: dict[str, tuple[Hashable, ...]] = {}
    for op, plan in plans.items():
        if isinstance(plan.place, Fused | FinishedBy) or op.name in partial:
            continue
        name = finished.get(op, op).name
        out[name] = (_place(plan, plans), plan.sums, plan.write_depth, cuts.get(name, ""))
    return out


def _place(plan: StagePlan, plans: Mapping[Compute, StagePlan]) -> Hashable:
    match plan.place:
        case Root():
            return plan.levels
        case At(reader, depth):
            apart = plans[reader].levels is not None
            return "at", reader.name, depth if apart else 0
    return "inlined"


def siblings(sketches: Sequence[Formed]) -> tuple[tuple[int, ...], ...]:
    """For each sketch the positions of those that are one step away.

    They differ in what becomes of one stage; where no other sketch does, of as few as possible.
    A step can be taken back.
    """
    near: list[set[int]] = [set() for _ in sketches]
    for i, one in enumerate(sketches):
        differences = {
            j: _differing(one.stages, other.stages)
            for j, other in enumerate(sketches)
            if j != i and other.form == one.form
        }
        least = min(differences.values(), default=0)
        for j, count in differences.items():
            if count == least:
                near[i].add(j)
                near[j].add(i)
    return tuple(tuple(sorted(js)) for js in near)


def _differing(one: Mapping[str, Hashable], other: Mapping[str, Hashable]) -> int:
    return sum(one.get(name) != other.get(name) for name in {*one, *other})
