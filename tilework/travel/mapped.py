"""Rows of one sketch as rows of another: for another machine, or of another workload.

A row is handed over decision by decision. What a machine's size decides is scaled: of tiles that
live in registers the number of vectors stays, and their pixels follow the number of registers;
tiles that live in caches follow these. Every decision then takes the nearest of its choices, and
where the whole row is not valid, or another machine may want it otherwise, its next choices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model.draft import draft_of
from tilework.space.blocks import Block
from tilework.space.decision import Decision, Rows
from tilework.space.distinct import distinct
from tilework.space.draws import Inner
from tilework.space.levels import Role
from tilework.space.sketch import Sketch
from tilework.target import Target
from tilework.te.expr import Axis
from tilework.travel.structure import Pair, gap, pairs

Floats = NDArray[np.float64]

_REGISTERS = (Role.vector, Role.register)
_INNERMOST = 2.0
"""Weight of a register tile's size beside those of the tiles around it."""
_NEAREST = 4
"""Choices of a decision that are tried beside the nearest of each of so many innermost tiles."""
_TRIES = 160
_MORE_TRIES = 1024
_UNKNOWN = 0.25
"""Cost of any choice of a decision that the source does not have, beside its first one's 0."""


@frozen
class Reach:
    """What of a machine scales tiles: lanes of a vector, vector registers, caches, threads.

    What a kind of machine does not tell is 1, so that nothing is scaled by it.
    """

    lanes: float
    registers: float
    l1_bytes: float
    l2_bytes: float
    threads: float

    @staticmethod
    def of(target: Target) -> Reach:
        """As the draft model of the target's kind describes it."""
        known = draft_of(target).machine(target)
        return Reach(
            float(target.lanes()),
            known.get("registers", 1.0),
            known.get("l1_bytes", 1.0),
            known.get("l2_bytes", 1.0),
            float(target.num_cores),
        )


@frozen(eq=False)
class Mapped:
    """Rows of the target sketch.

    Attributes:
        rows: valid ones, Q x D.
        origin: which of the source's rows each comes from, ascending.
        cost: how far each is from what the source's row asks for; ascending within an origin.
    """

    rows: Rows
    origin: NDArray[np.intp]
    cost: Floats


def alternatives(
    source: Sketch,
    target: Sketch,
    rows: Rows,
    most: int,
    rng: np.random.Generator | None = None,
) -> Mapped:
    """Up to ``most`` valid rows of ``target`` for each row of ``source``, the nearest first.

    A row with no valid counterpart near it is left out. Between equal sketches of one target rows
    are mapped to themselves.

    Args:
        source: the sketch that the rows belong to.
        target: of the same or another workload, for the same or another machine.
        rows: P x D of ``source``.
        most: rows of ``target`` for each.
        rng: draws what is tried beside the nearest choices; always the same if None.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    rows = source.check(rows) if len(rows) else np.empty((0, source.num_decisions), np.int32)
    empty = Mapped(
        np.empty((0, target.num_decisions), np.int32), np.empty(0, np.intp), np.empty(0)
    )
    if not len(rows) or gap(source, target) == np.inf:
        return empty
    matched = pairs(source, target)
    wanted = _wanted(source, target, matched, rows)
    near = [_nearest(pair, want, len(rows)) for pair, want in zip(matched, wanted, strict=True)]
    parts, left = [], np.arange(len(rows))
    for tries in (_TRIES, _MORE_TRIES):
        combined = _combined(target, near, left, tries, most, rng)
        parts.append(combined)
        missing = np.ones(len(rows), bool)
        missing[combined.origin] = False
        left = left[missing[left]]
        if not len(left):
            break
    joined = Mapped(
        np.concatenate([p.rows for p in parts]),
        np.concatenate([p.origin for p in parts]),
        np.concatenate([p.cost for p in parts]),
    )
    order = np.lexsort((joined.cost, joined.origin))
    return Mapped(joined.rows[order], joined.origin[order], joined.cost[order])


@frozen(eq=False)
class _Near:
    """Of one decision: K choices for each of P rows, the nearest first, and how far they are."""

    decision: Decision
    choice: NDArray[np.intp]
    cost: Floats


def _combined(
    target: Sketch,
    near: list[_Near],
    which: NDArray[np.intp],
    tries: int,
    most: int,
    rng: np.random.Generator,
) -> Mapped:
    """The valid rows among combinations of near choices, at most ``most`` of each row."""
    ranks = _ranks(near, tries, rng)
    count = len(ranks)
    rows = np.empty((len(which), count, target.num_decisions), np.int32)
    cost = np.zeros((len(which), count))
    for i, one in enumerate(near):
        at = np.minimum(ranks[:, i], one.choice.shape[1] - 1)
        rows[:, :, one.decision.columns] = one.decision.choices[one.choice[which][:, at]]
        cost += one.cost[which][:, at]
    flat, spent = rows.reshape(-1, target.num_decisions), cost.reshape(-1)
    origin = np.repeat(which, count)
    fine = np.flatnonzero(target.valid(flat))
    order = fine[np.lexsort((fine, spent[fine], origin[fine]))]
    order = order[_first_of_each(np.column_stack([origin[order], flat[order]]))]
    begins = np.searchsorted(origin[order], origin[order], side="left")
    order = order[np.arange(len(order)) - begins < most]
    return Mapped(flat[order], origin[order], spent[order])


def _first_of_each(rows: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each row that differs from those before it stands, in order."""
    classes = distinct(rows.T) if len(rows) else None
    if classes is None:
        return np.sort(np.unique(rows, axis=0, return_index=True)[1])
    some, which = classes
    first = np.empty(len(some), np.intp)
    first[which[::-1]] = np.arange(len(rows))[::-1]
    return np.sort(first)


def _ranks(near: list[_Near], tries: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Which of its near choices each decision takes: the nearest, one other, then several."""
    sizes = np.array([one.choice.shape[1] for one in near])
    single = [np.zeros((1, len(near)), np.intp)]
    for i, size in enumerate(sizes):
        part = np.zeros((size - 1, len(near)), np.intp)
        part[:, i] = np.arange(1, size)
        single.append(part)
    drawn = rng.geometric(0.35, size=(tries, len(near))) - 1
    drawn *= rng.random((tries, len(near))) < 0.5
    return np.concatenate([*single, np.minimum(drawn, sizes - 1)])


def _nearest(pair: Pair, wanted: Floats | None, count: int) -> _Near:
    """The choices that are nearest to what is wanted, by logarithms."""
    choices = pair.target.choices
    if wanted is None:
        some = np.linspace(0, len(choices) - 1, 2 * _NEAREST).astype(np.intp)
        some = some[np.diff(some, prepend=-1) > 0]
        cost = np.where(some == 0, 0.0, _UNKNOWN)
        return _Near(pair.target, np.tile(some, (count, 1)), np.tile(cost, (count, 1)))
    have = _logs(_spans(choices, pair.target.axis))
    weight = np.ones(have.shape[1])
    weight[-1] = _INNERMOST
    far = np.zeros((count, len(choices)))
    for column in range(have.shape[1]):
        far += weight[column] * np.abs(wanted[:, column : column + 1] - have[None, :, column])
    few = min(_NEAREST, len(choices))
    picks = [np.argsort(far, axis=1, kind="stable")[:, :few]]
    inner = Inner.of(choices)
    if 1 < len(inner.sizes) < len(choices):
        grouped = far[:, inner.order]
        least = np.minimum.reduceat(grouped, inner.first, axis=1)
        same = grouped == np.repeat(least, inner.count, axis=1)
        at = np.where(same, np.arange(len(choices)), len(choices))
        best = inner.order[np.minimum.reduceat(at, inner.first, axis=1)]
        order = np.argsort(least, axis=1, kind="stable")[:, :few]
        picks.append(np.take_along_axis(best, order, axis=1))
    chosen = np.concatenate(picks, axis=1)
    cost = np.take_along_axis(far, chosen, axis=1)
    order = np.argsort(cost, axis=1, kind="stable")
    return _Near(
        pair.target,
        np.take_along_axis(chosen, order, axis=1),
        np.take_along_axis(cost, order, axis=1),
    )


def _spans(choices: Rows, axis: Axis | None) -> Floats:
    """Choices as sizes: of a tile what each level and all inside it cover."""
    if axis is None:
        return choices.astype(np.float64)
    spans = np.cumprod(choices[:, ::-1], axis=1, dtype=np.float64)
    return spans[:, ::-1]


def _logs(values: Floats) -> Floats:
    return np.asarray(np.log2(np.maximum(values, 0) + 1e-3 * (values <= 0)))


def _wanted(
    source: Sketch, target: Sketch, matched: list[Pair], rows: Rows
) -> list[Floats | None]:
    """What each decision of the target should be, as logarithms of sizes; None: anything."""
    here, there = Reach.of(target.target), Reach.of(source.target)
    out: list[Floats | None] = []
    for pair in matched:
        if pair.source is None:
            out.append(None)
        elif pair.target.axis is not None:
            out.append(_tile(pair, rows, here, there))
        elif pair.target.attached is not None:
            out.append(_attached(pair, rows, here, there))
        else:
            out.append(_plain(pair, rows))
    if here.registers != there.registers:
        _fit_registers(matched, out, np.log2(here.registers / there.registers))
    return out


def _plain(pair: Pair, rows: Rows) -> Floats:
    """Parallel loops counted as in the source; expansion and others by their value."""
    assert pair.source is not None and pair.source_block is not None
    values = rows[:, pair.source.columns].astype(np.float64)
    if pair.target.kind == "parallel":
        ours, theirs = len(pair.block.parallel_axes), len(pair.source_block.parallel_axes)
        deeper = np.maximum(values - theirs, 0.0)  # loops of a deeper level
        near = np.minimum(values, ours)
        return _logs(np.where(values >= theirs, ours + deeper, near).astype(np.float64))
    return _logs(values)


def _attached(pair: Pair, rows: Rows, here: Reach, there: Reach) -> Floats:
    assert pair.source is not None
    values = _logs(rows[:, pair.source.columns].astype(np.float64))
    if pair.target.name.endswith("vector"):
        return np.asarray(values + np.log2(here.lanes / there.lanes))
    return values + min(0.0, float(np.log2(here.registers / there.registers)))


def _tile(pair: Pair, rows: Rows, here: Reach, there: Reach) -> Floats:
    """Sizes of the tiles of an axis, outermost first: caches and whole vectors are scaled."""
    assert pair.source is not None and pair.source_block is not None
    theirs, axis = pair.source.axis, pair.target.axis
    assert theirs is not None and axis is not None
    spans = _spans(rows[:, pair.source.columns], theirs)
    width = len(pair.target.columns)
    if spans.shape[1] >= width:
        spans = spans[:, spans.shape[1] - width :]
    else:  # levels that the source lacks hold no more than what is inside them
        spans = np.concatenate([np.repeat(spans[:, :1], width - spans.shape[1], 1), spans], axis=1)
    whole = spans >= theirs.typical
    kept = theirs in pair.source_block.spatial and _in_registers(pair.block)
    cached = np.arange(width) < width - kept
    caches = 0.25 * np.log2(here.l1_bytes / there.l1_bytes)
    caches += 0.25 * np.log2(here.l2_bytes / there.l2_bytes)
    wanted = _logs(spans) + np.where(
        whole, np.log2(axis.typical / theirs.typical), np.where(cached, caches, 0.0)
    )
    vector = kept and pair.block.levels.items[-1].role == Role.vector
    if vector and theirs is pair.source_block.spatial[-1] and here.lanes != there.lanes:
        inner = spans[:, -1]
        vectors = np.log2(np.ceil(inner / there.lanes) * here.lanes)
        short = whole[:, -1] & (inner <= there.lanes)
        wanted[:, -1] = np.where(short, wanted[:, -1], vectors)
    return np.maximum.accumulate(wanted[:, ::-1], axis=1)[:, ::-1]


def _in_registers(block: Block) -> bool:
    return block.levels.items[-1].role in _REGISTERS


def _fit_registers(matched: list[Pair], wanted: list[Floats | None], change: float) -> None:
    """More or fewer registers: as many more or fewer pixels, of the axis that has the most."""
    blocks: dict[int, list[int]] = {}
    for i, pair in enumerate(matched):
        axis = pair.target.axis
        inside = axis is not None and axis in pair.block.spatial and wanted[i] is not None
        if inside and pair.block.reduce and _in_registers(pair.block):
            blocks.setdefault(id(pair.block), []).append(i)
    for own in blocks.values():
        pixels = [i for i in own if matched[i].target.axis is not _last(matched[i].block)]
        movable = [i for i in pixels if np.ptp(matched[i].target.choices[:, -1]) > 0]
        if not movable:
            continue
        inner = np.stack([_of(wanted[i])[:, -1] for i in movable], axis=1)
        most = np.argmax(inner, axis=1)
        for column, i in enumerate(movable):
            sizes = _of(wanted[i])
            chosen = most == column
            sizes[chosen, -1] = np.maximum(sizes[chosen, -1] + change, 0.0)
            wanted[i] = np.maximum.accumulate(sizes[:, ::-1], axis=1)[:, ::-1]


def _of(wanted: Floats | None) -> Floats:
    assert wanted is not None
    return wanted


def _last(block: Block) -> Axis | None:
    return block.spatial[-1] if block.spatial else None
