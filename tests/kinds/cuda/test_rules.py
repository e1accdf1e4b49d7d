"""Sketches for GPUs: every stage of every network is decided, in the forms that fit it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.te.workloads import conv2d_relu, matmul
from tilework import ops, te
from tilework.graph import extract_tasks, zoo
from tilework.kinds.cuda.row_chain import chain_of
from tilework.kinds.cuda.tiling import form_of
from tilework.space import SearchSpace
from tilework.target import Target

A100 = Target("cuda -model=a100")
NETWORKS = {
    "resnet-18": 24, "resnet-50": 29, "mobilenet": 22, "inception_v3": 56,
    "squeezenet_v1.1": 23, "resnet3d-18": 23, "mlp": 4,
}  # fmt: skip


def forms(tensors) -> list[str]:
    """The forms of each sketch's kernels."""
    found = SearchSpace.derive(te.ComputeDAG(tensors), A100).sketches
    return [" ".join(form_of(b) for b in s.blocks) for s in found]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_task_of_a_network_has_sketches_with_valid_rows(name):
    tasks, _ = extract_tasks(zoo.get(name), A100)
    assert len(tasks) == NETWORKS[name]
    count = 0
    for task in tasks:
        sketches = SearchSpace.of(task).sketches
        assert sketches
        assert len({s.steps for s in sketches}) == len(sketches)
        for s in sketches:
            assert len(s.sample(np.random.default_rng(0), 4)) == 4, s.name
        count += len(sketches)
    assert count <= 4.5 * len(tasks)


def softmax(*shape: int, axis: int = -1):
    x = te.placeholder(shape, "x")
    return [x, ops.softmax(x, axis)]


def layer_norm(*shape: int):
    x = te.placeholder(shape, "x")
    return [x, ops.normalize(x, [len(shape) - 1], 1e-5)]


def test_softmax_is_one_kernel_that_holds_its_powers():
    assert forms(softmax(8, 1000)) == ["rows"]
    (sketch,) = SearchSpace.derive(te.ComputeDAG(softmax(8, 1000)), A100).sketches
    chain = chain_of(sketch.blocks[0])
    assert [s.name for s in chain.stages] == [
        "T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum", "T_softmax_norm",
    ]  # fmt: skip
    assert (chain.count, chain.terms) == (8, 1000)
    held = [op.name for op, _ in chain.held()]
    assert held == ["x", "T_softmax_exp"]
    assert chain.live == 1  # the powers take the elements' registers


def test_columns_that_lie_apart_have_another_form_beside():
    assert forms(softmax(2, 64, 100, axis=1))[0] == "rows"
    assert len(forms(softmax(2, 64, 100, axis=1))) > 1


def test_rows_too_long_for_a_block_are_several_kernels():
    found = forms(softmax(2, 1 << 17))
    assert found
    assert all("rows" not in f for f in found)


def test_norms():
    assert forms(layer_norm(128, 768)) == ["rows"]


def test_long_products_of_few_points_are_split():
    assert "tiled direct" in forms(matmul(64, 64, 4096))
    assert forms(matmul(4096, 4096, 4096)) == ["tiled"]


def test_padding_is_computed_while_it_is_staged():
    dag = te.ComputeDAG(conv2d_relu(1, 56, 56, 64, 64, 3, 1, 1))
    for s in SearchSpace.derive(dag, A100).sketches:
        if form_of(s.blocks[0]) == "tiled":
            assert [a.op.name for a in s.blocks[0].attached] == ["pad_temp"]


def test_reductions_across_threads():
    x = te.placeholder((1 << 20,), "x")
    k = te.reduce_axis(1 << 20, "k")
    total = te.compute((), lambda: te.sum(x[k], axis=[k]), name="total")
    assert forms([x, total]) == ["across", "across across"]


def test_a_stage_that_hosts_a_row_is_no_epilogue():
    """Both its operands are reductions: of a product, which reads an operand again, and a row."""
    a, b = te.placeholder((8, 64), "a"), te.placeholder((64, 40), "b")
    k, r = te.reduce_axis(64, "k"), te.reduce_axis(40, "r")
    c = te.placeholder((8, 40), "c")
    product = te.compute((8, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name="p")
    rows = te.compute((8,), lambda i: te.sum(c[i, r], axis=[r]), name="rows")
    y = te.compute((8, 40), lambda i, j: product[i, j] + rows[i], name="y")
    for found in forms([a, b, c, y]):
        assert found.split()[-1] == "rows"


def test_stages_that_are_read_everywhere_are_not_inlined():
    """A scan in steps that double: its text would double with each."""
    x = te.placeholder((64,), "x")
    y = x
    for step in (1, 2, 4, 8, 16, 32):
        y = te.compute(
            (64,),
            lambda i, y=y, step=step: te.if_then_else(i >= step, y[i] + y[i - step], y[i]),
            name=f"by{step}",
        )
    (found,) = forms([x, y])
    assert 2 <= len(found.split()) <= 3
