"""References, buffers between canaries, and comparison."""

from __future__ import annotations

import numpy as np
import pytest

from tests.measure.conftest import add_task
from tilework import te
from tilework.measure.error_text import describe_exception, shorten
from tilework.measure.host_buffer import HostBuffer
from tilework.measure.verify import Answer, Reference, compare, make_reference
from tilework.measure.verify import output_tolerance as tolerance


def reference(*outputs, tolerance=1e-4):
    return Reference((), Answer(-1.0, outputs), tolerance)


def test_buffers_are_aligned_poisoned_and_between_canaries():
    for shape, dtype in (((3, 5), "float32"), ((7,), "int8"), ((), "float64")):
        buffer = HostBuffer(shape, dtype)
        assert buffer.array.shape == shape
        assert buffer.array.ctypes.data % 64 == 0
        buffer.poison()
        assert buffer.intact
        if buffer.array.dtype.kind == "f":
            assert np.isnan(buffer.array).all()
        for offset in (-1, buffer.array.size):
            outside = HostBuffer(shape, dtype)
            address = outside.array.ctypes.data + offset * outside.array.itemsize
            index = address - outside._raw.ctypes.data
            outside._raw[index] ^= 1
            assert not outside.intact


def test_references_are_seeded_and_an_answer_is_not_computed_again(task):
    dag = task.compute_dag
    first, same, other = (make_reference(dag, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.inputs, same.inputs)
    assert not np.array_equal(first.inputs, other.inputs)
    a, b = first.inputs
    assert a.min() < -0.9
    assert a.max() > 0.9
    np.testing.assert_allclose(first.answer.outputs[0], a + b, rtol=1e-6)
    known = Answer(-1.0, (np.zeros(1000, np.float32),))
    again = make_reference(dag, 1, known)
    assert again.answer is known
    np.testing.assert_array_equal(again.inputs, first.inputs)


def test_inputs_are_positive_where_negative_ones_have_no_answer():
    a = te.placeholder((50,), name="A")
    dag = te.ComputeDAG([a, te.compute((50,), lambda i: te.log(a[i]), name="C")])
    made = make_reference(dag, 0)
    assert made.inputs[0].min() > 0
    assert made.answer.low > 0
    never = te.ComputeDAG([a, te.compute((50,), lambda i: te.log(a[i] - 2.0), name="C")])
    with pytest.raises(ValueError, match="not finite"):
        make_reference(never, 0)


def test_inverses_are_those_of_what_is_divided_by():
    a, b, by = (te.placeholder((n,), name=name) for n, name in ((50, "A"), (1, "B"), (1, "by")))
    quotient = te.compute((50,), lambda i: te.quotient(a[i], b[0], by[0]), name="C")
    _, step, inverse = make_reference(te.ComputeDAG([a, b, by, quotient]), 0).inputs
    assert inverse == 1 / step


def test_tolerance_grows_with_long_reductions():
    def dag(k):
        a = te.placeholder((2, k), name="A")
        r = te.reduce_axis(k, name="r")
        return te.ComputeDAG([a, te.compute((2,), lambda i: te.sum(a[i, r], axis=r), name="C")])

    assert tolerance(add_task().compute_dag) == 1e-4
    assert tolerance(dag(4096)) == 1e-4
    assert tolerance(dag(4 * 4096)) == pytest.approx(2e-4)


def test_comparison():
    want = np.array([[1.0, -4.0], [2.0, 0.0]], np.float32)
    close = want + np.float32(3e-4)
    found = compare([close], reference(want))
    assert found.text == ""
    assert found.error == pytest.approx(3e-4 / 4, rel=1e-2)
    off = want.copy()
    off[1, 0] = 2.1
    found = compare([off], reference(want))
    assert found.text == "output 0 differs: 2.1 instead of 2 at (1, 0), relative error 0.025"
    missing = want.copy()
    missing[0, 1] = np.nan
    missing[1, 1] = np.inf
    found = compare([want, missing], reference(want, want))
    assert found.text == "output 1: 2 of 4 elements not written, first (0, 1)"
    assert found.error == float("inf")
    assert "has shape (2,)" in compare([want[0]], reference(want)).text


def test_integers_must_be_equal_and_zeros_are_compared():
    want = np.array([1000000, 1])
    assert compare([want], reference(want)).text == ""
    assert compare([want + 1], reference(want)).text
    zero = np.zeros(3, np.float32)
    assert compare([zero], reference(zero)).text == ""
    assert compare([zero + np.float32(1e-3)], reference(zero)).text


def test_error_texts_are_short_lines():
    assert shorten("a\n  b") == "a b"
    long = shorten("x" * 300 + "y" * 300)
    assert len(long) <= 512
    assert long.startswith("xxx")
    assert long.endswith("yyy")
    try:
        raise KeyError("k")
    except KeyError as error:
        assert describe_exception("build", error).startswith("build: KeyError: 'k' (test_verify")


def test_bfloat16_may_be_off_by_its_rounding_alone():
    x = te.placeholder((64,), "x", "bfloat16")
    third = te.compute((64,), lambda i: te.cast("float32", x[i]) * te.const(1 / 3), name="third")
    dag = te.ComputeDAG(
        [x, te.compute((64,), lambda i: te.cast("bfloat16", third[i]), name="out")]
    )
    found = make_reference(dag, 0)
    (want,) = found.answer.outputs
    assert want.dtype == np.float32
    narrow = found.inputs[0].dtype
    assert not np.array_equal(want, want.astype(narrow))  # the answer itself is not rounded
    assert not compare([want.astype(narrow)], found).text
    off = want.astype(narrow)
    off[np.argmax(np.abs(want))] *= np.array(1 + 2**-6, narrow)
    assert "differs" in compare([off], found).text
