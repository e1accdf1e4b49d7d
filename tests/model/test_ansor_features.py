"""Features of the yardstick in `benchmarks/ansor`: values worked out by hand, and its search."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.hosts import x86
from tests.te.workloads import conv2d_relu, matmul
from tilework import te
from tilework.measure.records import to_records
from tilework.record import MemoryHistory
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target(x86("x86-64-v3", 2))
ONE = np.ones(1)


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield
    for name in [n for n in sys.modules if n == "ansor" or n.startswith("ansor.")]:
        del sys.modules[name]


def loop(kind, axis, extent, step):
    from ansor.program import Loop, Part

    return Loop(kind, {axis: Part(ONE * extent, ONE * step)})


def columns_of(stores):
    """Of each store, its features by name."""
    from ansor.features import NAMES, store_features

    seen = {}
    assert len(NAMES) == 164
    found = [store_features(store, seen, 1)[0] for store in stores]
    return [dict(zip(NAMES, values, strict=True)) for values in found]


def buffer(columns, index):
    """The block of columns of one buffer, as values."""
    names = [n for n in columns if n.startswith(f"B{index}.")]
    return {n.partition(".")[2]: 2.0 ** columns[n] - 1 for n in names}


def test_a_tiled_matmul():
    """C[512, 512] += A B: 32 x 64 parallel loops, k unrolled, vectors of 8, 16 rows inside."""
    from ansor.operations import operations_of
    from ansor.program import Access, Store

    a, b, c = matmul(512, 512, 512)
    i, j = c.op.axes
    (k,) = c.op.reduce_axes
    loops = (
        loop("parallel", i, 32, 16), loop("parallel", j, 64, 8), loop("unroll", k, 512, 1),
        loop("vector", j, 8, 1), loop("serial", i, 16, 1),
    )  # fmt: skip

    def access(op, kind, *axes):
        return Access((op, ""), kind, (512, 512), 4, tuple({x: 1.0} for x in axes), (0.0, 0.0))

    accesses = (access(c.op, "both", i, j), access(a.op, "read", i, k), access(b.op, "read", k, j))
    operations = operations_of(c.op.body)
    (found,) = columns_of([Store(loops, accesses, operations, 0 * ONE)])
    for name in ("float_addsub", "float_mul"):
        assert found[name] == pytest.approx(np.log2(512**3 + 1))
    assert found["unroll_num"] == found["vec_num"] == 1
    assert found["parallel_num"] == pytest.approx(np.log2(3))
    assert found["parallel_prod"] == pytest.approx(np.log2(512 * 512 / 16 / 8 + 1))
    blocks = [buffer(found, n) for n in range(3)]
    stored = next(x for x in blocks if x["acc_both"] == 1)
    left = next(x for x in blocks if x["acc_read"] == 1 and x["stride"] > 0)
    right = next(x for x in blocks if x["acc_read"] == 1 and x["stride"] == 0)
    assert found["B0.acc_both"] + found["B1.acc_both"] == 1  # sorted by lines: C and A before B
    expected = {
        "bytes": (536870912,) * 3, "unique_bytes": (1048576,) * 3, "stride": (512, 512, 0),
        "lines": (134217728, 134217728, 524288), "unique_lines": (16384,) * 3,
        "reuse_ct": (512, 8, 16), "reuse_dis_iter": (128, 16, 1),
        "reuse_dis_bytes": (608, 132, 12), "reuse_loop": (1, 1, 1),
    }  # fmt: skip
    for name, values in expected.items():
        assert [x[name] for x in (stored, left, right)] == pytest.approx(values), name
    curve = [found[f"arith_intensity_curve_{n}"] for n in range(10)]
    assert curve == pytest.approx(
        [3.8126, 4.4648, 4.9123, 5.2534, 5.5291, 5.7604, 5.9598, 6.1348, 6.2910, 6.4318], abs=1e-4
    )
    assert found["num_loops"] == pytest.approx(np.log2(6))
    assert found["outer_prod"] == pytest.approx(np.log2(512**3 + 1))


def test_a_value_used_by_the_next_store_of_a_loop():
    """B copies A, C copies B, 64 x 32, B computed where C's inner loop is."""
    from ansor.operations import Operations
    from ansor.program import Access, Store

    a = te.placeholder((64, 32), "A")
    b = te.compute((64, 32), lambda i, j: a[i, j], "B")
    c = te.compute((64, 32), lambda i, j: b[i, j], "C")
    i, j = c.op.axes
    loops = (loop("serial", i, 64, 1), loop("serial", j, 32, 1))

    def access(op, kind):
        return Access((op, ""), kind, (64, 32), 4, ({i: 1.0}, {j: 1.0}), (0.0, 0.0))

    stores = [
        Store(loops, (access(to, "write"), access(of, "read")), Operations(), 0 * ONE)
        for to, of in ((b.op, a.op), (c.op, b.op))
    ]
    _, found = columns_of(stores)
    again = next(x for x in (buffer(found, n) for n in range(2)) if x["reuse_serial"] == 1)
    assert again["acc_read"] == 1
    assert again["reuse_dis_iter"] == 1 and again["reuse_dis_bytes"] == pytest.approx(16)


def test_rows_of_a_sketch_are_what_their_tiles_say():
    from ansor.features import NAMES, features
    from ansor.search import ansor_task

    from tilework.space import SearchSpace

    task = ansor_task(SearchTask(te.ComputeDAG(conv2d_relu(1, 14, 14, 16, 32)), TARGET))
    rng = np.random.default_rng(0)
    at = {name: n for n, name in enumerate(NAMES)}
    for sketch in SearchSpace.of(task).sketches:
        rows = sketch.sample(rng, 16)
        found = features(sketch, rows)
        assert found.shape == (len(rows), found.shape[1], 164) and np.isfinite(found).all()
        one = features(sketch, rows[3:4])
        np.testing.assert_allclose(one[0], found[3], rtol=1e-6)
        main = found[:, :, at["float_mul"]].max(axis=1)  # padded positions of tiles count, too
        assert (main >= np.log2(14 * 14 * 32 * 9 * 16 + 1) - 1e-4).all()


def test_the_search_finds_what_is_fast_and_goes_on_from_records():
    from ansor.search import AnsorPolicy, ansor_task

    task = ansor_task(SearchTask(te.ComputeDAG(matmul(64, 64, 64)), TARGET))
    history = MemoryHistory()

    def answer(policy, candidates):
        from tilework.measure.candidates import Measured
        from tilework.record import Status

        spaces = policy.space
        out = []
        for one in candidates:
            draft = spaces.draft.seconds(
                spaces.sketches[one.sketch_id], np.array([one.row], np.int32)
            )
            out.append(Measured(one, Status.ok, latency_s=float(draft[0])))
        return out

    policy = AnsorPolicy(task, seed=3, population=128)
    bests = []
    for number in range(4):
        candidates = policy.propose(history, 48)
        assert len({(c.sketch_id, c.row) for c in candidates}) == len(candidates) == 48
        assert policy.model.trained == (number >= 3)
        measured = answer(policy, candidates)
        history.append(to_records(task, measured, run_id="yardstick", round=number))
        bests.append(np.median([m.latency_s for m in measured]))
    assert bests[3] < min(bests[:3])
    again = AnsorPolicy(task, seed=3, population=128)
    assert again.propose(history, 48) == policy.propose(history, 48)
