"""The analytic model knows which tiles ask at their loads whether they fall on padding."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tilework import te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.features.borders import checked_share
from tilework.kinds.cpu.features.tile import unrolled_steps
from tilework.kinds.cpu.features.versions import Border, points_left
from tilework.lower.register_tiles.loops import Loops
from tilework.lower.register_tiles.steps import spans_of
from tilework.ops.conv import conv, depthwise_conv
from tilework.space import SearchSpace
from tilework.space.capabilities import Bound
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.expr import Axis, Compare, Const


def nests_of(size, channels, taps, stride, outputs=0):
    """The convolution's nest with inlined padding: many rows at once, and one by one."""
    data = te.placeholder((1, size, size, channels), "data")
    window = (stride, stride), (taps // 2,) * 4, (1, 1)
    if outputs:
        weight = te.placeholder((taps, taps, channels, outputs), "weight")
        out = conv(data, weight, *window, layout_free=True)
    else:
        weight = te.placeholder((taps, taps, 1, channels), "weight")
        out = depthwise_conv(data, weight, *window, layout_free=True)
    task = SearchTask(te.ComputeDAG([data, weight, out]), Target(x86("x86-64-v4", 1)))
    sketch = next(s for s in SearchSpace.of(task).sketches if s.name.endswith("inline pad_temp"))
    rows = sketch.sample(np.random.default_rng(0), 200)
    return sketch.nests(rows)[-1], [sketch.nests(rows[i : i + 1])[-1] for i in range(len(rows))]


@pytest.mark.parametrize(
    "layer",
    [(14, 32, 5, 1), (16, 16, 7, 1), (28, 48, 3, 2), (12, 16, 3, 1, 32), (10, 8, 5, 1, 24)],
)
def test_the_share_of_tiles_that_test_is_what_is_generated(layer):
    together, each = nests_of(*layer)
    found = checked_share(together, unrolled_steps(together))
    for share, nest in zip(found, each, strict=True):
        spans = spans_of(Loops.of(nest)).values()
        free = np.prod([1 - sum(s.share for s in own if s.kind == "checked") for own in spans])
        assert share == pytest.approx(1 - free), {a: t for a, t in nest.tiles.items()}


def test_tiles_of_many_rows_of_a_large_window_test_at_their_loads():
    nest, _ = nests_of(14, 32, 5, 1)
    share = checked_share(nest, unrolled_steps(nest))
    _, y, x, _ = (nest.tiles[a][-1] for a in nest.block.spatial)
    assert share[y == 1].max() == 0
    assert share[(y > 2) & (y < 14) & (x < 7)].max() == 1


def test_points_left_of_tiles_are_those_whose_bounds_hold():
    rng = np.random.default_rng(0)
    node = Compare("bool", "<", Const("int32", 0), Const("int32", 1))
    for _ in range(300):
        extent, taps, size = (int(n) for n in rng.integers(1, (30, 8, 10)))
        axis, tap = Axis("int32", "y", extent, "spatial"), Axis("int32", "ry", taps, "reduce")
        bounds = []
        for linked in rng.integers(0, 2, rng.integers(0, 4)):
            slope = int(rng.choice([-3, -2, -1, 1, 2, 3]))
            step, const = int(rng.integers(-3, 4)) * int(linked), int(rng.integers(-20, 21))
            bounds.append(Bound(node, axis, slope, tap if linked else None, step, const, True))
        taps = taps if any(b.tap is not None for b in bounds) else 1
        used = np.zeros((-(-extent // size), taps))
        for y in range(extent):
            for r in range(taps):
                used[y // size, r] += all(b.slope * y + b.step * r + b.const >= 0 for b in bounds)
        found = points_left(Border.of(axis, bounds), size)
        whole, half = used == size, (2 * used >= size) & (used < size)
        for part, (number, points) in zip(
            (whole, half, (2 * used < size) & (used > 0)), found, strict=True
        ):
            assert number == part.sum() / taps
            assert points == (used[part].mean() if part.any() else 0)


def left_of_open(extent, size, taps=5):
    """Points left of an axis as long as a run says, with padding that keeps its length."""
    axis = Axis("int32", "x", symbol("n", 1, 64, (extent,)), "spatial")
    tap, node = Axis("int32", "rx", taps, "reduce"), Compare("bool", "<", *[Const("int32", 0)] * 2)
    pad = taps // 2
    own = (
        Bound(node, axis, 1, tap, 1, -pad, True),
        Bound(node, axis, -1, tap, -1, axis.extent - 1 + pad, True),
    )
    return points_left(Border.of(axis, own), size)


def test_tiles_of_an_open_axis_leave_all_points_that_taps_use():
    for extent in range(1, 30):
        for size in range(1, 10):
            used = sum(max(extent - abs(shift), 0) for shift in range(-2, 3))
            found = sum(number * points for number, points in left_of_open(extent, size))
            assert found == pytest.approx(used / 5), (extent, size)


def test_an_open_axis_shorter_than_a_tile_is_computed_point_by_point():
    whole, part, single = left_of_open(7, 8)
    assert whole[0] == 0
    assert part[0] * part[1] == pytest.approx(2 + 7 / 5)  # a pair inside, and two at the end
    assert single == (pytest.approx(1 + 7 / 5), 1)  # one inside, and two at the begin
    # of 12 points the first 8 and the last 2 have code of their own, and 2 inside
    assert left_of_open(12, 8)[2][0] == pytest.approx(0)
