"""Sketches of extents that a run decides, looked at elsewhere: where other extents are typical.

The code of a row is the same wherever it is looked at, and rules look at no typical extent. So
what they have decided holds there, and only nests are built anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilework.index.symbols import Point
from tilework.space.nests import blocks_of
from tilework.space.protocol import space_of
from tilework.space.sketch import Sketch
from tilework.space.slabs import on_one_core
from tilework.space.state import State
from tilework.te.analysis import AccessAnalysis
from tilework.te.points import Exchange, seen_at


def views_at(sketches: Iterable[Sketch], at: Point) -> list[Sketch]:
    """The sketches of one task as they are where its symbols typically have these values."""
    there = seen_at(at)
    return [_view(sketch, there) for sketch in sketches]


def _view(sketch: Sketch, there: Exchange) -> Sketch:
    slabs, space = sketch.slabs, space_of(sketch.target)
    if slabs is not None:
        whole, counts = there.dag(slabs.whole), tuple(map(there.extent, slabs.counts))
        slabs = replace(slabs, whole=whole, part=there.dag(slabs.part), counts=counts)
    dag = there.dag(sketch.dag)
    plans = {there.stage(op): plan.moved(there.stage) for op, plan in sketch.plans.items()}
    on = on_one_core(sketch.target, slabs)
    state = State(AccessAnalysis(dag), on, space.tiling, plans=plans)
    blocks = blocks_of(state, space.capabilities(on))
    return replace(sketch, blocks=blocks, dag=dag, plans=plans, slabs=slabs)
