"""Lines of a window that lie at long even strides compete for few sets of L1."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tilework import te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.features.facts import block_facts
from tilework.kinds.cpu.features.sets import _apart, _share, _shares, crowded
from tilework.model.drafted import draft_schedule
from tilework.ops import avg_pool
from tilework.ops.conv import depthwise_conv
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


def shares(channels, size=14):
    """Rows and pixels of register tiles, and which share of their windows' lines is crowded."""
    data = te.placeholder((1, size, size, channels), "data")
    weight = te.placeholder((3, 3, 1, channels), "weight")
    out = depthwise_conv(data, weight, (1, 1), (1,) * 4, (1, 1))
    task = SearchTask(te.ComputeDAG([data, weight, out]), Target(x86("x86-64-v4", 1)))
    sketch = next(s for s in SearchSpace.of(task).sketches if s.name.endswith("inline pad_temp"))
    nest = sketch.nests(sketch.sample(np.random.default_rng(0), 400))[-1]
    window = next(a for a in block_facts(nest.block).accesses if a.slides)
    _, y, x, c = (nest.tiles[a][-1] for a in nest.block.spatial)
    return y, x, c, crowded(window, nest, ways=8)


def by_hand(channels, size, y, x, c, ways=8):
    """The same, line by line."""
    lines = {
        (4 * ((row * size + pixel) * channels + channel)) // 64
        for row in range(y + 2)
        for pixel in range(x + 2)
        for channel in range(c)
    }
    sets = [line % 64 for line in lines]
    return np.mean([sets.count(s) > ways for s in sets])


@pytest.mark.parametrize("channels", [48, 512, 1024])
def test_the_share_is_that_of_the_lines(channels):
    for y, x, c, share in list(zip(*shares(channels), strict=True))[:60]:
        assert share == pytest.approx(by_hand(channels, 14, y, x, c))


def test_a_power_of_two_of_channels_crowds_and_others_do_not():
    assert shares(528)[-1].max() == 0
    y, x, _, share = shares(512)
    assert share[y * x >= 14].min() == 1 and share[y * x == 1].max() == 0


def test_windows_whose_lines_lie_apart_are_counted_together_as_they_are_one_by_one():
    rng = np.random.default_rng(0)
    together = 0
    for _ in range(60):
        inner = [1, 3, 16, 24, 40, 64, 96, 512][rng.integers(8)]
        row = int(rng.integers(1, 40))
        strides = [4 * inner * row * 30, 4 * inner * row, 4 * inner, 4]
        reach = np.array([rng.integers(1, most, 50) for most in (3, 9, row + 1, inner + 2)])
        apart = _apart(strides, reach)
        one_by_one = [_share(tuple(strides), tuple(w), 8) for w in reach.T[apart].tolist()]
        assert _shares(strides, reach[:, apart], 8).tolist() == one_by_one
        together += apart.sum()
    assert 500 < together < 2900


def test_rows_that_are_written_take_ways_where_a_run_decides_sizes():
    """64 channels of 64 columns: six rows that four points read, and the four that they write."""
    n = symbol("N", 1, 224, (16, 32, 64))
    x = te.placeholder((1, n, n, 64), "x")
    mean = te.ComputeDAG([x, avg_pool(x, (3, 3), (1, 1), (1,) * 4)])
    task = SearchTask(mean, Target("llvm -mcpu=znver4 -num-cores=1"))
    choice = draft_schedule(task)
    sketch = SearchSpace.of(task).sketch(choice.sketch_id)
    nest = sketch.nests(np.array([choice.row], np.int32))[-1]
    _, rows, columns, _ = (int(nest.tiles[a][-1][0]) for a in nest.block.spatial)
    assert rows < 4 <= rows * columns
