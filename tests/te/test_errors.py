"""Declarations that make no sense are refused where they are made."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import te

A = te.placeholder((4, 8), name="A")


def test_repeated_axis_names():
    k1, k2 = te.reduce_axis(4, "k"), te.reduce_axis(8, "k")
    with pytest.raises(ValueError, match="C: axis names must be unique, but k repeats"):
        te.compute((1,), lambda i: te.sum(A[k1, k2], axis=[k1, k2]), name="C")
    k = te.reduce_axis(8, "i")
    with pytest.raises(ValueError, match="i repeats"):
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k))


def test_reduction_inside_a_body():
    k = te.reduce_axis(8, "k")
    with pytest.raises(ValueError, match="must be the whole body"):
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k) + 1.0)
    with pytest.raises(ValueError, match="must be the whole body"):
        te.compute((4,), lambda i: te.max(te.sum(A[i, k], axis=k), axis=k))


def test_reduction_over_something_else():
    with pytest.raises(ValueError, match="needs reduce axes"):
        te.compute((4,), lambda i: te.sum(A[i, 0], axis=i))
    with pytest.raises(ValueError, match="needs reduce axes"):
        te.sum(A[0, 0], axis=[])


def test_wrong_number_of_indices():
    with pytest.raises(ValueError, match="tensor A has 2 dimensions but was read with 1 ind"):
        te.compute((4,), lambda i: A[i])
    with pytest.raises(ValueError, match="takes 1 indices but the shape has 2"):
        te.compute((4, 8), lambda i: A[i, i])


@pytest.mark.parametrize("shape", [(0, 4), (3, -1)])
def test_extents_must_be_positive(shape):
    with pytest.raises(ValueError, match="every extent must be positive"):
        te.placeholder(shape)
    with pytest.raises(ValueError, match="every extent must be positive"):
        te.compute(shape, lambda i, j: A[i, j])


def test_mixed_types():
    b = te.placeholder((4, 8), name="B", dtype="int32")
    for wrong in (
        lambda: A[0, 0] + b[0, 0],
        lambda: A[0, 0] < b[0, 0],
        lambda: te.select(A[0, 0] > 0.0, A[0, 0], b[0, 0]),
    ):
        with pytest.raises(TypeError, match=r"use te\.cast"):
            wrong()
    with pytest.raises(TypeError, match="expected bool"):
        te.if_then_else(A[0, 0], 1.0, 2.0)
    with pytest.raises(TypeError, match="floating-point"):
        te.exp(b[0, 0])
    with pytest.raises(TypeError, match="'/' is not defined for int32"):
        b[0, 0] / 2


def test_unknown_types_and_functions():
    with pytest.raises(TypeError, match="unknown dtype 'float31'; known: bool, int8"):
        te.placeholder((4,), dtype="float31")
    with pytest.raises(TypeError, match="unknown dtype"):
        te.cast("double", A[0, 0])
    with pytest.raises(ValueError, match="unknown math function 'gamma'"):
        te.call("gamma", A[0, 0])


def test_python_logic_on_expressions():
    with pytest.raises(TypeError, match="no truth value"):
        te.compute((4, 8), lambda i, j: A[i, j] if i < 2 else A[0, j])
    with pytest.raises(TypeError, match="cannot use 'x' of type str"):
        A[0, 0] + "x"


def test_dag_needs_outputs_and_all_inputs():
    with pytest.raises(ValueError, match="at least one computed output"):
        te.ComputeDAG([A])
    c = te.compute((4, 8), lambda i, j: A[i, j] + 1.0)
    with pytest.raises(ValueError, match="not listed as inputs: A"):
        te.ComputeDAG([c])


@pytest.mark.parametrize(
    ("kind", "dtype", "value"),
    [
        ("sum", "float32", 0), ("max", "float32", -np.inf), ("min", "int8", 127),
        ("max", "int8", -128), ("max", "int32", -(2**31)), ("max", "uint8", 0),
        ("min", "uint8", 255), ("prod", "int16", 1), ("min", "bfloat16", np.inf),
        ("max", "bool", 0), ("min", "uint64", 2**64 - 1),
    ],
)  # fmt: skip
def test_neutral_elements(kind, dtype, value):
    k = te.reduce_axis(4, "k")
    a = te.placeholder((4,), dtype=dtype)
    assert getattr(te, kind)(a[k], axis=k).identity == value
