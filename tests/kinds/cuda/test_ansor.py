"""Ansor's rules for GPUs: counts and forms of its sketches."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ansor.cuda_rules import ANSOR_RULES
from tests.kinds.cuda.harness import check_all
from tests.te.workloads import conv_bn_relu, matmul, max_pool
from tilework import ops, te
from tilework.kinds.cuda.tiling import form_of
from tilework.space import SearchSpace
from tilework.target import Target

A100 = Target("cuda -model=a100")


def forms(tensors) -> list[str]:
    """The forms of each sketch's kernels."""
    found = SearchSpace.derive(te.ComputeDAG(tensors), A100, ANSOR_RULES).sketches
    return [" ".join(form_of(b) for b in s.blocks) for s in found]


def smallest(n: int, m: int):
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis(m, "k")
    return [a, te.compute((n,), lambda i: te.min(a[i, k], axis=k), name="B")]


def test_a_product_is_tiled_in_one_way():
    assert forms(matmul(512, 512, 512)) == ["tiled"]


def test_padding_is_computed_while_it_is_staged():
    tensors = conv_bn_relu(1, 56, 56, 512, 512, 3, 1, 1)
    assert forms(tensors) == ["tiled"]
    (sketch,) = SearchSpace.derive(te.ComputeDAG(tensors), A100, ANSOR_RULES).sketches
    (block,) = sketch.blocks
    assert [a.op.name for a in block.attached] == ["pad_temp"]
    assert block.epilogue is not None


def test_pooling_stays_as_it_is():
    assert forms(max_pool()) == ["direct"]


def test_long_reductions_are_shared_among_threads_or_not():
    assert forms(smallest(10, 1024)) == ["across", "direct"]


def test_small_products_are_shared_among_threads_too():
    assert forms(matmul(8, 8, 512)) == ["across", "tiled"]


def test_softmax_is_one_kernel():
    x = te.placeholder((16, 1024), "x")
    assert forms([x, ops.softmax(x)]) == ["rows"]


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
def test_its_sketches_run():
    x, rng, wanted = te.placeholder((3, 64), "x"), np.random.default_rng(0), []
    for tensors in (
        matmul(8, 8, 128), conv_bn_relu(1, 9, 9, 4, 8, 3, 1, 1), smallest(5, 70),
        [x, ops.softmax(x)],
    ):  # fmt: skip
        dag = te.ComputeDAG(tensors)
        for s in SearchSpace.derive(dag, A100, ANSOR_RULES).sketches:
            wanted.append((dag, s, s.sample(rng, 1)))
    assert check_all(wanted) == 6
