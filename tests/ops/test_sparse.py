"""Products with block-sparse weights: what they compute, in every way that we can run them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hosts import runs_x86, x86
from tests.lower.check import NATIVE, any_rows, check_row, task_of
from tilework import ops, te
from tilework.index.symbols import symbol
from tilework.lower.interpret import interpret
from tilework.lower.interpret_places import ProgramError
from tilework.lower.register_tiles.program import lower
from tilework.ops.bsr import block_grid, from_bsr, prune, random_structure, to_bsr, zero_share
from tilework.ops.sparse import sparse_conv, sparse_dense
from tilework.space import SearchSpace
from tilework.space.ragged import copies
from tilework.space.sparse import SPARSE_RULES
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.serial import DagFormatError, dag_from_json, dag_to_json

BLOCKS = [(16, 1), (1, 1), (4, 1), (16, 4), (1, 8), (3, 2), (32, 1), (8, 2)]
QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def weight(rng: np.random.Generator, units: int, columns: int, block, density: float):
    """A weight with random blocks of zeros; the first block row is empty unless all are full."""
    w = rng.uniform(-1, 1, (units, columns)).astype(np.float32)
    high, wide = block_grid((units, columns), block)
    keep = rng.random((high, wide)) < density
    if density < 1:
        keep[0] = False
    mask = np.repeat(np.repeat(keep, block[0], 0), block[1], 1)[:units]
    return w * mask


def arrays_of(bsr):
    return (
        te.placeholder(bsr.data.shape, "data"),
        te.placeholder(bsr.indices.shape, "indices", "int32"),
        te.placeholder(bsr.indptr.shape, "indptr", "int32"),
    )


def dense_dag(batch: int, units: int, columns: int, bsr, finish: bool) -> te.ComputeDAG:
    x, parts = te.placeholder((batch, columns), "x"), arrays_of(bsr)
    y = sparse_dense(x, *parts, units)
    if not finish:
        return te.ComputeDAG([x, *parts, y])
    b = te.placeholder((1, units), "b")
    return te.ComputeDAG([x, *parts, b, ops.relu(ops.add(y, b))])


def conv_dag(shape, units: int, bsr, strides, last: bool) -> te.ComputeDAG:
    x, parts = te.placeholder(shape, "x"), arrays_of(bsr)
    return te.ComputeDAG([x, *parts, sparse_conv(x, *parts, units, strides, channels_last=last)])


def check(dag: te.ComputeDAG, inputs, want, rng, rows: int = 2) -> None:
    """The reference, and all sketches interpreted and compiled, give what NumPy gives."""
    np.testing.assert_allclose(te.evaluate(dag, inputs)[0], want, atol=2e-5, rtol=1e-5)
    task = SearchTask(dag, Target(NATIVE), rules=SPARSE_RULES)
    for sketch in SearchSpace.of(task).sketches:
        for row in (*sketch.sample(rng, rows), *any_rows(sketch, rng, 1)):
            check_row(task, sketch, row, inputs, [want], threads=(2,))


class TestDense:
    @QUICK
    @given(st.data())
    def test_every_shape_block_and_density(self, data):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
        block = data.draw(st.sampled_from(BLOCKS))
        units = data.draw(st.integers(1, 70))
        columns = block[1] * data.draw(st.integers(1, 30))
        batch = data.draw(st.sampled_from([1, 2, 5, 8]))
        w = weight(rng, units, columns, block, data.draw(st.sampled_from([0.0, 0.15, 0.5, 1.0])))
        bsr = to_bsr(w, block)
        finish = data.draw(st.booleans())
        dag = dense_dag(batch, units, columns, bsr, finish)
        x = rng.uniform(-1, 1, (batch, columns)).astype(np.float32)
        b = rng.uniform(-1, 1, (1, units)).astype(np.float32)
        want = np.maximum(x @ w.T + b, 0) if finish else x @ w.T
        check(dag, [x, *bsr, *([b] if finish else [])], want, rng)

    def test_epilogues_are_computed_with_it(self):
        bsr = to_bsr(np.ones((32, 8), np.float32), (16, 1))
        task = task_of(dense_dag(2, 32, 8, bsr, True))
        assert all(len(s.blocks) == 1 for s in SearchSpace.of(task).sketches)

    def test_narrow_blocks_are_also_offered_across_the_batch(self):
        def sketches(batch: int, rows: int) -> list[str]:
            bsr = to_bsr(np.ones((32, 8), np.float32), (rows, 1))
            dag = dense_dag(batch, 32, 8, bsr, True)
            task = SearchTask(dag, Target(x86("znver4")), rules=SPARSE_RULES)
            return [s.name for s in SearchSpace.of(task).sketches]

        assert [len(sketches(*which)) for which in ((16, 4), (1, 4), (16, 16))] == [2, 1, 1]
        assert "turn T_sparse_dense: vectors of 16 points" in sketches(16, 4)[0]

    def test_flops_count_as_dense_and_as_real(self):
        w = prune(np.ones((1000, 2048), np.float32), 0.85, (16, 1), np.random.default_rng(0))
        bsr = to_bsr(w, (16, 1))
        dag = dense_dag(1, 1000, 2048, bsr, False)
        assert dag.flops == 2 * 1000 * 2048
        assert 0.14 * dag.flops < dag.real_flops < 0.16 * dag.flops

    def test_accumulators_follow_the_unroll_limit(self):
        assert list(copies(np.array([0, 31, 32, 96, 192]))) == [1, 1, 2, 4, 8]


class TestConv:
    @QUICK
    @given(st.data())
    def test_both_layouts(self, data):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
        block = data.draw(st.sampled_from(BLOCKS))
        last = data.draw(st.booleans())
        units = data.draw(st.integers(1, 40))
        columns = block[1] * data.draw(st.integers(1, 12))
        n, h, wd = (data.draw(st.integers(1, top)) for top in (2, 6, 9))
        strides = data.draw(st.sampled_from([(1, 1), (2, 2), (1, 2)]))
        w = weight(rng, units, columns, block, data.draw(st.sampled_from([0.0, 0.3, 1.0])))
        bsr = to_bsr(w, block)
        x = rng.uniform(-1, 1, (n, h, wd, columns)).astype(np.float32)
        want = x[:, :: strides[0], :: strides[1]] @ w.T
        if not last:
            x, want = (np.ascontiguousarray(a.transpose(0, 3, 1, 2)) for a in (x, want))
        check(conv_dag(x.shape, units, bsr, strides, last), [x, *bsr], want, rng, rows=1)

    def test_one_spatial_axis(self):
        rng = np.random.default_rng(0)
        w = weight(rng, 20, 6, (4, 2), 0.5)
        bsr = to_bsr(w, (4, 2))
        x = rng.uniform(-1, 1, (1, 7, 6)).astype(np.float32)
        check(conv_dag(x.shape, 20, bsr, (1,), True), [x, *bsr], x @ w.T, rng)

    @runs_x86
    def test_a_narrow_target(self):
        rng = np.random.default_rng(1)
        w = weight(rng, 33, 8, (16, 1), 0.5)
        bsr = to_bsr(w, (16, 1))
        x = rng.uniform(-1, 1, (1, 3, 3, 8)).astype(np.float32)
        dag = conv_dag(x.shape, 33, bsr, (1, 1), True)
        task = task_of(dag, x86("core-avx2", 2))
        for sketch in SearchSpace.of(task).sketches:
            for row in sketch.sample(rng, 3):
                check_row(task, sketch, row, [x, *bsr], [x @ w.T])


class TestLimits:
    def test_text_and_document(self):
        bsr = to_bsr(np.ones((16, 4), np.float32), (16, 1))
        dag = dense_dag(1, 16, 4, bsr, False)
        assert "for e < (indptr[(floordiv(j, 16) + 1)] - indptr[floordiv(j, 16)])" in str(dag)
        again = dag_from_json(dag_to_json(dag))
        assert again.workload_key == dag.workload_key
        assert again.real_flops == dag.real_flops
        other = dag_to_json(dag).replace('[[2,["-"', '[[3,["-"')
        with pytest.raises(DagFormatError):
            dag_from_json(other.replace('"reduce","sum",[2,3]', '"reduce","sum",[2]'))

    @pytest.mark.parametrize("kind", ["sum", "max"])
    def test_limits_are_clipped_to_the_axis(self, kind):
        rng = np.random.default_rng(0)
        ends = te.placeholder((5,), "ends", "int32")
        x = te.placeholder((5, 7), "x")
        k = te.reduce_axis(7, "k")
        reduce = getattr(te, kind)
        y = te.compute((5,), lambda i: reduce(x[i, k], axis=k, limits={k: ends[i]}), "y")
        array = rng.uniform(-1, 1, (5, 7)).astype(np.float32)
        counts = np.array([0, 7, 1, 99, -3] if kind == "sum" else [3, 7, 1, 99, 5], np.int32)
        parts = [a[: max(n, 0)] for a, n in zip(array, counts, strict=True)]
        want = np.array([getattr(np, kind)(p) for p in parts], np.float32)
        check(te.ComputeDAG([ends, x, y]), [counts, array], want, rng)

    def test_limits_are_integers_of_spatial_axes(self):
        k = te.reduce_axis(7, "k")
        x, ends = te.placeholder((7,), "x"), te.placeholder((7,), "ends", "int32")
        for limit in (x[0], ends[k]):
            with pytest.raises(ValueError, match="must be an int32 expression of spatial axes"):
                te.sum(x[k], axis=k, limits={k: limit})
        with pytest.raises(ValueError, match="not reduced over"):
            te.sum(x[k], axis=k, limits={te.reduce_axis(3, "m"): ends[0]})

    def test_wrong_indices_are_found(self):
        rng = np.random.default_rng(0)
        bsr = to_bsr(np.ones((16, 4), np.float32), (16, 1))
        dag = dense_dag(1, 16, 4, bsr, False)
        bad = bsr.indices.copy()
        bad[1] = 4
        inputs = [np.ones((1, 4), np.float32), bsr.data, bad, bsr.indptr]
        with pytest.raises(IndexError):
            te.evaluate(dag, inputs)
        sketch = SearchSpace.of(task_of(dag)).sketches[0]
        with pytest.raises(ProgramError):
            interpret(lower(sketch, sketch.sample(rng, 1)[0]).program, inputs)


class TestArrays:
    @given(st.data())
    @settings(max_examples=30, deadline=None)
    def test_there_and_back(self, data):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
        block = data.draw(st.sampled_from(BLOCKS))
        units, columns = data.draw(st.integers(1, 40)), block[1] * data.draw(st.integers(1, 9))
        w = weight(rng, units, columns, block, 0.4)
        np.testing.assert_array_equal(from_bsr(to_bsr(w, block), units, columns), w)

    def test_pruning_keeps_the_largest_blocks(self):
        w = np.arange(1, 65, dtype=np.float32).reshape(8, 8)
        out = prune(w, 0.75, (4, 2), None)
        assert zero_share(out, (4, 2)) == 0.75
        np.testing.assert_array_equal(out[4:, 4:], w[4:, 4:])

    def test_random_pruning_has_a_seed(self):
        w = np.ones((32, 8), np.float32)
        one, same, other = (prune(w, 0.5, (4, 2), np.random.default_rng(s)) for s in (1, 1, 2))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()
        assert zero_share(one, (4, 2)) == 0.5

    def test_random_structures_are_in_range(self):
        indices, indptr = random_structure(5, 7, 12, np.random.default_rng(0))
        assert len(indices) == indptr[-1] == 12
        assert indices.min() >= 0
        assert indices.max() < 7
        assert (np.diff(indptr) >= 0).all()

    def test_shapes_that_do_not_fit(self):
        x = te.placeholder((1, 8), "x")
        bsr = to_bsr(np.ones((16, 8), np.float32), (16, 1))
        data, indices, indptr = arrays_of(bsr)
        with pytest.raises(ValueError, match="2 block rows"):
            sparse_dense(x, data, indices, indptr, 17)
        with pytest.raises(ValueError, match="do not divide"):
            sparse_dense(x, te.placeholder((8, 3, 16), "d"), indices, indptr, 16)
        with pytest.raises(ValueError, match="at most 64"):
            sparse_dense(x, te.placeholder((8, 1, 128), "d"), indices, indptr, 128)


def test_points_whose_number_a_run_decides_are_not_turned():
    rng = np.random.default_rng(0)
    bsr = to_bsr(weight(rng, 16, 32, (4, 1), 0.5), (4, 1))
    for batch, turned in ((64, True), (symbol("batch", 1, 64, (64,)), False)):
        task = SearchTask(dense_dag(batch, 16, 32, bsr, True), Target(NATIVE), rules=SPARSE_RULES)
        steps = [step for s in SearchSpace.of(task).sketches for step in s.steps]
        assert any(step.startswith("turn ") for step in steps) == turned
