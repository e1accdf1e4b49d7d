"""Compute DAGs: text, stage order, FLOP counts, workload keys."""

from __future__ import annotations

import json
import pickle

import pytest

from tests.te.workloads import conv2d_relu, conv_bn_relu, matmul, max_pool, softmax, winograd
from tilework import te
from tilework.ops.sparse import sparse_dense
from tilework.te.expr import Lookup
from tilework.te.serial import dag_from_json, dag_to_json


def test_matmul_prints_as_known():
    assert str(te.ComputeDAG(matmul(512, 512, 512))) == (
        "A = PLACEHOLDER [512, 512]\nB = PLACEHOLDER [512, 512]\nC(i, j) += (A[i, k]*B[k, j])\n"
    )


def test_reductions_and_functions_print_as_known():
    assert str(te.ComputeDAG(softmax(4, 8))) == (
        "A = PLACEHOLDER [4, 8]\n"
        "maxelem(i) max= A[i, k]\n"
        "exp(i, j) = tir.exp((A[i, j] - maxelem[i]))\n"
        "expsum(i) += exp[i, k]\n"
        "norm(i, j) = (exp[i, j]/expsum[i])\n"
    )


def test_winograd_prints_as_known():
    lines = str(te.ComputeDAG(winograd(1, 28, 28, 128, 128))).splitlines()
    assert lines[2] == (
        "input_tile(eps, nu, p, ci) = data_pad[floordiv(p, 196), "
        "((floormod(floordiv(p, 14), 14)*2) + eps), ((floormod(p, 14)*2) + nu), ci]"
    )
    assert lines[4] == (
        "data_pack(eps, nu, p, ci) += ((input_tile[r_a, r_b, p, ci]*B[r_a, eps])*B[r_b, nu])"
    )
    omitted = lines[3]
    assert omitted.startswith("B(i, j) = select(((floormod(i, 4) == 3) && (floormod(j, 4) == 3)),")
    assert " ..(OMITTED).. " in omitted
    assert len(omitted) == 256 + len(" ..(OMITTED).. ")


def test_other_dtypes_and_literals_print_with_their_type():
    a = te.placeholder((4,), name="A", dtype="int64")
    x = te.compute((4,), lambda i: te.cast("float64", a[i] + 3) * 0.5, name="x")
    y = te.compute((4,), lambda i: te.if_then_else(x[i] > 1.0, x[i], -x[i]), name="y")
    assert str(te.ComputeDAG([a, y])) == (
        "A = PLACEHOLDER [4] int64\n"
        "x(i) = (float64((A[i] + (int64)3))*float64(0.5))\n"
        "y(i) = tir.if_then_else((x[i] > float64(1)), x[i], (float64(0) - x[i]))\n"
    )


def test_stage_order_follows_first_reads():
    dag = te.ComputeDAG(conv_bn_relu())
    assert [op.name for op in dag.ops] == [
        "data", "pad_temp", "kernel", "conv", "bias", "bias_add", "bn_scale", "bn_mul",
        "bn_offset", "bn_add", "relu",
    ]  # fmt: skip
    assert [t.name for t in dag.inputs] == ["data", "kernel", "bias", "bn_offset", "bn_scale"]
    assert [op.name for op in te.ComputeDAG(softmax(3, 5)).ops] == [
        "A", "maxelem", "exp", "expsum", "norm",
    ]  # fmt: skip


def test_flops():
    n = 512
    a, b, c = matmul(n, n, n)
    assert te.ComputeDAG([a, b, c]).flops == 2 * n**3
    d = te.compute((n, n), lambda i, j: te.maximum(c[i, j], 0.0), name="D")
    assert te.ComputeDAG([a, b, d]).flops == 2 * n**3 + n**2
    padded = te.compute(
        (n + 2, n + 2),
        lambda i, j: te.if_then_else(
            te.all(i >= 1, i < n + 1, j >= 1, j < n + 1), c[i - 1, j - 1], 0.0
        ),
        name="padded",
    )
    assert te.ComputeDAG([a, b, padded]).flops == 2 * n**3
    fixed = te.compute((n, n), lambda i, j: padded[i, j] + 0.0, name="F", attrs={"FLOP": 1234})
    assert te.ComputeDAG([a, b, fixed]).flops == 2 * n**3 + 1234
    chosen = te.compute((n, n), lambda i, j: te.if_then_else(a[i, j] > 0.0, a[i, j], 0.0))
    assert te.ComputeDAG([a, chosen]).flops == n**2


def test_flops_of_a_convolution():
    dag = te.ComputeDAG(conv2d_relu())
    points = 56 * 56 * 64
    assert dag.flops == points * (2 * 9 * 64) + 2 * points


def test_workload_key_is_readable():
    key = json.loads(te.ComputeDAG(matmul(4, 5, 6)).workload_key)
    assert len(key[0]) == 32
    assert key[1:] == [[4, 6], [6, 5], [4, 5]]


def test_workload_key_does_not_depend_on_names():
    one = te.ComputeDAG(matmul(8, 9, 10, free=True))
    two = te.ComputeDAG(matmul(8, 9, 10, free=True, names=("x", "w", "y", "r")))
    assert one.workload_key == two.workload_key
    assert pickle.loads(pickle.dumps(one)).workload_key == one.workload_key


def _unary(body, dtype="float32"):
    a = te.placeholder((4, 6), name="A", dtype=dtype)
    return te.ComputeDAG([a, te.compute((4, 6), lambda i, j: body(a, i, j), name="C")])


@pytest.mark.parametrize(
    "other",
    [
        te.ComputeDAG(matmul(8, 9, 11)),
        te.ComputeDAG(matmul(8, 9, 10, free=True)),
        te.ComputeDAG(conv2d_relu()),
    ],
)
def test_workload_key_depends_on_structure_and_shape(other):
    assert other.workload_key != te.ComputeDAG(matmul(8, 9, 10)).workload_key


def test_workload_key_depends_on_every_detail():
    dags = [
        _unary(lambda a, i, j: a[i, j] + 1.0),
        _unary(lambda a, i, j: a[i, j] - 1.0),
        _unary(lambda a, i, j: a[i, j] + 1.0000001),  # prints alike, computes differently
        _unary(lambda a, i, j: a[i, j] + 1.0, "float64"),
        _unary(lambda a, i, j: a[i, 5 - j] + 1.0),
        _unary(lambda a, i, j: te.exp(a[i, j])),
        _unary(lambda a, i, j: te.tanh(a[i, j])),
    ]
    assert len({d.workload_key for d in dags}) == len(dags)


def _with_attrs(names=("A", "B", "k"), **attrs):
    a, b = te.placeholder((8, 10), names[0]), te.placeholder((10, 9), names[1])
    k = te.reduce_axis(10, names[2])

    def product(i, j):
        return te.sum(a[i, k] * b[k, j], axis=k)

    return te.ComputeDAG([a, b, te.compute((8, 9), product, "C", attrs)])


def test_workload_key_depends_on_what_shapes_the_space():
    dags = [
        _with_attrs(),
        _with_attrs(const_axes=("k",)),
        _with_attrs(const_axes=("i", "k")),
        _with_attrs(tile={"i": 2}),
        _with_attrs(tile={"i": 4}),
        _with_attrs(tile={"j": 4}),
        _with_attrs(terms={"k": 2.5}),
        _with_attrs(bsr={"data": "A"}),
        _with_attrs(bsr={"data": "B"}),
        _with_attrs(layout_free=("B",)),
        _with_attrs(layout_free=("B",), const_axes=("k",)),
    ]
    assert len({d.workload_key for d in dags}) == len(dags)
    for dag in dags:
        assert dag_from_json(dag_to_json(dag)).workload_key == dag.workload_key


def test_attributes_that_name_tensors_and_axes_do_not_depend_on_their_names():
    one, other = (
        _with_attrs(n, const_axes=(n[2],), terms={n[2]: 2.0}, bsr={"data": n[1]})
        for n in (("A", "B", "k"), ("x", "w", "r"))
    )
    assert one.workload_key == other.workload_key


def test_an_attribute_is_not_taken_for_a_tensor_that_it_does_not_name():
    """Tensors are called t0, t1, .. in the key, whatever their names."""
    assert _with_attrs(mode="A").workload_key != _with_attrs(mode="t0").workload_key


def test_what_is_only_reported_is_no_part_of_the_key():
    assert _with_attrs(FLOP=17).workload_key == _with_attrs().workload_key


def test_workload_key_depends_on_constant_matrices():
    def table(values):
        a = te.placeholder((2, 2), "A")

        def scaled(i, j):
            return Lookup("float32", "M", values, (2, 2), (i, j)) * a[i, j]

        return te.ComputeDAG([a, te.compute((2, 2), scaled, "C", {"const_axes": ("i", "j")})])

    one, other = table((0.0, 1.0, 1.0, 0.0)), table((1.0, 0.0, 0.0, 1.0))
    assert one.workload_key != other.workload_key
    assert dag_from_json(dag_to_json(one)).workload_key == one.workload_key


# of operations without attributes, and of sparse ones, whose attributes say nothing that their
# bodies do not: they must stay for good, or stores lose their records
KEPT = {
    "matmul": "c2a7fdbca2467b9ef9c513fe418fc6b4",
    "free": "f6d4f4c4f3dcb683e18d89d38a0c0de1",
    "conv": "f483e20c59a0c9c7e407430867a26633",
    "pool": "d43f5db375de03cc187bdfaf35c0069a",
    "sparse": "c596aaa4e744c2a0f92c2300e0fc238b",
}


def sparse_product():
    x, data = te.placeholder((4, 64), "x"), te.placeholder((24, 1, 16), "data")
    places = te.placeholder((24,), "indices", "int32"), te.placeholder((3,), "indptr", "int32")
    return [x, data, *places, sparse_dense(x, data, *places, 32)]


def test_keys_that_stores_know_stay():
    dags = {
        "matmul": matmul(8, 9, 10), "free": matmul(8, 9, 10, free=True), "conv": conv2d_relu(),
        "pool": max_pool(), "sparse": sparse_product(),
    }  # fmt: skip
    found = {n: json.loads(te.ComputeDAG(tensors).workload_key)[0] for n, tensors in dags.items()}
    assert found == KEPT


def test_workload_key_depends_on_the_order_of_arguments():
    """Kernels take their arguments in this order: equal keys must mean equal calls."""
    a, b, c = matmul(8, 8, 8)
    assert te.ComputeDAG([a, b, c]).workload_key != te.ComputeDAG([b, a, c]).workload_key
    d = te.compute((8, 8), lambda i, j: c[i, j] * 2.0, name="D")
    keys = {te.ComputeDAG(t).workload_key for t in ([a, b, c, d], [a, b, d, c], [a, b, d])}
    assert len(keys) == 3


def test_pickled_dag_is_the_same_dag():
    for tensors in (conv_bn_relu(), softmax(3, 4), max_pool()):
        dag = te.ComputeDAG(tensors)
        copy = pickle.loads(pickle.dumps(dag))
        assert str(copy) == str(dag)
        assert copy.flops == dag.flops
        assert [t.name for t in copy.tensors] == [t.name for t in dag.tensors]
