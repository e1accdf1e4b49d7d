"""Row chains: reductions of rows and what is made of them, such as softmax and norms.

    top[i]  = max over k of x[i, k]
    e[i, k] = exp(x[i, k] - top[i])
    sum[i]  = sum over k of e[i, k]
    y[i, k] = e[i, k] / sum[i]                     the anchor

All stages share their *rows*, the axes that no stage reduces, and their *columns*, the axes that
each reduction covers wholly. So one kernel can hold a row in the registers of neighbouring threads
from the first stage to the last. The axes of the anchor name the rows and columns; where it has no
columns, the reduce axes of the last reduction do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache

import numpy as np

from tilework.frozen import frozen
from tilework.space.blocks import Block
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis, Const, Expr, Read, Reduce, reads
from tilework.te.tensor import Compute, Operation

MOST_HELD = 96
"""Elements of a row that a thread may hold in registers, over all arrays that are held."""
ROW_LANES = 512
"""Threads that can hold as many elements each in what registers there are for a block."""
OTHER_REGISTERS = 24
"""Of a thread, beside elements of its row."""

Place = tuple[Axis | None, ...]
"""By dimension, the row or column that its index is; None for a dimension of one element."""


@frozen(eq=False)
class RowChain:
    """A row chain.

    Attributes:
        stages: producers before their readers; the anchor is the last.
        bodies: what each computes.
        places: of each stage's own axes and reduce axes: the row or column that it is.
        rows, columns: axes, outermost first; those of one element are left out.
    """

    stages: tuple[Compute, ...]
    bodies: Mapping[Compute, Expr]
    places: Mapping[Compute, Mapping[Axis, Axis | None]]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]

    @property
    def anchor(self) -> Compute:
        """The stage whose result is stored."""
        return self.stages[-1]

    @property
    def terms(self) -> int:
        """Elements of a row."""
        return math.prod(a.points for a in self.columns)

    @property
    def count(self) -> int:
        """Number of rows."""
        return math.prod(a.points for a in self.rows)

    @property
    def reductions(self) -> tuple[Compute, ...]:
        """The stages that reduce rows, in order."""
        return tuple(s for s in self.stages if s.reduce_axes)

    def wide(self, stage: Compute) -> bool:
        """Whether a stage has an element for each column, and not one for each row."""
        return any(self.places[stage][a] in self.columns for a in stage.axes)

    def place(self, reader: Compute, read: Read) -> Place | None:
        """The rows and columns that a stage reads at; None where indices are anything else."""
        return _place(self.places[reader], read)

    def held(self) -> tuple[tuple[Operation, Place], ...]:
        """What threads hold of a row: what several loops over the columns read.

        Stages by themselves, and elements of memory that are read at the same place.
        """
        return tuple(self._uses)

    @cached_property
    def live(self) -> int:
        """Most arrays of a row that are held from one loop over the columns to the next."""
        number = {stage: i for i, stage in enumerate(self.stages)}
        spans = [
            (number.get(op, -1) if isinstance(op, Compute) else -1, max(number[s] for s in loops))
            for (op, _), loops in self._uses.items()
        ]
        between = range(-1, len(self.stages))
        return max((sum(i <= n < j for i, j in spans) for n in between), default=0)

    @cached_property
    def _uses(self) -> dict[tuple[Operation, Place], set[Compute]]:
        """By what is held: the stages whose loops read it."""
        seen: dict[tuple[Operation, Place], set[Compute]] = {}
        for stage in self.stages:
            for read in dict.fromkeys(reads(self.bodies[stage])):
                at = self.place(stage, read)
                if at is None or not any(a in self.columns for a in at):
                    continue
                inside = all(
                    a is None or a.points <= n for a, n in zip(at, read.tensor.shape, strict=True)
                )
                if inside:
                    seen.setdefault((read.tensor.op, at), set()).update(self._loops(stage))
        return {key: loops for key, loops in seen.items() if len(loops) > 1}

    def _loops(self, stage: Compute) -> set[Compute]:
        """The stages whose loops over columns evaluate ``stage``: itself if it has one."""
        if stage.reduce_axes or stage is self.anchor:
            return {stage}
        if not self.wide(stage):
            return {stage}
        readers = [
            s for s in self.stages if any(r.tensor.op is stage for r in reads(self.bodies[s]))
        ]
        loops = {loop for s in readers for loop in self._loops(s)}
        return loops if len(loops) <= 1 else {stage}


def find(
    anchor: Compute,
    producers: Iterable[Compute],
    body: Callable[[Compute], Expr],
    joins: Callable[[Compute, frozenset[Compute]], bool],
) -> RowChain | None:
    """The row chain that ends in a stage; None if it ends in none.

    Args:
        anchor: the last stage.
        producers: stages before it, readers before what they read.
        body: what a stage computes.
        joins: whether a stage may be one of the chain, whose stages so far are given: nobody else
            reads it.
    """
    rows = [a for a in anchor.axes if a.points > 1]
    columns: list[Axis] | None = None
    places: dict[Compute, dict[Axis, Axis | None]] = {}
    places[anchor] = {a: a if a.points > 1 else None for a in anchor.axes}
    joined = [anchor]
    if isinstance(body(anchor), Reduce):
        columns = [a for a in anchor.reduce_axes if a.points > 1]
        places[anchor] |= {a: a if a.points > 1 else None for a in anchor.reduce_axes}
    for op in producers:
        if not joins(op, frozenset(joined)):
            continue
        at = {_place(places[s], r) for s in joined for r in reads(body(s)) if r.tensor.op is op}
        place = at.pop() if len(at) == 1 else None
        if place is None:
            continue
        own = dict(zip(op.axes, place, strict=True))
        if op.reduce_axes:
            terms = [a for a in op.reduce_axes if a.points > 1]
            kept = [a for a in rows if a in place]
            fresh = [a for a in rows if a not in place] or terms
            known = fresh if columns is None else columns
            same = [a.points for a in terms] == [a.points for a in known]
            outside = any(a in known for a in place if a is not None)
            if not same or outside or (columns is not None and kept != rows):
                continue
            rows, columns = kept, known
            own |= {a: None for a in op.reduce_axes}
            own |= dict(zip(terms, columns, strict=True))
        places[op] = own
        joined.append(op)
    bodies = {s: body(s) for s in joined}
    if not columns:
        return None
    stages = tuple(reversed(joined))
    chain = RowChain(stages, bodies, places, tuple(rows), tuple(columns))
    count = len(chain.reductions)
    return chain if count >= 2 or (count == 1 and chain.wide(anchor)) else None


def _place(places: Mapping[Axis, Axis | None], read: Read) -> Place | None:
    out: list[Axis | None] = []
    for index, size in zip(read.indices, read.tensor.shape, strict=True):
        if isinstance(index, Axis) and index in places:
            out.append(places[index])
        elif isinstance(index, Const) and index.value == 0 and size == 1:
            out.append(None)
        else:
            return None
    return tuple(out)


@lru_cache(maxsize=256)
def chain_of(block: Block) -> RowChain:
    """The chain that a block of the form "rows" computes."""
    bodies: dict[Compute, Expr] = {block.op: block.body}
    for a in block.attached:
        bodies[a.op] = a.body if a.block is None else a.block.body
    producers = [a.op for a in reversed(block.attached)]
    chain = find(block.op, producers, bodies.__getitem__, lambda op, stages: True)
    assert chain is not None
    return chain


def per_thread(nest: BlockNest) -> Ints:
    """Elements of a row that each of its threads has, padded to whole vectors."""
    chain = chain_of(nest.block)
    step = nest.values["lanes"] * width(nest)
    return -(-chain.terms // step) * width(nest)


def width(nest: BlockNest) -> Ints:
    """Neighbouring columns that a thread takes at once: as many as a vector access brings."""
    chain = chain_of(nest.block)
    last = chain.columns[-1].points
    out = np.ones(nest.count, np.int64)
    for lanes in (2, 4):
        if last % lanes == 0:
            out = np.where(chain.terms >= nest.values["lanes"] * lanes, lanes, out)
    return out


def held_registers(nest: BlockNest) -> Ints:
    """Registers of a thread that hold elements of its row."""
    return per_thread(nest) * max(chain_of(nest.block).live, 1)
