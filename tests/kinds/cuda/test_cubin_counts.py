"""What is counted for a population is what the compiler and the emulator find in each kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.harness import (
    Emulated,
    _address,
    aligned_copy,
    cases_of,
    compile_text,
    poisoned,
    print_schedule,
    random_inputs,
)
from tests.kinds.cuda.nests import A100
from tests.kinds.cuda.tiled_cases import conv, matmul
from tilework.kinds.cuda.features.population import block_counts
from tilework.kinds.cuda.geometry import geometry
from tilework.kinds.cuda.source.cubin import resources
from tilework.kinds.cuda.source.nvrtc import cubin
from tilework.kinds.cuda.source.printer import print_program
from tilework.kinds.cuda.source.sass import accesses, multiply_adds, opcode_counts
from tilework.kinds.cuda.tiling import form_of
from tilework.space import SearchSpace
from tilework.te import ComputeDAG

CASES = {
    "small product": lambda: matmul(64, 64, 64),
    "product": lambda: matmul(256, 256, 256),
    "transposed": lambda: matmul(96, 200, 128, transposed=True),
    "small conv": lambda: conv(8, 8, 8, 32, 3, 1, 1),
    "conv": lambda: conv(14, 14, 32, 64, 3, 1, 1),
    "strided": lambda: conv(28, 28, 16, 32, 3, 2, 1),
}


def tiled(name):
    """The sketch of one tiled block."""
    found = SearchSpace.derive(ComputeDAG(CASES[name]()), A100).sketches
    return next(s for s in found if [form_of(b) for b in s.blocks] == ["tiled"])


@pytest.mark.usefixtures("needs_nvrtc")
def test_shared_memory_and_multiply_adds_are_those_of_the_cubin():
    equal, loads = [], []
    for seed, name in enumerate(CASES):
        sketch = tiled(name)
        rows = sketch.sample(np.random.default_rng(seed), 400)
        nest = sketch.nests(rows)[0]
        found, counts = geometry(nest), block_counts(nest, A100.limits)
        for i in np.flatnonzero(found.expanded <= 256)[:4]:
            source = print_schedule(sketch, rows[i])
            (entry,), (launch,) = source.entries, source.launches
            code = cubin(entry.text, A100.arch, entry.name)
            taken = resources(code)[entry.name].shared_bytes + launch.shared
            assert taken == found.shared[i], (name, rows[i])
            instructions = opcode_counts(code)[entry.name]
            equal.append(multiply_adds(instructions) == found.expanded[i])
            if counts.lds[i]:
                loads.append(accesses(instructions, "LDS") * counts.rounds[i] / counts.lds[i])
    assert len(equal) >= 20 and all(equal), equal
    assert 0.75 <= np.median(loads) <= 1.1, loads


@pytest.mark.usefixtures("needs_compiler")
def test_traffic_is_that_of_the_emulated_warps():
    wanted = []
    for name, near in (("small product", 1.02), ("small conv", 1.35)):
        sketch = tiled(name)
        rows = sketch.sample(np.random.default_rng(3), 1500)
        nest = sketch.nests(rows)[0]
        found, counts = geometry(nest), block_counts(nest, A100.limits)
        good = (found.threads % 32 == 0) & (found.overhang < 1.001) & (found.grid <= 64)
        good &= (found.threads <= 256) & (nest.values["stages"] == 1)
        good &= (nest.values["stage0"] > 0) & (nest.values["stage1"] > 0)
        wanted += [(sketch, rows[i], found, counts, i, near) for i in np.flatnonzero(good)[:3]]
    assert len(wanted) == 6
    cases = [cases_of(s, [row], random_inputs(s.dag))[0] for s, row, *_ in wanted]
    for case in cases:
        case.source = print_program(case.program)
    texts = {e.name: e.text for case in cases for e in case.source.entries}
    library = Emulated(compile_text(list(texts.items()), checked=True))
    for case, (_, row, found, counts, i, near) in zip(cases, wanted, strict=True):
        arguments = [aligned_copy(np.ascontiguousarray(a)) for a in case.inputs]
        arguments += [poisoned((b.reach,), b.dtype) for b in case.program.outputs]
        (launch,) = case.source.launches
        places = [_address(where, arguments, None) for where in launch.args]
        seen = library.trace(launch.entry, launch.grid, launch.block, launch.shared, places)
        warps, grid = counts.warps[i], found.grid[i]
        stored = counts.stg[i] * warps * counts.extra["store_sectors"][i] * grid
        loaded = counts.l2_bytes[i] * grid / 32 - stored
        assert seen.global_store.units == pytest.approx(stored), row
        assert loaded / near <= seen.global_load.units <= loaded * near, row
        if near < 1.1:
            waves = counts.shared_wavefronts[i] * grid
            assert seen.shared_load.units + seen.shared_store.units == pytest.approx(
                waves, rel=0.02
            )
            assert seen.shared_load.instructions == pytest.approx(counts.lds[i] * warps * grid)
