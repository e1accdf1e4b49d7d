"""What the border of a padded map leaves to compute, for all candidates at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.lower.expansion import tile_vectors
from tilework.lower.register_tiles.borders import (
    FEW,
    FEWEST_SUMS,
    MOST_BODIES,
    Span,
    checked,
    clippable,
    segments,
    tile_spans,
)
from tilework.space.blocks import Block
from tilework.space.bounds import conjuncts, serial_taps
from tilework.space.capabilities import Bound
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Compare, IfThenElse, walk

Floats = NDArray[np.float64]


def split_axes(block: Block) -> dict[Axis, list[Bound]]:
    """Bounds by axis where the lowering leaves out the taps that fall on padding."""
    out: dict[Axis, list[Bound]] = {}
    for b in block.bounds:
        out.setdefault(b.axis, []).append(b)
    return {a: found for a, found in out.items() if all(b.skips for b in found)}


def parts(block: Block, axis: Axis, sizes: Floats) -> list[tuple[Floats, Floats]]:
    """Register tiles of a split axis as (number, points used), by how much of them is used.

    Numbers count tiles times taps, in units of all taps: tiles without a border count once. The
    first part uses all points, the others at least half and less, with their mean.
    """
    unique, where = np.unique(sizes, return_inverse=True)
    table = np.array([_parts(block, axis, min(int(n), axis.typical)) for n in unique])
    return [(table[where, i, 0], table[where, i, 1]) for i in range(table.shape[1])]


def checked_share(nest: BlockNest, expanded: Mapping[Axis, Floats]) -> Floats:
    """Share of the tiles whose loads still ask whether they fall on padding.

    Args:
        nest: the nest.
        expanded: how far the innermost loop of each reduce axis is expanded.
    """
    block = nest.block
    guards = [n for n in walk(block.source) if isinstance(n, IfThenElse)]
    count = nest.count
    if not guards:
        return np.zeros(count)
    known = {b.node for b in block.bounds}
    comparisons = [c for g in guards for c in conjuncts(g.cond)]
    if not all(isinstance(c, Compare) and c in known for c in comparisons):
        return np.ones(count)
    inside = np.ones(count)
    for share in _checked(nest, expanded).values():
        inside = inside * (1.0 - share)
    return 1.0 - inside


class _Versions(NamedTuple):
    """Versions of the tiles of one axis; see `tilework.lower.register_tiles.borders.Span`.

    Attributes:
        bodies: pieces of code.
        fixed: share of the tiles whose position is known where code is generated.
        checked: share of the tiles whose bounds are tested at the loads.
        inside: pieces of code for tiles inside.
        bodies_tested, checked_tested: bodies and checked if all tiles on the border are tested.
    """

    bodies: Any
    fixed: Any
    checked: Any
    inside: Any
    bodies_tested: Any
    checked_tested: Any


def _checked(nest: BlockNest, expanded: Mapping[Axis, Floats]) -> dict[Axis, Floats]:
    """By axis, the share of tiles whose bounds are tested at the loads.

    As `tilework.lower.register_tiles.borders.fewer` decides it: where the borders of several axes
    multiply to too much code, one is computed row by row, or axes take turns in testing their
    bounds.
    """
    block = nest.block
    sizes = {a: np.minimum(nest.tiles[a][-1], a.typical) for a in block.spatial}
    found = {a: _versions_of(nest, a, sizes[a], expanded) for a in block.spatial}
    bodies = {a: v.bodies for a, v in found.items()}
    out = {a: v.checked for a, v in found.items()}
    fixed = [a for a, v in found.items() if (v.fixed > 0).any()]
    if serial_taps(block):
        by_row = _row_by_row(block, sizes, {a: found[a].fixed for a in fixed})
        for a in fixed:
            bodies[a] = np.where(by_row == fixed.index(a), found[a].inside + 1, bodies[a])
    for a in fixed:
        many = (np.prod(list(bodies.values()), axis=0) > MOST_BODIES) & (found[a].fixed > 0)
        bodies[a] = np.where(many, found[a].bodies_tested, bodies[a])
        out[a] = np.where(many, found[a].checked_tested, out[a])
    return out


def _row_by_row(
    block: Block, sizes: Mapping[Axis, NDArray[np.int64]], fixed: Mapping[Axis, Floats]
) -> NDArray[np.int64]:
    """Which of some axes has its border computed row by row, by position; -1 for none.

    ``fixed`` is each one's share of tiles whose position is known.
    """
    vectors = tile_vectors([sizes[a] for a in block.spatial])
    several = np.sum([share > 0 for share in fixed.values()], axis=0) > 1
    chosen = np.full(len(vectors), -1)
    least = np.full(len(vectors), np.inf)
    for i, (a, share) in enumerate(fixed.items()):
        own = [b for b in block.bounds if b.axis is a]
        enough = (sizes[a] > 1) & (vectors // sizes[a] >= FEWEST_SUMS)
        better = several & enough & (share > 0) & (share <= FEW) & (share < least)
        if clippable(own):
            chosen, least = np.where(better, i, chosen), np.where(better, share, least)
    return chosen


def _versions_of(
    nest: BlockNest, axis: Axis, sizes: NDArray[np.int64], expanded: Mapping[Axis, Floats]
) -> _Versions:
    """`_Versions` of an axis: arrays, a number for each candidate."""
    taps = {b.tap for b in nest.block.bounds if b.axis is axis and b.tap is not None}
    wide, cut = np.zeros(nest.count, bool), np.zeros(nest.count, bool)
    for tap in taps:
        wide |= expanded[tap] > 1
        levels = nest.tiles[tap]
        if len(levels) > 1:  # taps of one visit are not known where code is generated
            cut |= (levels[0] > 1) & (sizes > 1)
    unique, where = np.unique(sizes * 4 + wide * 2 + cut, return_inverse=True)
    table = [_versions(nest.block, axis, int(k) >> 2, bool(k & 2), bool(k & 1)) for k in unique]
    return _Versions(*np.array(table, np.float64)[where].T)


@lru_cache(maxsize=4096)
def _versions(block: Block, axis: Axis, size: int, wide: bool, cut: bool) -> _Versions:
    own = [b for b in block.bounds if b.axis is axis]
    clip = ("border" if wide else "all") if size == 1 and clippable(own) else "no"
    spans = tile_spans(axis, size, own, clip)
    tests = checked(spans, axis, size)
    if cut:
        spans = tests
    asks = ("checked",) if all(b.skips for b in own) else ("checked", "fixed")

    def share(among: Sequence[Span], kinds: Collection[str]) -> float:
        return sum(s.share for s in among if s.kind in kinds)

    return _Versions(
        sum(len(segments(s, own, size)[1]) for s in spans),
        share(spans, ["fixed"]),
        share(spans, asks),
        sum(s.kind == "inside" for s in spans),
        len(tests),
        share(tests, asks),
    )


@lru_cache(maxsize=4096)
def _parts(block: Block, axis: Axis, size: int) -> list[tuple[float, float]]:
    own = [b for b in block.bounds if b.axis is axis]
    taps = max([b.tap.typical for b in own if b.tap is not None], default=1)
    count = -(-axis.typical // size)
    used = np.ones((count * size, taps), bool)
    position, tap = np.arange(count * size)[:, None], np.arange(taps)[None, :]
    for b in own:
        used &= b.slope * position + b.step * tap + b.const >= 0
    used[axis.typical :] = False
    points = used.reshape(count, size, taps).sum(axis=1)
    out: list[tuple[float, float]] = []
    many = 2 * points >= size
    for part in (points == size, many & (points < size), ~many & (points > 0)):
        number = int(part.sum())
        out.append((number / taps, float(points[part].mean()) if number else 0.0))
    return out
