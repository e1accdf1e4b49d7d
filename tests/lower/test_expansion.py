"""How far loops are expanded: one rule, for one row and for many."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilework.lower.expansion import expansion, expansion_of_one, tile_vectors
from tilework.te.expr import Axis

EXTENTS = st.integers(1, 40)
ROOMS = st.integers(1, 64)


def axes(count: int) -> list[Axis]:
    return [Axis("int32", f"r{i}", 64, "reduce") for i in range(count)]


def plain(extents, room, always, whole, serial):
    """The rule, spelled out for one row."""
    out = {}
    for axis in reversed(list(extents)):
        extent = extents[axis]
        if axis in always:
            out[axis] = extent
            continue
        factor = max(d for d in range(1, min(extent, room) + 1) if extent % d == 0)
        if axis in serial or (axis in whole and factor < extent):
            factor = 1
        room = room // factor if factor == extent else 1
        out[axis] = factor
    return out


@given(
    st.lists(st.tuples(*[EXTENTS] * 3, ROOMS), min_size=1, max_size=6),
    st.lists(st.sampled_from(["always", "whole", "serial", ""]), min_size=3, max_size=3),
)
def test_many_rows_at_once_are_each_row_alone(rows, kinds):
    own = axes(3)
    of = {k: [a for a, b in zip(own, kinds, strict=True) if b == k]
          for k in ("always", "whole", "serial")}  # fmt: skip
    table = np.array(rows, np.int64)
    extents = {a: table[:, i] for i, a in enumerate(own)}
    found = expansion(extents, table[:, 3], **of)
    for i, row in enumerate(rows):
        one = dict(zip(own, row[:3], strict=True))
        alone = expansion_of_one(one, row[3], **of)
        assert alone == {a: int(n[i]) for a, n in found.items()}
        assert alone == plain(one, row[3], **of)


def test_outer_loops_are_expanded_only_around_whole_ones():
    outer, inner = axes(2)
    assert expansion_of_one({outer: 3, inner: 8}, 24) == {inner: 8, outer: 3}
    assert expansion_of_one({outer: 3, inner: 8}, 23) == {inner: 8, outer: 1}
    assert expansion_of_one({outer: 3, inner: 8}, 7) == {inner: 4, outer: 1}
    assert expansion_of_one({}, 7) == {}


def test_vectors_of_a_tile_count_sixteen_lanes_on_every_target():
    assert tile_vectors([3, 17]) == 6
    assert tile_vectors([16]) == 1
    assert tile_vectors([]) == 1
    np.testing.assert_array_equal(
        tile_vectors([np.array([2, 3]), np.array([16, 33])]), np.array([2, 9])
    )
