"""A plan of symbolic shapes: rows that look at each other, behind rows from before.

h = x w1          e = 2 h           s = e e^T         p = softmax(s)
c = p e           a = [past; c]     y = relu(a w2)    z = y's last rows
"""

from __future__ import annotations

import numpy as np

from tilework import ops, te
from tilework.graph.operators.base import ValueType
from tilework.graph.plan import Call, Plan
from tilework.index.symbols import symbol

PAST, SEQ = symbol("past", 1, 40, (20,)), symbol("seq", 1, 67, (1, 16, 33))
WIDTH = 24


def _call(output, inputs, tensors):
    dag = te.ComputeDAG(tensors)
    return Call(dag, inputs, output, output, output, any(o.reduce_axes for o in dag.compute_ops))


def plan(past=PAST, seq=SEQ):
    rng = np.random.default_rng(0)
    w1 = rng.standard_normal((WIDTH, 12)).astype(np.float32)
    w2 = rng.standard_normal((9, WIDTH)).astype(np.float32)
    shapes = {
        "x": (seq, 12), "past": (past, WIDTH), "w1": w1.shape, "w2": w2.shape,
        "h": (seq, WIDTH), "e": (seq, WIDTH), "s": (seq, seq), "p": (seq, seq),
        "c": (seq, WIDTH), "a": (past + seq, WIDTH), "y": (past + seq, 9), "z": (seq, 9),
    }  # fmt: skip

    def given(name, as_):
        return te.placeholder(shapes[name], as_, "float32")

    def product(output, a, b, **how):
        p0, p1 = given(a, "p0"), given(b, "p1")
        return _call(output, (a, b), [p0, p1, ops.matmul(p0, p1, **how)])

    h, s, p = given("h", "p0"), given("s", "p0"), (given("past", "p0"), given("c", "p1"))
    a, w, y = given("a", "p0"), given("w2", "p1"), given("y", "p0")
    calls = (
        product("h", "x", "w1", transpose_b=True, layout_free=True),
        _call("e", ("h",), [h, te.compute(h.shape, lambda i, j: h[i, j] * 2.0, name="T_e")]),
        product("s", "e", "e", transpose_b=True),
        _call("p", ("s",), [s, ops.softmax(s)]),
        product("c", "p", "e"),
        _call("a", ("past", "c"), [*p, ops.concatenate(p, 0)]),
        _call("y", ("a", "w2"), [a, w, ops.relu(ops.dense(a, w, layout_free=True))]),
        _call("z", ("y",), [
            y, te.compute(shapes["z"], lambda i, j: y[i + past, j] + 1.0, name="T_last")]),
    )  # fmt: skip
    return Plan(
        "rows",
        {name: ValueType(shape, "float32") for name, shape in shapes.items()},
        {"w1": w1, "w2": w2},
        ("x", "past"),
        ("y", "z"),
        calls,
        {},
    )


def inputs(past, seq, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s, np.float32) for s in ((seq, 12), (past, WIDTH))]


def expected(x, past):
    constants = {name: w.astype(np.float64) for name, w in plan().constants.items()}
    e = 2 * x.astype(np.float64) @ constants["w1"].T
    s = e @ e.T
    s = np.exp(s - s.max(-1, keepdims=True))
    c = s / s.sum(-1, keepdims=True) @ e
    y = np.maximum(np.concatenate([past, c]) @ constants["w2"].T, 0)
    return [y, y[len(past) :] + 1]
