"""Kernels of two rows: each on its side of the hand-over, with constants that lie one way."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import runs, runs_x86, x86
from tests.kinds.cpu.test_open_families import check_kernel, points_of
from tests.lower import open_families
from tilework import te
from tilework.errors import ScheduleError
from tilework.index.symbols import symbol, value_at
from tilework.kinds.cpu.build import BUILDER
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.model.drafted import draft_schedule
from tilework.model.family import family_of
from tilework.model.second import Fixed
from tilework.ops.packed import packed_dense
from tilework.runtime import aligned_copy, aligned_empty
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.space.panels import panels
from tilework.target import Target
from tilework.task import SearchTask

CPUS = [cpu for cpu in ("znver4", "haswell") if runs(cpu)]
FAMILIES = (
    open_families.dense, open_families.dense_of_merged_rows, open_families.two_dense,
    open_families.scores_of_turned_keys, open_families.softmax, open_families.conv,
)  # fmt: skip


def two_rows(task: SearchTask, rng: np.random.Generator):
    """Two programs whose constants lie alike."""
    family = family_of(task)
    large = family[int(rng.integers(len(family)))]
    row, *_ = large.sample(rng, 1)
    if any(Fixed(sketch).columns for sketch in family):
        rows = Fixed(large).like(large.sample(rng, 64), row)
        return (large, rows[int(rng.integers(len(rows)))]), (large, row)
    small = family[int(rng.integers(len(family)))]
    return (small, small.sample(rng, 1)[0]), (large, row)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("family", range(len(FAMILIES)), ids=lambda f: FAMILIES[f].__name__)
@runs_x86
def test_a_kernel_of_two_is_right_on_both_sides(family, cores):
    """Each CPU with one core or two, in turns."""
    dag, cpu = FAMILIES[family](), CPUS[(family + cores) % len(CPUS)]
    rng = generator("handed over", FAMILIES[family].__name__, cpu, cores)
    task = SearchTask(dag, Target(x86(cpu, cores)))
    small, large = two_rows(task, rng)
    one, other = (BUILDER.build(task, sketch.id, row) for sketch, row in (small, large))
    points = points_of(dag, rng)
    grows = dag.open_extents[int(rng.integers(len(dag.open_extents)))]
    most = value_at(grows, points[int(rng.integers(len(points)))])
    sides = {value_at(grows, at) <= most for at in points}
    assert sides == {True, False} or most == max(value_at(grows, at) for at in points)
    kernel = BUILDER.handed_over(one, other, grows, most, task.target)
    check_kernel(task, kernel, points, f"{small}, {large} up to {grows} = {most}")


@runs_x86
def test_one_kernel_is_right_where_a_run_takes_one_thread_and_beyond():
    dag, rng = open_families.dense(), np.random.default_rng(0)
    task = SearchTask(dag, Target(x86(CPUS[0], 2)))
    sketch = family_of(task)[0]
    one = BUILDER.build(task, sketch.id, sketch.sample(rng, 1)[0])
    points = points_of(dag, rng)
    most = value_at(dag.open_extents[0], points[0])
    kernel = BUILDER.handed_over(one, one, dag.open_extents[0], most, task.target)
    assert len(kernel.pieces) == len(one.pieces) + 1
    check_kernel(task, kernel, points, f"one up to {most}")


def test_the_small_one_runs_up_to_the_border():
    """Code of another computation of the same arguments, to be told apart."""
    x = open_families.tensor("x", open_families.S, 4)
    target = Target("llvm -num-cores=1")

    def kernel(scale):
        dag = te.ComputeDAG([x, te.compute(x.shape, lambda i, j: x[i, j] * scale, "y")])
        task = SearchTask(dag, target)
        sketch = SearchSpace.of(task).sketches[0]
        return BUILDER.build(task, sketch.id, sketch.sample(np.random.default_rng(0), 1)[0])

    small, large = kernel(2.0), kernel(3.0)
    loaded = load_kernel(BUILDER.handed_over(small, large, open_families.S, 16, target))
    for seq in (1, 15, 16, 17, 33, 67):
        given, out = (
            aligned_copy(np.ones((seq, 4), np.float32)),
            aligned_empty((seq, 4), "float32"),
        )
        loaded([given, out, aligned_copy(np.array(seq))], None, 1)
        assert (out == (2 if seq <= 16 else 3)).all()


@runs_x86
@pytest.mark.parametrize("cpu", CPUS)
def test_weights_of_few_bits_are_unpacked_once_where_rows_are_many(cpu):
    """Few rows read what is packed for many, and share it where nobody has looked."""
    rows = symbol("rows", 1, 128, (1, 128))
    shapes = [("x", (rows, 1024)), ("q", (512, 32, 4)), ("s", (512, 32))]
    types = ("float32", "int32", "float32")
    inputs = [te.placeholder(at, name, t) for (name, at), t in zip(shapes, types, strict=True)]
    dag = te.ComputeDAG([*inputs, packed_dense(*inputs, bits=4, layout_free=True)])
    task = SearchTask(dag, Target(x86(cpu, 1)))
    choice = draft_schedule(task)
    assert choice.small is not None and 4 < choice.small.most < 32
    space = SearchSpace.of(task)
    nests = [space.sketch(i).nests(np.array([row]))[-1] for i, row in choice.schedules]
    assert [bool(panels(nest)[0]) for nest in nests] == [True, False]
    assert all(nest.tiles[nest.block.spatial[0]][-1][0] > 1 for nest in nests)
    over, kernels = choice.small, [BUILDER.build(task, i, row) for i, row in choice.schedules]
    kernel = BUILDER.handed_over(*reversed(kernels), over.extent, over.most, task.target)
    (extent,) = dag.symbols
    check_kernel(task, kernel, [{extent: n} for n in (1, 2, 5, 33, 128)], str(choice))


def test_kernels_that_pack_otherwise_are_refused():
    task = SearchTask(open_families.dense(), Target("llvm -num-cores=1"))
    sketch, rng = family_of(task)[0], np.random.default_rng(0)
    rows = sketch.sample(rng, 64)
    fixed = Fixed(sketch).columns
    assert fixed
    other = next(row for row in rows if (row[fixed] != rows[0][fixed]).any())
    kernels = [BUILDER.build(task, sketch.id, row) for row in (rows[0], other)]
    assert kernels[0].args != kernels[1].args
    with pytest.raises(ScheduleError, match="lie another way"):
        BUILDER.handed_over(*kernels, open_families.S, 16, task.target)
