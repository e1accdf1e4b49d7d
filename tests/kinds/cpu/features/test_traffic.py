"""Traffic is what the rule says, loop by loop."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.kinds.cpu.features.facts import block_facts
from tilework.kinds.cpu.features.footprints import touched_bytes
from tilework.kinds.cpu.features.traffic import traffic_of
from tilework.kinds.cpu.machine import Machine
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

SIZES = 2 << 10, 8 << 10, 16 << 10
SMALL = Machine(stray_lines=0.0, l1_bytes=SIZES[0], l2_bytes=SIZES[1], l3_bytes=SIZES[2])
"""No tensor of the tests is in its caches before, and runs of lines cost nothing more."""


def by_the_rule(nest, tiles):
    """Bytes of each access into each cache, walking from the innermost loop outwards."""
    accesses, block = block_facts(nest.block).accesses, nest.block
    spans = {a: np.ones(nest.count) for a in (*block.spatial, *block.reduce)}
    now = [touched_bytes(a, spans) for a in accesses]
    into = [[n * np.ones(nest.count) for n in now] for _ in SIZES]
    for axis, level in reversed(block.loops):
        trips, fits = tiles[axis][level], [sum(now) <= size for size in SIZES]
        spans[axis] = np.minimum(spans[axis] * trips, axis.extent)
        after = [touched_bytes(a, spans) for a in accesses]
        for per_access, fit in zip(into, fits, strict=True):
            for i, access in enumerate(accesses):
                if not (access.once and axis.kind == "reduce"):
                    per_access[i] = per_access[i] * np.where(fit, after[i] / now[i], trips)
        now = after
    return into


@pytest.mark.parametrize(
    "made",
    [
        workloads.matmul(128, 96, 160, free=True),
        workloads.conv2d_relu(h=28, w=28, ci=32, co=48),
        workloads.conv2d_relu(h=30, w=30, ci=16, co=64, s=2),
        workloads.max_pool(h=28, w=28, c=96),
    ],
)
def test_what_comes_into_a_cache_is_what_the_rule_says(made):
    task = SearchTask(te.ComputeDAG(made), Target(x86("x86-64-v4", 1)))
    for sketch in SearchSpace.of(task).sketches:
        for nest in sketch.nests(sketch.sample(np.random.default_rng(0), 60)):
            if nest.block.attached_reductions:
                continue
            tiles = {a: extents.astype(float) for a, extents in nest.tiles.items()}
            found = traffic_of(nest, block_facts(nest.block), tiles, SMALL)
            np.testing.assert_allclose(found.into, by_the_rule(nest, tiles), rtol=1e-12)
