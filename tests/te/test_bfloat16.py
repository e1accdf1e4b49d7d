"""bfloat16 in tensor expressions: a type to store, rounded to nearest."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import te
from tilework.dtypes import is_float_array, numpy_dtype, round_bfloat16
from tilework.te.serial import dag_from_json, dag_to_json


def stored_sum():
    a = te.placeholder((4,), "a", "bfloat16")
    b = te.placeholder((4,), "b")
    out = te.compute(
        (4,), lambda i: te.cast("bfloat16", te.cast("float32", a[i]) + b[i]), name="out"
    )
    return te.ComputeDAG([a, b, out])


def test_rounding_is_to_nearest_and_ties_to_even():
    # neighbours of 1 are 2^-7 apart: halves go to the even one
    got = round_bfloat16(np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-9, -1 - 3 * 2**-8], "f4"))
    np.testing.assert_array_equal(got, [1, 1 + 2**-6, 1, -1 - 2**-6])
    assert np.isnan(round_bfloat16(np.array([np.nan], "f4"))).all()


def test_values_are_rounded_where_they_are_stored():
    dag = stored_sum()
    a = np.array([1, 2, 256, -1], "f4").astype(numpy_dtype("bfloat16"))
    b = np.array([2**-8, 2**-9, 1, 2**-9], "f4")
    (got,) = te.evaluate(dag, [a, b])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [1, 2, 256, -1])
    (exact,) = te.evaluate(dag, [a, b], "float64")
    np.testing.assert_array_equal(exact, np.array([1, 2, 256, -1]) + b)


def test_types_are_known_by_name():
    assert numpy_dtype("bfloat16").itemsize == 2
    assert is_float_array(np.zeros(2, numpy_dtype("bfloat16")))
    assert not is_float_array(np.zeros(2, "int8"))


@pytest.mark.parametrize(
    "body",
    [
        lambda x, k: x[0] + x[1],
        lambda x, k: x[0] * 2.0,
        lambda x, k: te.exp(x[0]),
        lambda x, k: te.sum(x[k], axis=k),
    ],
)
def test_arithmetic_needs_a_cast(body):
    x = te.placeholder((4,), "x", "bfloat16")
    with pytest.raises(TypeError, match=r"float32|te\.cast"):
        body(x, te.reduce_axis(4, "k"))


def test_the_type_is_part_of_a_workload_and_of_its_document():
    dag = stored_sum()
    again = dag_from_json(dag_to_json(dag))
    assert again.workload_key == dag.workload_key
    assert "out(i) = bfloat16((float32(a[i]) + b[i]))" in str(dag)
    assert "a = PLACEHOLDER [4] bfloat16" in str(dag)
