"""Slabs: which computations have them, that they are right, and what may be overwritten."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import on_x86, x86
from tests.kinds.cpu.test_open_families import check_kernel, points_of
from tests.lower.check import check_row, random_inputs, reference, run_kernel, task_of
from tests.lower.open_families import B, S
from tests.te.workloads import softmax
from tilework import ops, te
from tilework.index.extents import Extent, typical
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.space import CpuSpace
from tilework.model.draft import draft_of
from tilework.space import SearchSpace, Sketch
from tilework.space.slabs import slabs_of
from tilework.space.winograd.slabs import convolution_slabs
from tilework.target import Target
from tilework.task import SearchTask

TARGET = "llvm -mcpu=x86-64-v3 -num-cores=2"  # 256 KiB of L2
LARGE = 1 << 40
SOFTMAX = ([4, 60, 200], lambda x: ops.softmax(x, 2))


def dag_of(shape: list[int], made_of) -> te.ComputeDAG:
    x = te.placeholder(shape, name="x")
    return te.ComputeDAG([x, made_of(x)])


def masked(later: bool) -> te.ComputeDAG:
    """Softmax of scores and a row of a mask; ``later`` columns than the row's number count not."""
    x, mask = te.placeholder((4, 60, 200), name="x"), te.placeholder((4, 200), name="mask")

    def score(b, i, j):
        known = x[b, i, j] + mask[b, j]
        return te.if_then_else(j <= i, known, -1e9) if later else known

    scores = te.compute((4, 60, 200), score, name="scores")
    return te.ComputeDAG([x, mask, ops.softmax(scores, 2)])


def turned() -> te.ComputeDAG:
    """Softmax along the first axis of what is read, and along the last of what is written."""
    x = te.placeholder((400, 400), name="x")
    y = te.compute((400, 400), lambda i, j: x[j, i], name="turned")
    return te.ComputeDAG([x, ops.softmax(y, 1)])


def sliced(dag: te.ComputeDAG) -> list[Sketch]:
    return [s for s in SearchSpace.of(task_of(dag, TARGET)).sketches if s.slabs is not None]


@pytest.mark.parametrize(
    ("dag", "rows", "counts"),
    [
        (dag_of(*SOFTMAX), (1, 10), (4, 6)),
        (dag_of([4, 5, 8], lambda x: ops.softmax(x, 2)), (2, 5), (2, 1)),
        (masked(later=False), (1, 6), (4, 10)),
        (masked(later=True), (1,), (4,)),  # a row's number means something
        (dag_of([4, 60, 200], lambda x: ops.softmax(x, 1)), (1,), (4,)),
    ],
)
def test_rows_are_what_all_stages_share(dag, rows, counts):
    number = {(4, 5, 8): 800, (4, 60, 200): 16 << 10}[dag.outputs[0].shape]
    slabs = slabs_of(dag, 0, number, 1)
    assert slabs is not None
    assert (slabs.rows, slabs.counts) == (rows, counts)
    assert [len(t.shape) for t in slabs.part.tensors] == [len(t.shape) for t in dag.tensors]
    assert slabs_of(dag, LARGE, number, 1) is None  # all of it stays near anyway


def test_one_sum_and_products_have_none():
    assert slabs_of(dag_of([64, 64], lambda x: ops.reduce(x, "sum", (1,), False)), 0, 1, 1) is None
    a, b = te.placeholder((64, 64), name="a"), te.placeholder((64, 64), name="b")
    scores = ops.softmax(ops.dense(a, b), 1)
    assert slabs_of(te.ComputeDAG([a, b, scores]), 0, 1, 1) is None


@pytest.mark.parametrize("dag", [dag_of(*SOFTMAX), masked(later=False), turned()])
def test_slabs_are_right(dag):
    rng = np.random.default_rng(0)
    task, inputs = task_of(dag, TARGET), random_inputs(dag, rng)
    want = reference(dag, inputs)
    for sketch in sliced(dag)[:3]:
        for row in sketch.sample(rng, 1):
            check_row(task, sketch, row, inputs, want)
    assert sliced(dag)


def open_softmax() -> te.ComputeDAG:
    """Softmax of masked scores of batches and lengths that a run decides."""
    x, mask = te.placeholder((B, 6, S, S), name="x"), te.placeholder((B, S), name="mask")
    scores = te.compute(x.shape, lambda b, h, i, j: x[b, h, i, j] + mask[b, j], name="scores")
    return te.ComputeDAG([x, mask, ops.softmax(scores, 3)])


def test_of_rows_that_a_run_decides_a_slab_has_one_each():
    dag = open_softmax()
    slabs = slabs_of(dag, 0, 1 << 14, 1)
    assert slabs is not None and (slabs.rows, slabs.counts) == ((1, 6, 1), (B, 1, S))
    assert slabs.each == typical(B) * typical(S)
    few = slabs_of(dag, 0, 1 << 11, 1)
    assert few is not None and (few.rows, few.counts) == ((1, 2, 1), (B, 3, S))
    x = te.placeholder((B, S, 64), name="x")  # whose slabs would be of one row
    assert slabs_of(te.ComputeDAG([x, ops.softmax(x, 2)]), 0, 1 << 14, 1) is None


@pytest.mark.parametrize("cpu", on_x86("x86-64-v3", "znver4"))
def test_slabs_of_open_rows_are_right(cpu):
    dag, rng = open_softmax(), np.random.default_rng(0)
    task = SearchTask(dag, Target(x86(cpu, 2)))
    sketches = [s for s in SearchSpace.of(task).sketches if s.slabs is not None]
    assert [draft_of(task.target).least(s) > 0 for s in sketches] == [True] * len(sketches)
    points = points_of(dag, rng)[:5]
    for sketch in (sketches[0], sketches[-1]):
        (row,) = sketch.sample(rng, 1)
        kernel = build(task, sketch.id, row)
        assert kernel.overwritable == {0}
        check_kernel(task, kernel, points, f"sketch {sketch.id} row {row}")


def test_an_input_of_the_same_places_may_be_overwritten():
    for dag, free in ((dag_of(*SOFTMAX), {0}), (turned(), set())):
        sketch = sliced(dag)[0]
        row = sketch.sample(np.random.default_rng(0), 1)[0]
        assert build(task_of(dag, TARGET), sketch.id, row).overwritable == free


def test_the_draft_takes_slabs_for_what_they_are():
    dag = te.ComputeDAG(softmax(4096, 512))
    task, rng = task_of(dag, TARGET), np.random.default_rng(0)
    draft = draft_of(task.target)
    best = {True: np.inf, False: np.inf}
    for sketch in SearchSpace.of(task).sketches:
        seconds = draft.seconds(sketch, sketch.sample(rng, 64))
        assert draft.least(sketch) <= seconds.min()
        kind = sketch.slabs is not None
        best[kind] = min(best[kind], seconds.min())
    assert best[True] < 0.9 * best[False]


def convolution(
    size: tuple[Extent, ...] = (1, 16, 12),
    taps: int = 3,
    pads: tuple[int, ...] = (1, 1, 1, 1),
    finish: str = "relu",
    groups: tuple[int, ...] = (),
) -> te.ComputeDAG:
    """A convolution of 16 channels with constant weights, and what follows it."""
    n, h, w = size
    x = te.placeholder((n, h, w, *groups, 16), name="x")
    weight = te.placeholder((taps, taps, 16, *groups, 16), name="weight")
    if groups:
        y = ops.grouped_conv(x, weight, (1, 1), pads, (1, 1), layout_free=True)
    else:
        y = ops.conv(x, weight, (1, 1), pads, layout_free=True)
    inputs = [x, weight, te.placeholder((16,), name="bias")]
    if finish == "relu":
        z = te.compute(y.shape, lambda *i: te.maximum(y[i] + inputs[2][i[-1]], 0.0), name="z")
        return te.ComputeDAG([*inputs, z])
    if finish == "turned":
        return te.ComputeDAG([*inputs[:2], te.compute(y.shape, lambda b, i, j, c: y[b, j, i, c])])
    if finish == "channels first":
        shape = [y.shape[d] for d in (0, 3, 1, 2)]
        return te.ComputeDAG([*inputs[:2], te.compute(shape, lambda b, c, i, j: y[b, i, j, c])])
    other = x if finish == "itself" else te.placeholder(y.shape, name="other")
    inputs += [] if finish == "itself" else [other]
    if finish == "staged":  # by a sum, which no other stage takes in
        k = te.reduce_axis(16, "k")
        total = te.compute(y.shape[:3], lambda *i: te.sum(other[(*i, k)], k), name="total")
        z = te.compute(y.shape, lambda *i: y[i] + inputs[2][i[-1]] + total[i[:3]], name="z")
        return te.ComputeDAG([*inputs, z])
    z = te.compute(y.shape, lambda *i: y[i] + inputs[2][i[-1]] + other[i], name="z")
    return te.ComputeDAG([*inputs, z])


CONVOLUTIONS = {
    "padded": convolution(),
    "of two images": convolution((2, 8, 9)),
    "not padded": convolution((1, 18, 14), pads=(0, 0, 0, 0)),
    "padded at the top alone": convolution((1, 16, 12), pads=(2, 1, 0, 1)),
    "padded at the end": convolution((1, 16, 12), pads=(0, 0, 2, 2)),
    "of 5 taps": convolution((1, 8, 12), 5, (2, 2, 2, 2)),
    "with a residual": convolution(finish="residual"),
    "with tiles over the ends": convolution((1, 30, 12)),
    "of groups": convolution((2, 8, 9), groups=(3,)),
    "that overlap": convolution((1, 37, 9)),
    "that overlap, with a residual": convolution((2, 43, 9), finish="residual"),
    "that overlap, not padded": convolution((1, 39, 9), pads=(0, 0, 0, 0)),
}


@pytest.fixture
def cut(monkeypatch):
    """Slabs of one row of tiles, of maps of any size."""

    def slabs(_, dag, target):
        wanted = 1 << 16 if dag.outputs[0].shape[1] == 30 else 1
        return convolution_slabs(dag, 0, wanted, target.num_cores)

    monkeypatch.setattr(CpuSpace, "slabs", slabs)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_slabs_of_convolutions_are_right(name, cut):
    dag, rng = CONVOLUTIONS[name], np.random.default_rng(0)
    task, inputs = task_of(dag, "llvm -mcpu=x86-64-v3 -num-cores=1"), random_inputs(dag, rng)
    (sketch,) = [s for s in SearchSpace.of(task).sketches if s.slabs is not None]
    rows = {"of 5 taps": 2, "with tiles over the ends": 15}.get(name, 4)
    assert sketch.transforms and sketch.slabs.rows == (1, rows)
    assert (sketch.slabs.shared == ()) == ("overlap" not in name)
    want = reference(dag, inputs)
    for row in sketch.sample(rng, 3):
        kernel = build(task, sketch.id, row)
        assert kernel.overwritable == ({3} if "with a residual" in name else set())
        (got,) = run_kernel(kernel, inputs, 1)
        np.testing.assert_allclose(got, want[0], rtol=0, atol=1e-4)
    if name in ("padded", "that overlap"):
        check_row(task, sketch, row, inputs, want)


@pytest.mark.parametrize("seed", range(8))
def test_slabs_of_any_rows_are_right(seed, cut):
    """Of rows that slabs divide, or that the last two share; on two threads."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 3)), int(rng.integers(16, 60)), int(rng.integers(5, 12))
    pads = tuple(int(n) for n in rng.integers(0, 3, 4))
    finish = str(rng.choice(["relu", "residual"]))
    dag = convolution(size, pads=pads, finish=finish, groups=(2,) if rng.random() < 0.3 else ())
    task, inputs = task_of(dag, "llvm -mcpu=x86-64-v3 -num-cores=2"), random_inputs(dag, rng)
    (sketch,) = [s for s in SearchSpace.of(task).sketches if s.slabs is not None]
    draft = draft_of(task.target)
    (want,) = reference(dag, inputs)
    for row in sketch.sample(rng, 2):
        assert draft.least(sketch) <= draft.seconds(sketch, row[None])[0]
        (got,) = run_kernel(build(task, sketch.id, row), inputs, 2)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", [(B, 16, 12), (B, 16, S)])
def test_slabs_of_any_number_of_images_are_right(size, cut):
    dag, rng = convolution(size), np.random.default_rng(0)
    task = SearchTask(dag, Target(x86("x86-64-v3", 2)))
    (sketch,) = [s for s in SearchSpace.of(task).sketches if s.slabs is not None]
    assert sketch.slabs.counts == (B, 4)
    (row,) = sketch.sample(rng, 1)
    kernel = build(task, sketch.id, row)
    check_kernel(task, kernel, points_of(dag, rng)[:4], f"row {row}")


OPEN = {
    "rows": convolution((1, S, 12)),
    "a stage of its own": convolution((1, S, 12), finish="staged"),
    "rows and columns": convolution((B, S, S)),
    "whole tiles": convolution((B, 4 * S, 12)),
    "a residual": convolution((B, S, 9), finish="residual"),
    "groups": convolution((1, S, 12), groups=(2,)),
    "more rows at the end": convolution((1, S, 12), pads=(0, 0, 3, 2)),
    "5 taps": convolution((1, S, 12), 5, (2, 2, 2, 2)),
}


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("threads", [1, 2])
def test_slabs_of_rows_that_a_run_decides_are_right(name, threads, cut):
    """The last one reaches beyond the map, whose rows may be fewer than those of a slab."""
    dag, rng = OPEN[name], np.random.default_rng(0)
    task = SearchTask(dag, Target(x86("x86-64-v3", threads)))
    (sketch,) = [s for s in SearchSpace.of(task).sketches if s.slabs is not None]
    assert sketch.slabs.ragged == (() if name == "whole tiles" else (1,))
    assert draft_of(task.target).least(sketch) > 0
    for row in sketch.sample(rng, 2):
        kernel = build(task, sketch.id, row)
        assert kernel.overwritable == ({3} if name.startswith("a ") else set())
        check_kernel(task, kernel, points_of(dag, rng)[:6], f"row {row}")


@pytest.mark.parametrize(
    "dag",
    [
        convolution((1, S + 2, 12), pads=(0, 0, 0, 0)),  # nothing says what is beyond the end
        convolution((1, 7, 12)),  # there would be one
        convolution(finish="itself"),  # rows of a slab that are not its own
        convolution((1, 16, 16), finish="turned"),  # what is written has others
        convolution((1, 16, 16), finish="channels first"),
        convolution(taps=7, pads=(3, 3, 3, 3)),  # rows or columns are not transformed
    ],
)
def test_convolutions_without_slabs(dag, cut):
    assert not sliced(dag)


def test_slabs_of_maps_that_stay_near_are_not_offered():
    assert not sliced(convolution())
    assert sliced(convolution((1, 128, 256)))
