"""Access analysis: the predicates that sketch rules ask for."""

from __future__ import annotations

import pytest

from tests.te.workloads import conv_bn_relu, matmul, max_pool, softmax, winograd
from tilework import te
from tilework.te.analysis import AccessAnalysis, is_elementwise_read, is_simple_access
from tilework.te.expr import reads


def analysis(tensors) -> tuple[AccessAnalysis, dict]:
    dag = te.ComputeDAG(tensors)
    return AccessAnalysis(dag), {op.name: op for op in dag.ops}


def named(ops) -> list[str]:
    return [op.name for op in ops]


class TestConvBnRelu:
    facts, ops = analysis(conv_bn_relu())

    def test_only_the_convolution_needs_tiling(self):
        assert [n for n, op in self.ops.items() if self.facts.needs_multi_level_tiling(op)] == [
            "conv"
        ]

    def test_all_accesses_are_simple_but_those_of_the_convolution(self):
        simple = {
            op.name: all(is_simple_access(r, op) for r in reads(op.body))
            for op in self.facts.dag.compute_ops
        }
        assert [n for n, ok in simple.items() if not ok] == ["conv"]

    def test_strictly_inlineable(self):
        found = [n for n, op in self.ops.items() if self.facts.is_strictly_inlineable(op)]
        assert found == ["bias_add", "bn_mul", "bn_add", "relu"]

    def test_output(self):
        assert [n for n, op in self.ops.items() if self.facts.is_output(op)] == ["relu"]

    def test_readers(self):
        want = {
            "data": ["pad_temp"], "pad_temp": ["conv"], "kernel": ["conv"], "conv": ["bias_add"],
            "bias": ["bias_add"], "bias_add": ["bn_mul"], "bn_scale": ["bn_mul"],
            "bn_mul": ["bn_add"], "bn_offset": ["bn_add"], "bn_add": ["relu"], "relu": [],
        }  # fmt: skip
        assert {op.name: named(r) for op, r in self.facts.readers.items()} == want

    def test_elementwise_reads(self):
        def reads_elementwise(consumer, producer):
            op = self.ops[consumer]
            found = [r for r in reads(op.body) if r.tensor.name == producer]
            return all(is_elementwise_read(r, op) for r in found)

        assert reads_elementwise("bias_add", "conv")
        assert reads_elementwise("relu", "bn_add")
        assert not reads_elementwise("bias_add", "bias")
        assert not reads_elementwise("pad_temp", "data")

    def test_branches_and_expensive_functions(self):
        assert [op.name for op in self.facts.dag.compute_ops if self.facts.has_branch(op)] == [
            "pad_temp"
        ]
        assert not any(self.facts.is_expensive(op) for op in self.facts.dag.compute_ops)


@pytest.mark.parametrize(
    ("tensors", "tiled"),
    [
        (matmul(4, 4, 4), ["C"]),
        (softmax(4, 4), []),
        (max_pool(1, 4, 4, 8, 1), []),
        (winograd(), ["data_pack", "bgemm", "inverse"]),
    ],
    ids=["matmul", "softmax", "max_pool", "winograd"],
)
def test_needs_multi_level_tiling(tensors, tiled):
    facts, ops = analysis(tensors)
    assert [n for n, op in ops.items() if facts.needs_multi_level_tiling(op)] == tiled


def test_outer_product_needs_tiling_but_a_broadcast_does_not():
    a, b = te.placeholder((8,), name="a"), te.placeholder((9,), name="b")
    m = te.placeholder((8, 9), name="m")
    outer = te.compute((8, 9), lambda i, j: a[i] * b[j], name="outer")
    facts, ops = analysis([a, b, outer])
    assert facts.needs_multi_level_tiling(ops["outer"])
    broadcast = te.compute((8, 9), lambda i, j: m[i, j] + b[j], name="broadcast")
    facts, ops = analysis([m, b, broadcast])
    assert not facts.needs_multi_level_tiling(ops["broadcast"])


def test_constant_tensors_are_inlined_and_transposes_are_not():
    facts, ops = analysis(winograd())
    assert facts.is_strictly_inlineable(ops["A"])
    assert facts.is_strictly_inlineable(ops["B"])
    a = te.placeholder((4, 5), name="a")
    turned = te.compute((5, 4), lambda i, j: a[j, i], name="turned")
    same = te.compute((4, 5), lambda i, j: a[i, j] + 1.0, name="same")
    facts, ops = analysis([a, turned, same])
    assert not facts.is_strictly_inlineable(ops["turned"])
    assert facts.is_strictly_inlineable(ops["same"])
    assert not facts.is_strictly_inlineable(ops["a"])
