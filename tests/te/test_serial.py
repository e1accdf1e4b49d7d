from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilework as tw
from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.te.serial import DagFormatError, dag_from_json, dag_to_json

FLOATS = st.floats(-100, 100, width=32) | st.sampled_from([math.inf, -math.inf, 1e-45])


@st.composite
def values(draw, tensors, axes, depth=3):
    """A float32 expression of the axes, reading the given tensors at valid indices."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        if draw(st.booleans()):
            return te.const(draw(FLOATS))
        tensor = draw(st.sampled_from(tensors))
        return tensor[tuple(draw(st.sampled_from(axes)) % n for n in tensor.shape)]
    a, b = (draw(values(tensors, axes, depth - 1)) for _ in range(2))
    i, j = draw(st.sampled_from(axes)), draw(st.sampled_from(axes))
    below = te.all(i < draw(st.integers(0, 5)), te.any(j > i, te.logical_not(i <= j)))
    return draw(
        st.sampled_from(
            [a + b, a - b, a * b, te.maximum(a, b), te.minimum(a, b), te.tanh(a), te.abs(b),
             te.if_then_else(below, a, b), te.select(te.not_equal(i // 2, j), a, b),
             te.cast("float32", te.cast("int32", te.minimum(te.maximum(a, -9.0), 9.0)))]
        )
    )  # fmt: skip


@st.composite
def dags(draw):
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
    inputs = [te.placeholder(draw(shapes), f"p{i}") for i in range(draw(st.integers(1, 3)))]
    known = list(inputs)
    for number in range(draw(st.integers(1, 3))):
        shape = draw(shapes)
        k = te.reduce_axis(draw(st.integers(1, 3)), "k")
        reduces = draw(st.booleans())
        kind = draw(st.sampled_from([te.sum, te.max, te.min]))

        def body(*axes, k=k, reduces=reduces, kind=kind):
            inner = draw(values(known, (*axes, k) if reduces else axes))
            return kind(inner, axis=k) if reduces else inner

        attrs = {"layout_free": ("p0",), "tile": {"i0": 2}} if draw(st.booleans()) else {}
        known.append(te.compute(shape, body, f"c{number}", attrs))
    outputs = known[len(inputs) :] if draw(st.booleans()) else known[-1:]
    return te.ComputeDAG([*inputs, *outputs])


@settings(max_examples=60, deadline=None)
@given(dags())
def test_round_trip(dag):
    text = dag_to_json(dag)
    again = dag_from_json(text)
    assert again.workload_key == dag.workload_key
    assert str(again) == str(dag)
    assert dag_to_json(again) == text
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=t.shape).astype(np.float32) for t in dag.inputs]
    with np.errstate(all="ignore"):
        pairs = zip(te.evaluate(dag, inputs), te.evaluate(again, inputs), strict=True)
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


@pytest.mark.parametrize("network", ["resnet-18", "mlp"])
def test_tasks_of_networks_and_their_spaces(network):
    target = tw.Target(x86("x86-64-v4", 2))
    for task in tw.extract_tasks(tw.zoo.get(network), target)[0]:
        again = dag_from_json(dag_to_json(task.compute_dag))
        assert again.workload_key == task.workload_key
        assert again.flops == task.flops
        attrs = [dict(o.attrs) for o in task.compute_dag.compute_ops]
        assert [dict(o.attrs) for o in again.compute_ops] == attrs


def test_a_rewritten_dag_with_constant_matrices():
    from tilework.space.winograd import winograd_variants

    dag = te.ComputeDAG(workloads.conv2d_relu(h=8, w=8, ci=8, co=16))
    for variant in winograd_variants(dag, (2, 4)):
        again = dag_from_json(dag_to_json(variant.dag))
        assert again.workload_key == variant.dag.workload_key
        assert [dict(o.attrs) for o in again.compute_ops] == [
            dict(o.attrs) for o in variant.dag.compute_ops
        ]


def _broken(change):
    document = json.loads(dag_to_json(te.ComputeDAG(workloads.matmul(4, 4, 8))))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="tilework-dag-9"), "tilework-dag-9"),
        (lambda d: d.update(ops=3), "a list is expected"),
        (lambda d: d["tensors"].append(7), "position below 3"),
        (lambda d: d["ops"][0].update(dtype="float13"), "unknown dtype"),
        (lambda d: d["ops"][0].update(shape=[0, 8]), "not an extent"),
        (lambda d: d["ops"][2].update(body=["__import__", "os"]), "tag '__import__'"),
        (lambda d: d["ops"][2].update(body=["read", 2, ["axis", 0], ["axis", 1]]), "below 2"),
        (lambda d: d["ops"][2].update(body=["read", 0, ["axis", 0]]), "dimensions of A"),
        (lambda d: d["ops"][2].update(body=["call", "system", ["axis", 0]]), "unknown"),
        (lambda d: d["ops"][2].update(reduce=[]), "position below 2"),
        (lambda d: d["ops"][2].update(reduce=[["k", 8], ["m", 2]]), "reduce axes differ"),
        (lambda d: d["ops"][2]["axes"][0].__setitem__(0, "k"), "k repeats"),
        (lambda d: d.update(tensors=[0, 1]), "output"),
        (lambda d: d.update(tensors=[2]), "not listed as inputs"),
    ],
)
def test_broken_documents_are_refused(change, message):
    with pytest.raises(DagFormatError, match=message):
        dag_from_json(_broken(change))


@pytest.mark.parametrize("text", ["", "null", "[]", "{", "[" * 100_000])
def test_text_that_is_no_document(text):
    with pytest.raises(DagFormatError):
        dag_from_json(text)


def test_deep_expressions_are_refused():
    deep = ["const", "float32", 1.0]
    for _ in range(900):
        deep = ["+", deep, ["const", "float32", 1.0]]
    text = _broken(lambda d: d["ops"][2].update(body=deep, reduce=[]))
    with pytest.raises(DagFormatError, match="deep"):
        dag_from_json(text)
