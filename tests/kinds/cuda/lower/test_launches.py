"""What limits and features say of a kernel's launch is what is launched."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda import families
from tilework import te
from tilework.kinds.cuda.geometry import geometry
from tilework.kinds.cuda.source.kernel import print_region
from tilework.kinds.cuda.tiling import form_of
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.target import Target

A100 = Target("cuda -model=a100")
KINDS = ("WINDOWS", "ROWS", "SUMS", "POINTS", "WINOGRAD", "SPLIT")


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_threads_and_shared_memory(kind):
    rng = np.random.default_rng(0)
    for tensors in getattr(families, kind):
        for sketch in SearchSpace.derive(te.ComputeDAG(tensors), A100).sketches:
            for row in sketch.sample(rng, 2):
                program = lowering_of(A100).lower(sketch, row).program
                for nest, region in zip(
                    sketch.nests(sketch.check(row)), program.regions, strict=True
                ):
                    entry, found = print_region(region, frozenset()), geometry(nest)
                    launched = entry.grid, entry.block, entry.shared_static + entry.shared_dynamic
                    said = found.grid[0], found.threads[0], found.shared[0]
                    assert launched == said, (form_of(nest.block), list(map(int, row)))
