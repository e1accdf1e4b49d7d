"""Sums of what is left behind whole vectors: lengths around these, all kinds, on every CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import on_x86, x86
from tests.kinds.cpu.guards import run_at
from tests.lower.open_families import S, tensor
from tilework import te
from tilework.kinds.cpu.build import BUILDER, generate
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

KINDS = {"sum": np.sum, "prod": np.prod, "max": np.nanmax, "min": np.nanmin}
LENGTHS = (1, 2, 7, 15, 16, 17, 31, 32, 33, 37)


def rows_of(kind: str) -> te.ComputeDAG:
    """A reduction of each of five rows of any length, one beside the other in no array."""
    x, k = tensor("x", 5, 1, S), te.reduce_axis(S, "k")
    reduction = getattr(te, kind)
    return te.ComputeDAG([x, te.compute((5, 1), lambda i, j: reduction(x[i, j, k], k), "out")])


@pytest.mark.parametrize("cpu", on_x86("znver4", "haswell", "x86-64"))
@pytest.mark.parametrize("kind", KINDS)
def test_sums_across_lanes(kind, cpu):
    """A NaN is no maximum, wherever it lies: in a vector, behind the last one, or in both."""
    task = SearchTask(rows_of(kind), Target(x86(cpu, 1)))
    rng, (length,) = generator(kind, cpu), task.compute_dag.symbols
    cut = [s for s in SearchSpace.of(task).sketches if s.cuts]
    rows = [(s.id, row) for s in cut for row in s.sample(rng, 20)]
    halved = [(i, row) for i, row in rows if _halves(generate(task, i, row).modules)]
    assert halved
    for sketch, row in halved[:2]:
        kernel = load_kernel(BUILDER.build(task, sketch, row))
        for n in LENGTHS:
            x = rng.uniform(0.5, 1.5, (5, 1, n)).astype("float32")
            if kind in ("max", "min") and n > 1:
                x[np.arange(4), 0, rng.integers(0, n, 4)] = np.nan
            for at_end in (True, False):
                (got,) = run_at(kernel, {length: n}, [x], 1, at_end)
                np.testing.assert_allclose(got, KINDS[kind](x, axis=2), rtol=1e-5)


@pytest.mark.parametrize("cpu", on_x86("znver4", "haswell", "x86-64"))
@pytest.mark.parametrize(("dtype", "terms"), [("uint8", 12), ("uint8", 192), ("int8", 100)])
def test_sums_of_bytes(dtype, terms, cpu):
    x, k = te.placeholder((3, 5, terms), "x", dtype), te.reduce_axis(terms, "k")
    sums = te.compute((3, 5, 1), lambda i, j, _: te.sum(te.cast("int32", x[i, j, k]), k), "out")
    task = SearchTask(te.ComputeDAG([x, sums]), Target(x86(cpu, 1)))
    rng, (plain, *_) = generator(terms, cpu), SearchSpace.of(task).sketches
    rows = [r for r in plain.sample(rng, 12) if _adds_bytes(generate(task, plain.id, r).modules)]
    array = rng.integers(0, 256, x.shape).astype(np.uint8).view(dtype)
    assert rows
    for row in rows[:3]:
        kernel = load_kernel(BUILDER.build(task, plain.id, row))
        for at_end in (True, False):
            (got,) = run_at(kernel, {}, [array], 1, at_end)
            np.testing.assert_array_equal(got, array.sum(2, keepdims=True))


@pytest.mark.parametrize("cpu", on_x86("znver4", "haswell", "x86-64"))
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_of_any_number_of_bytes(dtype, cpu):
    x, k = tensor("x", 5, 1, S, dtype=dtype), te.reduce_axis(S, "k")
    sums = te.compute((5, 1), lambda i, j: te.sum(te.cast("int32", x[i, j, k]), k), "out")
    task = SearchTask(te.ComputeDAG([x, sums]), Target(x86(cpu, 1)))
    rng, (length,) = generator(dtype, cpu), task.compute_dag.symbols
    cut = [s for s in SearchSpace.of(task).sketches if s.cuts]
    rows = [(s.id, row) for s in cut for row in s.sample(rng, 12)]
    halved = [(i, row) for i, row in rows if _halves(generate(task, i, row).modules)]
    assert halved
    kernel = load_kernel(BUILDER.build(task, *halved[0]))
    for n in LENGTHS:
        array = rng.integers(0, 256, (5, 1, n)).astype(np.uint8).view(dtype)
        for at_end in (True, False):
            (got,) = run_at(kernel, {length: n}, [array], 1, at_end)
            np.testing.assert_array_equal(got, array.sum(2))


def _adds_bytes(modules) -> bool:
    return any("vector.reduce.add" in m.text for m in modules)


def _halves(modules) -> bool:
    """Whether lanes of a vector are reduced to the first two."""
    return any("poison, <2 x i32> <i32 2, i32 3>" in m.text for m in modules)
