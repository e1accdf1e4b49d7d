"""Concatenations and slices that take no time: values inside other values' memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hosts import x86
from tilework import Target, ops, te
from tilework import compile as compile_network
from tilework.compiler.assemble import _assemble
from tilework.compiler.copies import joined, sliced
from tilework.compiler.kernels import Kernels
from tilework.compiler.slots import strides_of, without_copies
from tilework.deferred import Helpers
from tilework.graph import Builder, plan
from tilework.graph.ir import ValueType
from tilework.graph.plan import Call, Plan
from tilework.index.symbols import symbol
from tilework.runtime.module import Module

SAME = {"pads": (1, 1, 1, 1), "dilation": (1, 1), "strides": (1, 1), "layout": "NHWC"}


def box(x, start, size, steps):
    def body(*at):
        return x[tuple(a * k + b for a, k, b in zip(at, steps, start, strict=True))]

    return te.compute(size, body, name="box")


def dag_of(make, *shapes):
    inputs = [te.placeholder(s, f"p{i}") for i, s in enumerate(shapes)]
    return te.ComputeDAG([*inputs, make(*inputs)])


class Steps:
    """A plan made by hand: each step adds a call."""

    def __init__(self, shape):
        self.values = {"x": ValueType(shape)}
        self.calls = []

    def add(self, make, *inputs):
        name = f"v{len(self.calls)}"
        used = list(dict.fromkeys(inputs))
        dag = dag_of(lambda *t: make(*(t[used.index(i)] for i in inputs)), *map(self.shape, used))
        self.calls.append(Call(dag, tuple(used), name, "step", "step", False))
        self.values[name] = ValueType(dag.outputs[0].shape)
        return name

    def shape(self, name):
        return self.values[name].shape

    def plan(self, outputs):
        return Plan("steps", self.values, {}, ("x",), tuple(outputs), tuple(self.calls), {})


def doubled(x):
    return te.compute(x.shape, lambda *at: x[at] * 2.0 + 1.0, name="doubled")


def evaluated(planned, x):
    values = {"x": x}
    for call in planned.calls:
        (values[call.output],) = te.evaluate(call.dag, [values[v] for v in call.inputs])
    return [values[v] for v in planned.outputs]


@st.composite
def plans(draw):
    """Random elementwise steps, concatenations and slices of a small array."""
    steps = Steps((2, draw(st.integers(1, 3)), draw(st.integers(1, 20))))
    names = ["x"]
    for _ in range(draw(st.integers(2, 9))):
        kind = draw(st.sampled_from(["double", "join", "box"]))
        a = draw(st.sampled_from(names))
        shape = steps.shape(a)
        if kind == "double":
            names.append(steps.add(doubled, a))
        elif kind == "join":
            axis = draw(st.integers(0, 2))
            rest = [n for n in names if _rest(steps.shape(n), axis) == _rest(shape, axis)]
            parts = draw(st.lists(st.sampled_from(rest), min_size=1, max_size=3))
            size = sum(steps.shape(n)[axis] for n in (a, *parts))
            if size <= 60:
                names.append(steps.add(lambda *t, d=axis: ops.concatenate(t, d), a, *parts))
        else:
            stride = [draw(st.integers(1, 2)) for _ in shape]
            start = [draw(st.integers(0, n - 1)) for n in shape]
            most = [(n - b - 1) // k + 1 for n, b, k in zip(shape, start, stride, strict=True)]
            size = [draw(st.integers(1, n)) for n in most]
            make = lambda t, b=start, s=size, k=stride: box(t, b, s, k)  # noqa: E731
            names.append(steps.add(make, a))
    if len(names) == 1:
        names.append(steps.add(doubled, "x"))
    outputs = draw(st.lists(st.sampled_from(names[1:]), min_size=1, max_size=2, unique=True))
    if len(names) > 2:
        outputs.append(steps.add(doubled, names[-1]))
    return steps.plan(dict.fromkeys(outputs))


def _rest(shape, axis):
    return (*shape[:axis], *shape[axis + 1 :])


@settings(max_examples=40, deadline=None)
@given(plans())
def test_any_plan_of_moves_computes_the_same(planned):
    x = np.random.default_rng(0).standard_normal(planned.values["x"].shape, np.float32)
    with Helpers() as helpers:
        target = Target("llvm -mcpu=native -num-cores=1")
        module = Module(_assemble(planned, target, None, Kernels(target), helpers))
    for got, want in zip(module.run({"x": x}), evaluated(planned, x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_join_is_told_from_other_calls():
    parts = joined(dag_of(lambda a, b: ops.concatenate([a, b, a], 1), (2, 3), (2, 5)))
    assert [(p.argument, p.start) for p in parts] == [(0, (0, 0)), (1, (0, 3)), (0, (0, 8))]
    assert joined(dag_of(doubled, (2, 3))) is None
    relu = dag_of(
        lambda a, b: te.compute(
            (2, 6), lambda i, j: te.if_then_else(j < 3, a[i, j], b[i, j - 3] * 2.0), name="t"
        ),
        (2, 3),
        (2, 3),
    )
    assert joined(relu) is None
    cut = dag_of(
        lambda a, b: te.compute(
            (2, 6), lambda i, j: te.if_then_else(j < 3, a[i, j], b[i, j - 3]), name="t"
        ),
        (2, 4),
        (2, 3),
    )
    assert joined(cut) is None  # the last column of the first input is missing


def test_a_slice_is_told_from_other_calls():
    found = sliced(dag_of(lambda a: box(a, (1, 2), (2, 3), (1, 2)), (4, 9)))
    assert found == ((1, 2), (1, 2))
    assert sliced(dag_of(lambda a: ops.transpose(a, (1, 0)), (4, 4))) is None
    assert sliced(dag_of(doubled, (4, 4))) is None


def branches(b, x):
    """Two convolutions and a pooling of ``x``, one of them read twice, beside each other."""
    rng = np.random.default_rng(3)
    c = b.shape(x)[-1]
    w1 = b.constant(rng.standard_normal((3, 3, c, 5), np.float32) / 8, "w")
    w2 = b.constant(rng.standard_normal((1, 1, c, 16), np.float32) / 4, "w")
    one = b.op("relu", b.op("conv2d", x, w1, **SAME))
    two = b.op("conv2d", x, w2, **{**SAME, "pads": (0, 0, 0, 0)})
    three = b.op("max_pool2d", x, kernel=(3, 3), **SAME)
    return b.op("concat", one, two, three, two, axis=3)


def test_branches_are_computed_in_place():
    b = Builder("branches")
    x = b.op("relu", b.input("x", (1, 9, 7, 8)))
    y = branches(b, x)
    z = b.op("tanh", branches(b, y))
    net = b.finish([z])
    bare, _ = without_copies(plan(net))
    names = [c.name for c in bare.calls]
    assert "concat" not in names and names.count("copy") == 2  # what stands there twice
    data = np.random.default_rng(0).standard_normal((1, 9, 7, 8), np.float32)
    for threads in (1, 2):
        module = compile_network(net, f"llvm -mcpu=native -num-cores={threads}")
        (got,) = module.run({"x": data})
        planned, values = plan(net), {"x": data}
        values |= planned.constants
        for call in planned.calls:
            (values[call.output],) = te.evaluate(call.dag, [values[v] for v in call.inputs])
        np.testing.assert_allclose(got, values[planned.outputs[0]], atol=1e-5)


@pytest.mark.parametrize("length", [7, symbol("s", 1, 40)])
def test_what_lies_within_a_value_whose_rest_is_free_is_computed_there(length):
    b = Builder("within")
    x, v = b.input("x", (33, length)), b.input("v", (length, 5), "uint8")
    parts = [b.constant(np.asarray(n)) for n in (np.float32(0.25), np.uint8(9))]
    read = b.op("dequantize", b.op("quantize", x, *parts), *parts)
    y = b.op("einsum", read, b.op("dequantize", v, *parts), equation="ij,jk->ik")
    net = b.finish([y])
    planned = plan(net, target=Target(x86("znver4", 1)))
    bare, slots = without_copies(planned)
    assert len(slots) == 1 and len(bare.calls) == len(planned.calls) - 1
    module = compile_network(net, "llvm -mcpu=native -num-cores=1")
    for n in (7,) if isinstance(length, int) else (1, 3, 7, 40):
        rng = np.random.default_rng(n)
        data = rng.integers(-9, 247, (33, n)), rng.integers(0, 256, (n, 5))
        given = {"x": data[0].astype(np.float32) / 4, "v": data[1].astype(np.uint8)}
        (got,) = module.run(given)
        np.testing.assert_allclose(got, data[0] @ (data[1] - 9) / 16)


def test_what_the_caller_sees_is_not_shared():
    b = Builder("outside")
    x = b.input("x", (1, 4, 4, 8))
    a = b.op("relu", x)
    net = b.finish([b.op("concat", a, x, axis=3), a])
    bare, slots = without_copies(plan(net))
    assert not slots and len(bare.calls) == 2


@pytest.mark.parametrize("steps", [9, 70])
def test_many_values_that_the_caller_receives_are_put_together_elsewhere(steps):
    """A kernel that joins them would ask of each element which part it is of."""
    b = Builder("steps")
    x = b.input("x", (2, 3))
    parts = [b.op("tanh", x)]
    for _ in range(steps - 1):
        parts.append(b.op("sin", parts[-1]))
    net = b.finish(
        [b.op("reshape", b.op("concat", *parts, axis=0), shape=(steps, 2, 3)), parts[1]]
    )
    bare, _ = without_copies(plan(net))
    names = [c.name for c in bare.calls]
    # an output's own value is copied there; few parts, of concatenations, are joined by a kernel
    assert names.count("concat") == (steps > 64) and names.count("copy") <= 3
    data = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    module = compile_network(net, "llvm -mcpu=native -num-cores=1")
    together, second = module.run({"x": data})
    want = [np.tanh(data)]
    for _ in range(steps - 1):
        want.append(np.sin(want[-1]))
    np.testing.assert_allclose(together, want, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(second, want[1], rtol=1e-4, atol=1e-6)


def test_a_dense_value_is_told_apart_where_it_is_not_aligned():
    """A vector of 16 bytes must not begin at element 3, dense behind the first three."""
    steps = Steps((1, 3, 1))
    a = steps.add(doubled, "x")
    b = steps.add(doubled, "x")
    both = steps.add(lambda p, q: ops.concatenate([p, q], 1), a, b)
    last = steps.add(doubled, both)
    planned, slots = without_copies(steps.plan([last]))
    first, second = (strides_of(c, slots, planned) for c in planned.calls[:2])
    assert (slots[a].offset, slots[b].offset) == (0, 3)
    assert first == {}
    assert second == {1: slots[b].strides}
