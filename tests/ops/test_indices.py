"""Indices of every integer type, however narrow, and whatever they hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.lower.check import check_dag
from tilework import ops, te

INTEGERS = [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
EXTENTS = [1, 5, 127, 128, 200, 300]
PAIRS = list(itertools.product(INTEGERS, EXTENTS))


def some(dtype: str, extent: int, count: int) -> np.ndarray:
    """Indices from both ends, on and beyond the edges, and the type's extremes."""
    info = np.iinfo(dtype)
    edges = [0, 1, extent - 1, extent, extent + 3, -1, -extent, -extent - 1, 2 * extent, 4, 260,
             info.min, info.max, info.min + 1, info.max - 1]  # fmt: skip
    fitting = [e for e in edges if info.min <= e <= info.max]
    inside = np.random.default_rng(0).integers(max(-extent, info.min), min(extent, info.max), 64)
    return np.resize(np.array([*fitting, *inside.tolist()], dtype), count)


def clamped(i: int, extent: int) -> int:
    """The element that an index reads."""
    return min(max(i + extent if i < 0 else i, 0), extent - 1)


def meant(i: int, extent: int) -> int | None:
    """The element that an index writes, if any."""
    i = i + extent if i < 0 else i
    return i if 0 <= i < extent else None


@pytest.mark.parametrize(("dtype", "extent"), PAIRS)
def test_reads(dtype: str, extent: int) -> None:
    at = some(dtype, extent, 40)
    x = np.arange(extent, dtype=np.float32)
    want = np.array([x[clamped(int(i), extent)] for i in at], np.float32)
    px, pi = te.placeholder(x.shape, "x"), te.placeholder(at.shape, "i", dtype)
    pairs = te.placeholder((40, 1), "i", dtype)
    for out, p, array in (
        (ops.take(px, pi, 0), pi, at),
        (ops.take_along(px, pi, 0), pi, at),
        (ops.gather_nd(px, pairs), pairs, at[:, None]),
    ):
        (got,) = te.evaluate(te.ComputeDAG([px, p, out]), [x, array])
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("dtype", "extent"), PAIRS)
def test_writes(dtype: str, extent: int) -> None:
    at = some(dtype, extent, 40)
    x, new = np.zeros(extent, np.float32), np.arange(1, 41, dtype=np.float32)
    want = x.copy()
    for value, i in zip(new, at, strict=True):
        if (place := meant(int(i), extent)) is not None:
            want[place] = value
    px, pi, pu = (te.placeholder(x.shape, "x"), te.placeholder(at.shape, "i", dtype),
                  te.placeholder(new.shape, "u"))  # fmt: skip
    out = ops.scatter_elements(px, pi, pu, 0)
    (got,) = te.evaluate(te.ComputeDAG([px, pi, pu, out]), [x, at, new])
    np.testing.assert_array_equal(got, want)
    px, pi, pu = (te.placeholder((extent, 1), "x"), te.placeholder((40, 1), "i", dtype),
                  te.placeholder((40, 1), "u"))  # fmt: skip
    out = ops.scatter_rows(px, pi, pu, (extent,))
    (got,) = te.evaluate(te.ComputeDAG([px, pi, pu, out]), [x[:, None], at[:, None], new[:, None]])
    np.testing.assert_array_equal(got, want[:, None])


@pytest.mark.parametrize(("dtype", "depth"), PAIRS)
def test_one_hot(dtype: str, depth: int) -> None:
    at = some(dtype, depth, 40)
    pi, pv = te.placeholder(at.shape, "i", dtype), te.placeholder((2,), "v")
    dag = te.ComputeDAG([pi, pv, ops.one_hot(pi, pv, depth, 1)])
    (got,) = te.evaluate(dag, [at, np.array([0, 1], np.float32)])
    for row, i in zip(got, at, strict=True):
        place = meant(int(i), depth)
        assert np.flatnonzero(row).tolist() == ([] if place is None else [place])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_hot_of_floats(dtype: str) -> None:
    at = np.array(
        [0.9, -0.5, 1.5, -1.7, 4.0, 5.0, -5.0, -6.0, np.nan, np.inf, -np.inf, 6e4], dtype
    )
    want = [0, 0, 1, 4, 4, None, 0, None, None, None, None, None]
    pi, pv = te.placeholder(at.shape, "i", dtype), te.placeholder((2,), "v")
    dag = te.ComputeDAG([pi, pv, ops.one_hot(pi, pv, 5, 1)])
    arrays = [at, np.array([0, 1], np.float32)]
    (got,) = te.evaluate(dag, arrays)
    assert [r[0] if len(r := np.flatnonzero(row)) else None for row in got] == want
    check_dag(dag, 0, inputs=arrays, exact=True, rows=1, sketches=1, with_interpreter=False)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64", "int64"])
def test_in_kernels(dtype: str) -> None:
    """What `te.evaluate` says of narrow and wide indices, generated code does."""
    extent, at = 300, some(dtype, 300, 24)
    x, new = np.arange(extent, dtype=np.float32), np.arange(1, 25, dtype=np.float32)
    px, pi, pu = (te.placeholder(x.shape, "x"), te.placeholder(at.shape, "i", dtype),
                  te.placeholder(new.shape, "u"))  # fmt: skip
    pv = te.placeholder((2,), "v")
    for tensors, arrays in (
        ([px, pi, ops.take(px, pi, 0)], [x, at]),
        ([px, pi, pu, ops.scatter_elements(px, pi, pu, 0)], [x, at, new]),
        ([pi, pv, ops.one_hot(pi, pv, extent, 1)], [at, np.array([0, 1], np.float32)]),
    ):
        dag = te.ComputeDAG(tensors)
        check_dag(dag, 0, inputs=arrays, exact=True, rows=1, sketches=1, with_interpreter=False)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_reversed_sequences(dtype: str) -> None:
    lengths = some(dtype, 5, 20)
    x = np.arange(100, dtype=np.float32).reshape(20, 5)
    want = x.copy()
    for row, n in zip(want, lengths, strict=True):
        n = min(max(int(n), 0), 5)
        row[:n] = row[:n][::-1]
    px, pl = te.placeholder(x.shape, "x"), te.placeholder(lengths.shape, "n", dtype)
    (got,) = te.evaluate(te.ComputeDAG([px, pl, ops.reverse_sequence(px, pl, 0, 1)]), [x, lengths])
    np.testing.assert_array_equal(got, want)
