"""Random computations on every element type."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tilework import te
from tilework.dtypes import NARROW_FLOATS, integer_range, is_float, is_integer, numpy_dtype

INTEGERS = [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
EVERY = [*INTEGERS, *FLOATS, "bool"]
SHAPES = st.lists(st.sampled_from([1, 3, 8, 17, 40]), min_size=0, max_size=2).map(tuple)

_INTEGER_OPS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": te.maximum,
    "minimum": te.minimum,
    "and": te.bitwise_and,
    "or": te.bitwise_or,
    "xor": te.bitwise_xor,
    "floordiv": lambda a, b: te.floordiv(a, _no_zero(b)),
    "floormod": lambda a, b: te.floormod(a, _no_zero(b)),
    "truncdiv": lambda a, b: te.truncdiv(a, _no_zero(b)),
    "truncmod": lambda a, b: te.truncmod(a, _no_zero(b)),
    "left": te.shift_left,
    "right": te.shift_right,
    "left some": lambda a, b: te.shift_left(a, te.bitwise_and(b, te.const(7, b.dtype))),
    "right some": lambda a, b: te.shift_right(a, te.bitwise_and(b, te.const(7, b.dtype))),
    "not": lambda a, b: te.bitwise_not(a),
    "abs": lambda a, b: te.abs(a),
    "sign": lambda a, b: te.sign(a),
    "select": lambda a, b: te.select(a < b, a, te.const(1, a.dtype)),
    "guard": lambda a, b: te.if_then_else(te.equal(a, b), a, b),
}
_BOOL_OPS = {
    "and": te.all,
    "or": te.any,
    "xor": te.logical_xor,
    "not": lambda a, b: te.logical_not(a),
    "max": te.maximum,
    "min": te.minimum,
    "select": lambda a, b: te.select(a, b, te.const(True, "bool")),
    "less": lambda a, b: a < b,
}
_FLOAT_OPS = {
    "max": te.maximum,
    "min": te.minimum,
    "select": lambda a, b: te.select(a <= b, a, b),
    "add": lambda a, b: a + b,
    "sign": lambda a, b: te.sign(a),
    "abs": lambda a, b: te.abs(a),
    "trunc": lambda a, b: te.trunc(a),
}
_COMPARE = {
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "==": te.equal,
    "!=": te.not_equal,
}


def _no_zero(b):
    return te.select(te.equal(b, te.const(0, b.dtype)), te.const(1, b.dtype), b)


def typed_inputs(dag, seed: int) -> list[np.ndarray]:
    """Integers over the whole range of their type, its ends included; moderate floats."""
    rng = np.random.default_rng(seed)
    out = []
    for t in dag.inputs:
        kind = numpy_dtype(t.dtype)
        if is_float(t.dtype):
            out.append((rng.integers(-400, 400, t.shape) / 16).astype(kind))
        elif t.dtype == "bool":
            out.append(rng.integers(0, 2, t.shape).astype(bool))
        else:
            low, high = integer_range(t.dtype)
            wide = rng.integers(low, high, t.shape, dtype=kind, endpoint=True)
            near = rng.integers(0, 20, t.shape).astype(kind)
            ends = np.where(rng.random(t.shape) < 0.5, low, high).astype(kind)
            choice = rng.random(t.shape)
            picked = np.where(choice < 0.45, wide, np.where(choice < 0.85, near, ends))
            out.append(picked.astype(kind))
    return out


def _cast(value: te.Expr, to: str) -> te.Expr:
    """A conversion whose result the language defines: floats are brought into range before."""
    if is_float(value.dtype) and is_integer(to):
        value = te.cast("float32", value) if value.dtype in NARROW_FLOATS else value
        low, high = integer_range(to)
        top = te.const(min(float(high) / 2, 2.0**60), value.dtype)
        bottom = te.const(max(float(low) / 2, -(2.0**60)), value.dtype)
        value = te.maximum(te.minimum(value, top), bottom)
    return te.cast(to, value)


@st.composite
def typed(draw):
    """A chain of stages over one or two operands of a random type, which changes on the way."""
    shape = draw(SHAPES)
    dtype = draw(st.sampled_from(EVERY))
    a, b = te.placeholder(shape, "A", dtype), te.placeholder(shape, "B", dtype)
    inputs, x, y, extra = [a, b], a, b, []
    for n in range(draw(st.integers(1, 5))):
        kind = x.dtype
        what = draw(st.sampled_from(["op", "op", "op", "cast", "cast", "compare", "axis", "out"]))
        if what == "out":
            if x is not a:
                extra.append(x)
            continue
        if what == "op" and is_integer(kind):
            fn = _INTEGER_OPS[draw(st.sampled_from(sorted(_INTEGER_OPS)))]
        elif what == "op" and kind == "bool":
            fn = _BOOL_OPS[draw(st.sampled_from(sorted(_BOOL_OPS)))]
        elif what == "op":
            names = ["max", "min", "select"] if kind in NARROW_FLOATS else sorted(_FLOAT_OPS)
            fn = _FLOAT_OPS[draw(st.sampled_from(names))]
        elif what == "compare":
            if kind == "bool":
                continue
            fn = _COMPARE[draw(st.sampled_from(sorted(_COMPARE)))]
        elif what == "axis":
            if not shape or kind in ("bool", *NARROW_FLOATS):
                continue
            x = te.compute(
                shape, lambda *i, x=x: x[i] + te.cast(x.dtype, i[-1] * 3 - 20), name=f"axis{n}"
            )
            continue
        else:
            to = draw(st.sampled_from(EVERY))
            x = te.compute(shape, lambda *i, x=x, to=to: _cast(x[i], to), name=f"cast{n}")
            if y.dtype != to:
                y = te.compute(shape, lambda *i, y=y, to=to: _cast(y[i], to), name=f"other{n}")
            continue
        other = y if y.dtype == kind else x
        x = te.compute(shape, lambda *i, x=x, y=other, fn=fn: fn(x[i], y[i]), name=f"{what}{n}")
        if y.dtype != x.dtype:
            y = te.compute(shape, lambda *i, y=y, to=x.dtype: _cast(y[i], to), name=f"other{n}")
    if x is a:
        x = te.compute(shape, lambda *i: te.maximum(a[i], b[i]), name="larger")
    outputs = dict.fromkeys([*extra, x])
    return te.ComputeDAG([*inputs, *outputs])


@st.composite
def typed_reductions(draw):
    """Sum, product, max or min over some axes, in the type of the elements; scalars included."""
    dtype = draw(st.sampled_from([*INTEGERS, "float32", "float64", "bool", *NARROW_FLOATS]))
    kinds = ["max", "min"] if dtype in ("bool", *NARROW_FLOATS) else ["sum", "prod", "max", "min"]
    reduce = getattr(te, draw(st.sampled_from(kinds)))
    shape = draw(st.lists(st.sampled_from([1, 2, 5, 16, 33, 70]), min_size=1, max_size=3))
    over = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    over[0] = over[0] or not any(over)
    a = te.placeholder(tuple(shape), "A", dtype)
    axes = [te.reduce_axis(e, f"k{d}") for d, e in enumerate(shape) if over[d]]
    kept = [e for d, e in enumerate(shape) if not over[d]]

    def body(*i):
        spatial, summed = iter(i), iter(axes)
        return reduce(a[tuple(next(summed) if o else next(spatial) for o in over)], axis=axes)

    names = [f"i{d}" for d in range(len(kept))]
    out = te.compute(tuple(kept), body, "R", axis_names=names)
    to = draw(st.sampled_from([None, "float32", "int32", "float16"]))
    if to and is_integer(dtype):
        out = te.compute(tuple(kept), lambda *i, x=out: te.cast(to, x[i]), "C", axis_names=names)
    return te.ComputeDAG([a, out])
