"""What is asked for ahead of time: large weights, where it pays, and large outputs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tilework import te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.build import build, generate
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


def product(rows, inner, columns, cpu="skylake-avx512"):
    a = te.placeholder((rows, inner), name="A")
    b = te.placeholder((inner, columns), name="B")
    k = te.reduce_axis(inner, "k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        "C",
        {"layout_free": ("B",)},
    )
    return SearchTask(te.ComputeDAG([a, b, c]), Target(x86(cpu, 2)))


def row_with(task, tile):
    """A row whose register tile covers so many rows of the product."""
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 500)
    at = next(d for d in sketch.decisions if d.name == "i").columns[-1]
    return next(r for r in rows if r[at] == tile)


@pytest.mark.parametrize(
    ("cpu", "tile", "inner", "asked"),
    [
        ("znver4", 4, 512, True), ("znver4", 8, 512, False), ("znver4", 4, 256, False),
        ("skylake-avx512", 8, 512, True), ("skylake-avx512", 8, 256, False),
    ],
)  # fmt: skip
def test_what_is_asked_for(cpu, tile, inner, asked):
    """A megabyte or more that several tiles use, or behind a mesh of cores one alone."""
    task = product(8, inner, 512, cpu)
    source = generate(task, 0, row_with(task, tile))
    assert ("call void @llvm.prefetch" in source.text) == asked


@pytest.mark.parametrize(("inner", "asked"), [(64, True), (32, False)])
def test_less_is_asked_for_where_a_run_says_how_many_rows(inner, asked):
    """128 KB or more, of which a run with one tile of rows asks for the line it loads."""
    task = product(symbol("rows", 1, 64, (16,)), inner, 512, "znver4")
    text = generate(task, 0, row_with(task, 4)).text
    assert ("call void @llvm.prefetch" in text) == asked
    assert ("i64 8192, i64 0" in text) == asked


def test_results_do_not_change():
    task = product(8, 512, 528)
    if task.target.missing_on_host():
        pytest.skip("this CPU lacks AVX-512")
    row = row_with(task, 4)
    assert "call void @llvm.prefetch" in generate(task, 0, row).text
    kernel = build(task, 0, row)
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, t.shape).astype("float32") for t in task.compute_dag.inputs)
    packing = kernel.args[1].packing
    out = aligned_empty((8, 528), "float32")
    workspace = aligned_empty((kernel.workspace_bytes(2) + 1,), "uint8")
    arrays = [aligned_copy(a), aligned_copy(packing.apply(b)), out]
    for threads in (1, 2):
        out.fill(np.nan)
        load_kernel(kernel)(arrays, workspace, threads)
        np.testing.assert_allclose(out, a @ b, atol=1e-4)


@pytest.mark.parametrize("rows,claimed", [(520, True), (8, False)])
def test_large_outputs_are_claimed_before_they_are_written(rows, claimed):
    task = product(rows, 16, 512)
    source = generate(task, 0, row_with(task, 4))
    assert ("i32 1, i32 3, i32 1)" in source.text) == claimed


def test_claims_change_no_result():
    task = product(1031, 24, 260)  # tiles overhang both axes
    if task.target.missing_on_host():
        pytest.skip("this CPU lacks AVX-512")
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, t.shape).astype("float32") for t in task.compute_dag.inputs)
    for sketch in SearchSpace.of(task).sketches:
        for row in sketch.sample(rng, 3):
            kernel = build(task, sketch.id, row)
            packing = kernel.args[1].packing
            out = aligned_empty((1031, 260), "float32")
            out.fill(np.nan)
            workspace = aligned_empty((kernel.workspace_bytes(2) + 1,), "uint8")
            arrays = [aligned_copy(a), aligned_copy(packing.apply(b)), out]
            load_kernel(kernel)(arrays, workspace, 2)
            np.testing.assert_allclose(out, a @ b, atol=1e-4)
