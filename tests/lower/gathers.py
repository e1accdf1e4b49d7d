"""Random computations that read at positions which data decide."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.lower.computations import epilogues
from tilework import te
from tilework.dtypes import numpy_dtype
from tilework.ops.indices import index

_INDEX = st.sampled_from(["int32", "int32", "int64", "int8", "uint8", "uint64"])
_DATA = st.sampled_from(["float32", "float32", "float32", "float64", "int8", "float16", "bool"])
_SIZES = st.sampled_from([1, 2, 3, 5, 8, 16, 17, 33, 40])


def index_inputs(dag, seed: int) -> list[np.ndarray]:
    """Indices far out of range as well; other inputs in [-1, 1], or small integers."""
    rng = np.random.default_rng(seed)
    out = []
    for t in dag.inputs:
        kind = numpy_dtype(t.dtype)
        if t.name.startswith("at"):
            out.append(rng.integers(0 if kind.kind == "u" else -90, 90, t.shape).astype(kind))
        elif kind.kind in "iub":
            out.append(rng.integers(0, 2, t.shape).astype(kind))
        else:
            out.append(rng.uniform(-1, 1, t.shape).astype(kind))
    return out


@st.composite
def gathers(draw):
    """Rows, elements, slices and sums at indices that are inputs or computed."""
    dtype, n, m, k = draw(_DATA), draw(_SIZES), draw(_SIZES), draw(_SIZES)
    kind = draw(st.sampled_from(
        ["rows", "middle", "elements", "bag", "guard", "slice", "twice", "nested", "halves"]
    ))  # fmt: skip
    x = te.placeholder((n, m), "x", dtype)
    at_shape = {"elements": (k, m), "bag": (k, 5), "slice": ()}.get(kind, (k,))
    at = te.placeholder(at_shape, "at", draw(_INDEX))
    inputs = [x, at]
    if draw(st.booleans()) and dtype == "float32":  # the data are computed
        stage = draw(st.sampled_from(["relu", "exp", "sum"]))
        if stage == "sum":
            w, r = te.placeholder((n, 6, m), "w"), te.reduce_axis(6, "r")
            inputs.append(w)
            x = te.compute((n, m), lambda i, j: te.sum(w[i, r, j], axis=r), name="made")
        else:
            fn, y = te.relu if stage == "relu" else te.exp, x
            x = te.compute((n, m), lambda i, j: fn(y[i, j]), name="made")
    if draw(st.booleans()):  # and so are the indices
        raw, r = at, te.reduce_axis(4, "q")
        if draw(st.booleans()):
            at = te.compute(raw.shape, lambda *i: te.cast("int32", raw[i]) * 2 - 3, name="index")
        else:
            at = te.compute(
                raw.shape,
                lambda *i: te.max(te.cast("int32", raw[i]) - r * r, axis=r),
                name="index",
            )

    def pos(e, extent):
        return index(e, extent)

    if kind == "rows":
        out = te.compute((k, m), lambda i, j: x[pos(at[i], n), j], name="rows")
    elif kind == "middle":
        out = te.compute((m, k, n), lambda a, i, b: x[b, (pos(at[i], m) + a) % m], name="middle")
    elif kind == "elements":
        out = te.compute((k, m), lambda i, j: x[pos(at[i, j], n), j], name="elements")
    elif kind == "bag":
        r = te.reduce_axis(5, "r")
        big = dtype in ("bool", "float16")
        reduce = te.max if big else te.sum
        out = te.compute((k, m), lambda i, j: reduce(x[pos(at[i, r], n), j], axis=r), name="bag")
    elif kind == "guard":  # data decide whether anything is read at all

        def body(i, j):
            where = te.cast("int32", at[i])
            inside = te.all(where >= 0, where < n)
            return te.if_then_else(inside, x[where, j], te.const(0, dtype))

        out = te.compute((k, m), body, name="guard")
    elif kind == "slice":
        size = draw(st.integers(1, n))
        out = te.compute(
            (size, m),
            lambda i, j: x[i + te.minimum(pos(at[()], n), n - size), j],
            name="slice",
        )
    elif kind == "twice":
        out = te.compute((k, k), lambda i, j: x[pos(at[i], n), pos(at[j], m)], name="twice")
    elif kind == "nested":
        first = te.placeholder((n,), "at2", "int32")
        inputs.append(first)
        out = te.compute((k, m), lambda i, j: x[pos(first[pos(at[i], n)], n), j], name="nested")
    else:  # no data, but no linear form either
        out = te.compute((2 * n, m), lambda i, j: x[i // 2, j], name="halves")
        inputs.remove(inputs[1])
        return te.ComputeDAG([*inputs, out])
    if dtype == "float32" and draw(st.booleans()):
        out = draw(epilogues(out, inputs))
    return te.ComputeDAG([*inputs, out])
