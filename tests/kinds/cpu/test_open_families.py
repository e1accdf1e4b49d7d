"""Kernels of computations whose extents a run decides, at many points, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.hosts import on_x86, x86
from tests.kinds.cpu.guards import run_at
from tests.lower.check import any_rows, assert_close, random_inputs, reference
from tests.lower.open_families import (
    ANY_WINDOWS,
    FAMILIES,
    KNOWN_WINDOWS,
    conv_of_any_size,
    dense_of_batches,
    softmax,
    strided_depthwise,
)
from tilework.errors import ModuleError
from tilework.index.extents import shape_at
from tilework.index.symbols import Symbol
from tilework.kinds.cpu.build import BUILDER
from tilework.kinds.cpu.device import DEVICE
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.lower.kernel import Kernel
from tilework.measure.settings import Settings
from tilework.measure.trial import Trial
from tilework.measure.verify import make_reference
from tilework.model.drafted import draft_schedule
from tilework.record import Status
from tilework.runtime.arrays import aligned_empty
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te import ComputeDAG
from tilework.te.points import at_point

CPUS = ("znver4", "haswell", "x86-64")
POINTS = 10


def points_of(dag: ComputeDAG, rng: np.random.Generator) -> list[dict[Symbol, int]]:
    """Both ends, and any others: around tiles, vectors, and halves of them."""
    symbols = dag.symbols
    near = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33]
    out = [{s: s.low for s in symbols}, {s: s.high for s in symbols}]
    while len(out) < POINTS:
        out.append({
            s: int(np.clip(rng.choice(near), s.low, s.high))
            if rng.random() < 0.6 else int(rng.integers(s.low, s.high + 1))
            for s in symbols
        })  # fmt: skip
    return out


def check(task: SearchTask, sketch_id: int, row, points) -> None:
    kernel = BUILDER.build(task, sketch_id, row)
    check_kernel(task, kernel, points, f"sketch {sketch_id} row {[int(x) for x in row]}")


def check_kernel(task: SearchTask, kernel: Kernel, points, schedule: str) -> None:
    dag = task.compute_dag
    rng = np.random.default_rng(1)
    loaded = load_kernel(kernel)
    threads = (1,) if task.target.num_cores == 1 else (1, 2)
    for at in points:
        static = at_point(dag, at)
        inputs = random_inputs(static, rng)
        want = reference(static, inputs)
        for n, at_end in itertools.product(threads, (True, False)):
            got = run_at(loaded, at, inputs, n, at_end)
            where = {s.name: v for s, v in at.items()}
            what = f"{dag}{schedule} at {where}, {n} threads"
            assert_close(got, want, what, 1e-4)


@pytest.mark.parametrize("cpu", on_x86(*CPUS))
@pytest.mark.parametrize("family", range(len(FAMILIES)), ids=lambda f: FAMILIES[f].__name__)
def test_a_kernel_is_right_at_every_point(family, cpu):
    """The draft's row for one core and any row for two, or the other way round.

    So each family and each CPU has both rows for both numbers of cores.
    """
    dag = FAMILIES[family]()
    rng = generator(FAMILIES[family].__name__, cpu)
    points = points_of(dag, rng)
    swapped = (family + CPUS.index(cpu)) % 2
    task = SearchTask(dag, Target(x86(cpu, 1 + swapped)))
    choice = draft_schedule(task)
    check(task, choice.sketch_id, choice.row, points)
    task = SearchTask(dag, Target(x86(cpu, 2 - swapped)))
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    for row in sketch.sample(rng, 1) if swapped else any_rows(sketch, rng, 1):
        check(task, sketch.id, row, points)


@pytest.mark.parametrize("cpu", on_x86(*CPUS))
@pytest.mark.parametrize("make", KNOWN_WINDOWS, ids=lambda f: f.__name__)
def test_windows_along_known_axes(make, cpu):
    dag, rng = make(), generator(make.__name__, cpu)
    task = SearchTask(dag, Target(x86(cpu, 2)))
    forms = [s for s in SearchSpace.of(task).sketches if s.form or "inline" in s.name]
    for sketch in rng.permutation(np.array(forms, object))[:2]:
        check(task, sketch.id, sketch.sample(rng, 1)[0], points_of(dag, rng)[:5])


@pytest.mark.parametrize("make", [*ANY_WINDOWS[:3], strided_depthwise], ids=lambda f: f.__name__)
def test_borders_that_a_run_decides(make):
    """Of the smallest images, too, where every window reaches over an end or over both."""
    dag, rng = make(), generator(make.__name__)
    task = SearchTask(dag, Target("llvm -num-cores=2"))
    inlined = [s for s in SearchSpace.of(task).sketches if "inline" in s.name]
    sizes = [(1, 1), (1, 2), (2, 1), (3, 5), (4, 4), (5, 11), (7, 8), (8, 3), (12, 9), (13, 11)]
    points = [{s: {"height": h, "width": w}.get(s.name, 2) for s in dag.symbols} for h, w in sizes]
    for sketch in inlined:
        for row in sketch.sample(rng, 3):
            check(task, sketch.id, row, points)


@pytest.mark.parametrize("cpu", on_x86(*CPUS))
def test_winograds_tiles_of_any_number_of_outputs(cpu):
    """One output, as many as a tile has, one fewer, one more, and so on: along both axes."""
    dag, rng = conv_of_any_size(), generator("winograd", cpu)
    task = SearchTask(dag, Target(x86(cpu, 2)))
    height, width = dag.symbols
    points = [{height: h, width: w} for h in (1, 2, 3, 4, 5, 7, 13) for w in (1, 3, 4, 11)]
    forms = [s for s in SearchSpace.of(task).sketches if s.form.startswith("winograd F(4x4")]
    for sketch in forms:
        check(task, sketch.id, sketch.sample(rng, 1)[0], points)
    assert len(forms) == 2


@pytest.mark.parametrize("make", [dense_of_batches, softmax], ids=lambda f: f.__name__)
def test_a_device_verifies_and_times_a_kernel_at_points(make):
    dag = make()
    task = SearchTask(dag, Target("llvm -num-cores=2"))
    choice = draft_schedule(task)
    kernel = BUILDER.build(task, choice.sketch_id, choice.row)
    for at in points_of(dag, generator(make.__name__))[:4]:
        right = make_reference(at_point(dag, at), 0)
        loaded = DEVICE.load(kernel)
        trial = Trial(kernel, loaded, DEVICE, task.target, right, Settings(), at)
        assert trial.verify().status == Status.ok
        trial.bind()()


def test_a_value_out_of_its_range_is_refused():
    dag = softmax()
    task = SearchTask(dag, Target("llvm -num-cores=1"))
    choice = draft_schedule(task)
    loaded = load_kernel(BUILDER.build(task, choice.sketch_id, choice.row))
    at = {s: s.high + (s.name == "seq") for s in dag.symbols}
    numbers = {s.name: n for s, n in at.items()}
    arrays = [aligned_empty(shape_at(a.shape, at), a.dtype) for a in loaded.kernel.args]
    for arg, array in zip(loaded.kernel.args, arrays, strict=True):
        array[...] = numbers[arg.name] if arg.role == "symbol" else 0
    with pytest.raises(ModuleError, match="argument seq: 68 is not within 1 to 67"):
        loaded.bind(arrays, None, 1)
