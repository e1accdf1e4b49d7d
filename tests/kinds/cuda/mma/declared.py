"""Declarations of products in the precisions of tensor cores, and rows of their sketches."""

from __future__ import annotations

import numpy as np

from tilework import ops, te
from tilework.kinds.cuda.tiling import MMA
from tilework.ops.storage import stored
from tilework.space import SearchSpace
from tilework.target import Target

A100, H100 = Target("cuda -model=a100"), Target("cuda -model=h100")
STORED = {"bf16": "bfloat16", "f16": "float16", "tf32": "float32"}


def rounded(x, kind):
    """A product with factors as tensor cores take them."""
    return ops.tf32_products(x) if kind == "tf32" else x


def conv(kind, shape, co, k=3, s=1, p=None, d=1, free=True, residual=True, out=None):
    """Convolution, bias, residual addition, ReLU; stored as ``out``, by default as the data is."""
    dtype = STORED[kind]
    data = te.placeholder(shape, "data", dtype)
    weight = te.placeholder((k, k, shape[-1], co), "weight", dtype)
    p = k // 2 if p is None else p
    y = ops.conv(data, weight, (s, s), (p, p, p, p), (d, d), layout_free=free)
    return _finished(rounded(y, kind), [data, weight], dtype, residual, out)


def matmul(kind, m, n, k, a="N", b="N", free=False, residual=False, out=None):
    """Product of two matrices, either transposed in memory or not."""
    dtype = STORED[kind]
    left = te.placeholder((k, m) if a == "T" else (m, k), "a", dtype)
    right = te.placeholder((n, k) if b == "T" else (k, n), "b", dtype)
    y = ops.matmul(left, right, transpose_a=a == "T", transpose_b=b == "T", layout_free=free)
    return _finished(rounded(y, kind), [left, right], dtype, residual, out)


def einsum(kind, equation, *shapes):
    """A product in Einstein's notation, stored in float32."""
    inputs = [te.placeholder(s, f"x{i}", STORED[kind]) for i, s in enumerate(shapes)]
    return te.ComputeDAG([*inputs, rounded(ops.einsum(equation, *inputs), kind)])


def _finished(y, inputs, dtype, residual, out):
    bias = te.placeholder(y.shape[-1:], "bias")
    y = ops.add(y, bias)
    inputs.append(bias)
    if residual:
        other = te.placeholder(y.shape, "residual", dtype)
        inputs.append(other)
        y = ops.add(y, other)
    return te.ComputeDAG([*inputs, stored(ops.relu(y), out or dtype)])


def sketches(dag, target=A100):
    """The sketches of a DAG that use tensor cores: whole sums first."""
    found = SearchSpace.derive(dag, target).sketches
    return [s for s in found if any(b.levels == MMA for b in s.blocks)]


def row_of(sketch, seed=0, **wanted):
    """A valid row whose columns are as wanted, by kind."""
    rows = sketch.sample(np.random.default_rng(seed), 6000)
    for decision in sketch.decisions:
        if decision.kind in wanted:
            rows = rows[rows[:, decision.columns[0]] == wanted[decision.kind]]
    assert len(rows), f"no row of {sketch.name} has {wanted}"
    return rows[0]
