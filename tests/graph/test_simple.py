"""Operators of constants by NumPy, beside the evaluator of the ``onnx`` package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tilework.graph.onnx.context import attributes
from tilework.graph.onnx.fold import FOLDABLE, NotFolded, _evaluated
from tilework.graph.onnx.simple import _SIMPLE, NotSimple, simple

KINDS = ("int64", "int32", "float32", "float64", "bool", "uint8", "float16")
ALIKE = sorted({"Add", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
                "MatMul", "Max", "Min", "Mul", "Sub"})  # fmt: skip


def by_both(op: str, inputs: list[np.ndarray], opset: int, **attrs: Any) -> tuple[Any, Any]:
    """What NumPy and the evaluator make of a node; None: an error."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attrs)
    try:
        own: Any = simple(op, attributes(node), inputs)
    except NotSimple:
        own = None
    try:
        (theirs,) = _evaluated(node, dict(zip(names, inputs, strict=True)), opset)
    except NotFolded:
        return own, None
    return own, theirs


def check(op: str, inputs: list[np.ndarray], opset: int = 18, **attrs: Any) -> None:
    """Where there is an answer it is the evaluator's."""
    own, theirs = by_both(op, inputs, opset, **attrs)
    if own is not None:
        assert theirs is not None, f"{op}: the evaluator refuses it"
        assert own.dtype == theirs.dtype
        np.testing.assert_array_equal(own, theirs)


shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
numbers = st.integers(-4, 5)


def array(shape: tuple[int, ...], kind: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 5, shape).astype(kind)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(ALIKE), shapes, shapes, st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_functions_of_two(op, first, second, kind, other):
    check(op, [array(first, kind), array(second, other, 1)])
    check(op, [array(first, kind), array(first, kind, 1)])


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["And", "Or"]), shapes, shapes)
def test_logic(op, first, second):
    check(op, [array(first, "bool"), array(second, "bool", 1)])
    check("Not", [array(first, "bool")])


@settings(deadline=None, max_examples=200)
@given(st.data(), shapes, st.sampled_from(KINDS))
def test_slices(data, shape, kind):
    count = data.draw(st.integers(1, 3))
    bound = st.one_of(numbers, st.sampled_from([2**63 - 1, -(2**63)]))
    lists = [data.draw(st.lists(n, min_size=count, max_size=count)) for n in (bound, bound)]
    axes = data.draw(st.lists(st.integers(-3, 2), min_size=count, max_size=count, unique=True))
    steps = data.draw(st.lists(st.sampled_from([1, 1, 2, -1, -2]), min_size=count, max_size=count))
    given = [np.array(n, np.int64) for n in (*lists, axes, steps)]
    x = array(shape, kind)
    check("Slice", [x, *given[: data.draw(st.integers(2, 4))]])
    check("Slice", [x], 9, starts=lists[0], ends=lists[1], axes=axes)


@settings(deadline=None, max_examples=150)
@given(st.data(), shapes, st.sampled_from(KINDS))
def test_shapes(data, shape, kind):
    x = array(shape, kind)
    axes = data.draw(st.lists(st.integers(-4, 3), min_size=1, max_size=2))
    for op in ("Squeeze", "Unsqueeze"):
        check(op, [x, np.array(axes, np.int64)])
        check(op, [x], 11, axes=axes)
    check("Squeeze", [x])
    check("Transpose", [x])
    if shape:
        check("Transpose", [x], perm=data.draw(st.permutations(range(len(shape)))))
    extents = data.draw(st.lists(st.integers(-1, 3), max_size=3))
    check("Reshape", [x, np.array(extents, np.int64)])
    check("Reshape", [x, np.array([-1], np.int64)])
    check("Expand", [x, np.array([abs(n) for n in extents], np.int64)])
    others = [
        x,
        array(shape, kind, 1),
        array(data.draw(shapes), data.draw(st.sampled_from(KINDS))),
    ]
    check("Concat", others[:2], axis=axes[0])
    check("Concat", others, axis=axes[0])


@settings(deadline=None, max_examples=100)
@given(st.data(), shapes, st.sampled_from(KINDS))
def test_positions(data, shape, kind):
    indices = np.array(data.draw(st.lists(st.integers(-3, 3), max_size=3)), np.int64)
    check("Gather", [array(shape, kind), indices], axis=data.draw(st.integers(-2, 2)))
    given = data.draw(numbers), data.draw(numbers), data.draw(st.sampled_from([-2, -1, 0, 1, 3]))
    if kind in ("uint8", "bool"):
        kind, given = "uint8", tuple(map(abs, given))
    check("Range", [np.array(n, kind) for n in given])


@settings(deadline=None, max_examples=100)
@given(st.data(), shapes, st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_values(data, shape, kind, other):
    x = array(shape, kind)
    signed = x - np.array(3).astype(kind) if kind != "bool" else x
    for op in ("Abs", "Cos", "Identity", "Log", "Relu", "Sin"):
        check(op, [signed])
    check("Cast", [signed], to=int(helper.np_dtype_to_tensor_dtype(np.dtype(other))))
    check("CastLike", [signed, array((1,), other)], 19)
    check("Tile", [x, np.array(data.draw(st.lists(st.integers(0, 2), max_size=3)), np.int64)])
    check("ConstantOfShape", [np.array(shape, np.int64)])
    check("Where", [array(shape, "bool"), x, array(data.draw(shapes), kind, 1)])
    check("Where", [array(shape, "bool"), x, array((), other, 1)])
    check("CumSum", [x, np.array(data.draw(numbers), np.int64)])
    check("Reshape", [x, np.array(shape, np.int64)], allowzero=1)
    check("Reshape", [x, np.array([0, -1], np.int64)], allowzero=1)
    if kind != "bool":
        check("Div", [signed, array(shape, kind, 1)])
        check("Div", [x, np.maximum(array(shape, kind, 1), np.array(1, kind))])


def test_what_is_filled_with_a_value_is_left_to_the_evaluator():
    value = helper.make_tensor("v", 7, [1], [3])
    check("ConstantOfShape", [np.array([2, 3], np.int64)], value=value)


def test_what_is_here_may_be_folded():
    assert _SIMPLE.keys() <= FOLDABLE.keys()


@pytest.mark.parametrize("kind", ["complex64", "object"])
def test_other_types_are_left_to_the_evaluator(kind):
    with pytest.raises(NotSimple):
        simple("Add", {}, [np.ones(2, kind), np.ones(2, kind)])
    with pytest.raises(NotSimple):
        simple("Ceil", {}, [np.ones(2)])
