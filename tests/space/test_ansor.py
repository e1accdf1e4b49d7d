"""Ansor's rules: counts and structures of its sketches, and that each of them runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ansor.rules import ANSOR_RULES
from tests.lower.check import check_row, random_inputs, reference
from tests.te.workloads import conv2d_relu, conv_bn_relu, matmul, max_pool, winograd
from tilework import te
from tilework.space import SearchSpace, Sketch
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -num-cores=4")


def smallest(n: int, m: int):
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis(m, "k")
    return [a, te.compute((n,), lambda i: te.min(a[i, k], axis=k), name="B")]


def total(n: int):
    a, k = te.placeholder((n,), name="A"), te.reduce_axis(n, "k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=k), name="B")]


def ansor(tensors) -> tuple[SearchTask, tuple[Sketch, ...]]:
    task = SearchTask(te.ComputeDAG(tensors), TARGET, rules=ANSOR_RULES)
    return task, SearchSpace.of(task).sketches


def nests(sketch: Sketch) -> list[tuple]:
    """Of each root nest: what it stores, its structure, and where its tile is written."""
    return [(b.result.name, b.structure, b.write_level) for b in sketch.blocks]


def test_matmul():
    _, found = ansor(matmul(512, 512, 512))
    assert [nests(s) for s in found] == [[("C", "SSRSRS", level)] for level in (0, 1, 2)]


def test_small_matmul_has_partial_products_first():
    _, found = ansor(matmul(8, 8, 512))
    assert len(found) == 5
    outer, inner, *plain = found
    for s in (outer, inner):
        assert [n[:2] for n in nests(s)] == [("C_rf", "SRS"), ("C", "SRS")]
    assert [a.name for a in outer.blocks[0].spatial] == ["ko", "i", "j"]
    assert [a.name for a in inner.blocks[0].spatial] == ["i", "j", "ki"]
    assert [nests(s) for s in plain] == [[("C", "SSRSRS", level)] for level in (0, 1, 2)]


def test_convolution_with_its_elementwise_stages():
    _, found = ansor(conv_bn_relu(1, 56, 56, 512, 512, 3, 1, 1))
    pad = ("pad_temp", "SS", 0)
    assert [nests(s) for s in found] == [
        [pad, ("relu", "SSRSRS", 1)],
        [pad, ("relu", "SSRSRS", 2)],
        [pad, ("conv", "SSRSRS", 0), ("relu", "SS", 0)],
    ]
    for s in found:
        assert {"inline bias_add", "inline bn_mul", "inline bn_add"} <= set(s.steps)


def test_max_pool_has_one_sketch():
    _, found = ansor(max_pool(1, 56, 56, 512))
    assert [nests(s) for s in found] == [[("pad_temp", "SS", 0), ("pool_max", "SRS", 0)]]


@pytest.mark.parametrize("tensors", [smallest(10, 1024), total(128)])
def test_long_reductions(tensors):
    _, (outer, inner, plain) = ansor(tensors)
    for s in (outer, inner):
        assert [n[:2] for n in nests(s)] == [("B_rf", "SRS"), ("B", "SRS")]
    assert outer.blocks[0].spatial[0].name == "ko"
    assert inner.blocks[0].spatial[-1].name == "ki"
    assert nests(plain) == [("B", "SRS", 0)]


def test_winograd():
    _, found = ansor(winograd(1, 28, 28, 128, 128, const=True))
    others = {"data_pad": "SS", "input_tile": "SS", "data_pack": "SRS", "inverse": "SRS"}
    for s in found:
        assert {"inline A", "inline B"} <= set(s.steps)
        structures = {name: structure for name, structure, _ in nests(s)}
        assert structures == others | {
            "bgemm": "SSRSRS", "conv2d_winograd": "SS", "T_relu": "SS"
        }  # fmt: skip
    levels = [next(b.write_level for b in s.blocks if b.op.name == "bgemm") for s in found]
    assert levels == [0, 1, 2]


SMALL = {
    "matmul": matmul(19, 33, 12),
    "small matmul": matmul(3, 5, 48),
    "conv": conv_bn_relu(1, 7, 9, 3, 8, 3, 1, 1),
    "strided": conv_bn_relu(1, 9, 8, 5, 6, 3, 2, 1),
    "pool": max_pool(1, 7, 5, 12),
    "min": smallest(5, 96),
    "total": total(91),
    "winograd": winograd(1, 6, 7, 8, 8, const=True),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_sketch_runs(name):
    task, found = ansor(SMALL[name])
    rng = np.random.default_rng(len(name))
    inputs = random_inputs(task.compute_dag, rng)
    want = reference(task.compute_dag, inputs)
    for sketch in found:
        for row in sketch.sample(rng, 2):
            check_row(task, sketch, row, inputs, want, threads=(3,), tol=1e-4)


def test_no_sketch_of_ours_is_among_them():
    """A layer that has Winograd forms: with our rules, not with Ansor's."""
    tensors = conv2d_relu(1, 28, 28, 64, 64)
    dag = te.ComputeDAG(tensors)
    ours = SearchSpace.derive(dag, TARGET).sketches
    assert any(s.transforms for s in ours)
    task = SearchTask(dag, TARGET, rules=ANSOR_RULES)
    for sketches in (
        SearchSpace.of(task).sketches,
        SearchSpace.derive(dag, TARGET, ANSOR_RULES).sketches,
    ):
        assert len(sketches) == 3
        assert not any(s.transforms for s in sketches)
        assert all(s.dag is dag for s in sketches)
