"""What the border of a padded map leaves to compute, for all candidates at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.facts import BlockFacts, block_facts
from tilework.kinds.cpu.features.versions import Border, Versions, points_left, versions
from tilework.lower.expansion import EXPANDED_LANES, tile_vectors
from tilework.lower.register_tiles.borders import FEW, FEWEST_SUMS, MOST_BODIES
from tilework.space.distinct import values
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis

Floats = NDArray[np.float64]

_SINGLE = 2.5
"""How many times what its sums take a point takes that is computed by itself, where a sum is over
taps alone: the ends of loops over these are computed, and mispredicted."""


def parts(
    border: Border, sizes: Floats, serial: bool, others: Sequence[Floats]
) -> list[tuple[Floats, Floats]]:
    """Register tiles of a split axis as (number, points used), by how much of them is used.

    Numbers count tiles times taps, in units of all taps: tiles without a border count once. The
    first part uses all points, the others at least half and less, with their mean.

    Args:
        border: of the axis.
        sizes: points of a tile, for each candidate.
        serial: whether there is a sum inside the loops over taps.
        others: the same sizes of other open axes with bounds.
    """
    most = border.axis.typical + border.axis.open  # all longer tiles of an open axis are alike
    if border.edge and others:
        alone = np.logical_and.reduce([other == 1 for other in others])
        keys, where = values(sizes * 2 + alone)
        unique = keys // 2
        asked = [(int(key) // 2, len(others) if key % 2 else -1) for key in keys]
    else:
        unique, where = values(sizes)
        asked = [(int(n), 0) for n in unique]
    table = np.array([points_left(border, min(n, most), other) for n, other in asked])
    if border.axis.open and not serial:
        table[:, 2, 0] *= np.where(unique > 1, _SINGLE, 1.0)
    return [(table[where, i, 0], table[where, i, 1]) for i in range(table.shape[1])]


def checked_share(nest: BlockNest, expanded: Mapping[Axis, Floats]) -> Floats | float:
    """Share of the tiles whose loads still ask whether they fall on padding.

    Args:
        nest: the nest.
        expanded: how far the innermost loop of each reduce axis is expanded.
    """
    facts = block_facts(nest.block)
    if facts.undecided:
        return 1.0
    inside: Floats | float = 1.0
    for share in _checked(nest, facts, expanded).values():
        inside = inside * (1.0 - share)
    return 1.0 - inside


def code_versions(nest: BlockNest, expanded: Mapping[Axis, Floats]) -> Floats:
    """How many versions of a nest's register tile stand in its code; arguments as above."""
    out = np.ones(nest.count)
    for axis, border in block_facts(nest.block).borders.items():
        if axis.unit and not border.bounds:
            continue
        size = np.minimum(nest.tiles[axis][-1], axis.typical)
        if border.bounds:
            out = out * _versions_of(nest, border, size, expanded)["bodies"]
        elif axis.open:  # one for each number of rows, or of vectors, that may be left
            last = axis is nest.block.spatial[-1]
            out = out * (1.0 + (-(-size // EXPANDED_LANES) if last else size))
        else:
            out = out * (1.0 + (axis.typical % size > 0))
    return out


def _checked(
    nest: BlockNest, facts: BlockFacts, expanded: Mapping[Axis, Floats]
) -> dict[Axis, Floats]:
    """By axis, the share of tiles whose bounds are tested at the loads.

    As `tilework.lower.register_tiles.borders.fewer` decides it: where the borders of several axes
    multiply to too much code, one is computed point by point, or axes take turns in testing their
    bounds.
    """
    sizes = {a: np.minimum(nest.tiles[a][-1], a.typical) for a in nest.block.spatial}
    tiles_of = {
        a: _versions_of(nest, border, sizes[a], expanded)
        for a, border in facts.borders.items()
        if border.bounds
    }
    bodies = {
        a: tiles_of[a]["bodies"] if a in tiles_of else 1.0 + (a.typical % size > 0)
        for a, size in sizes.items()
    }
    out = {a: v["checked"] for a, v in tiles_of.items()}
    fixed = [a for a, v in tiles_of.items() if (v["fixed"] > 0).any()]
    if facts.serial:
        by_row = _row_by_row(facts, sizes, {a: tiles_of[a]["fixed"] for a in fixed})
        for a in fixed:
            bodies[a] = np.where(by_row == fixed.index(a), tiles_of[a]["inside"] + 1, bodies[a])
    for a in fixed:
        number = np.multiply.reduce(list(bodies.values()), axis=0)
        many = (number > MOST_BODIES) & (tiles_of[a]["fixed"] > 0)
        bodies[a] = np.where(many, tiles_of[a]["bodies_tested"], bodies[a])
        out[a] = np.where(many, tiles_of[a]["checked_tested"], out[a])
    return out


def _row_by_row(
    facts: BlockFacts, sizes: Mapping[Axis, NDArray[np.int64]], fixed: Mapping[Axis, Floats]
) -> NDArray[np.int64]:
    """Which of some axes has its border computed point by point, by position; -1 for none.

    ``fixed`` is each one's share of tiles whose position is known.
    """
    vectors = tile_vectors([sizes[a] for a in facts.block.spatial])
    several = np.sum([share > 0 for share in fixed.values()], axis=0) > 1
    chosen = np.full(len(vectors), -1)
    least = np.full(len(vectors), np.inf)
    for i, (a, share) in enumerate(fixed.items()):
        enough = (sizes[a] > 1) & (vectors // sizes[a] >= FEWEST_SUMS)
        better = several & enough & (share > 0) & (share <= FEW) & (share < least)
        if facts.borders[a].clips:
            chosen, least = np.where(better, i, chosen), np.where(better, share, least)
    return chosen


def _versions_of(
    nest: BlockNest, border: Border, sizes: NDArray[np.int64], expanded: Mapping[Axis, Floats]
) -> dict[str, Floats]:
    """`Versions` of an axis: arrays, a number for each candidate."""
    keys = sizes * 4
    for tap in border.taps:
        keys |= (expanded[tap] > 1) * 2
        levels = nest.tiles[tap]
        if len(levels) > 1:  # taps of one visit are not known where code is generated
            keys |= (levels[0] > 1) & (sizes > 1)
    unique, where = values(keys)
    table = [versions(border, int(k) >> 2, bool(k & 2), bool(k & 1)) for k in unique]
    return dict(zip(Versions._fields, np.array(table, np.float64).T[:, where], strict=True))
