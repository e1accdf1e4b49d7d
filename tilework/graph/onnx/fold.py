"""Evaluating operators of constants at import: shape arithmetic, masks, small tables.

What a network computes from its weights is left to the passes; here is what must be known for
the shapes. The size of every result is worked out before it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tilework.graph.onnx.budget import Budget
from tilework.graph.onnx.context import Unsupported, attributes
from tilework.graph.onnx.indices import indices_in_range
from tilework.graph.onnx.messages import first_line
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.simple import NotSimple, simple
from tilework.graph.operators.base import normal_axis

LARGEST = 2**27  # elements of one result

# (attributes, inputs; None for those left out) -> number of elements of all results
Size = Callable[[Mapping[str, Any], Sequence[Any]], int]


def _broadcast(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return math.prod(np.broadcast_shapes(*(x.shape for x in xs if x is not None)))


def _first(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return int(xs[0].size)


def _concat(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    normal_axis(a["axis"], xs[0].ndim)
    return _all(a, xs)


def _split(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    extent = xs[0].shape[normal_axis(a.get("axis", 0), xs[0].ndim)]
    sizes = a.get("split", xs[1] if len(xs) > 1 else None)
    if sizes is not None and int(np.sum(sizes)) != extent:  # the evaluator leaves the rest out
        raise ValueError(f"parts {[int(n) for n in sizes]} do not make up extent {extent}")
    return int(xs[0].size)


def _all(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return sum(int(x.size) for x in xs if x is not None)


def _gather(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    data, indices = xs
    return int(indices.size) * (int(data.size) // max(int(data.shape[a.get("axis", 0)]), 1))


def _filled(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return math.prod(int(n) for n in xs[0].reshape(-1))


def _expand(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    extents = tuple(int(n) for n in xs[1].reshape(-1))
    return math.prod(np.broadcast_shapes(xs[0].shape, extents))


def _tile(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    if xs[1].size != xs[0].ndim:
        raise ValueError(f"{xs[1].size} repeats do not fit {list(xs[0].shape)}")
    return int(xs[0].size) * math.prod(int(n) for n in xs[1].reshape(-1))


def _range(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    start, limit, delta = (x.item() for x in xs)
    steps: float = (limit - start) / delta
    return max(math.ceil(steps), 0)


def _one_hot(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return int(xs[0].size) * int(xs[1].item())


def _mel_weights(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    bins, length = (int(x.item()) for x in xs[:2])
    if bins < 1 or length < 1:
        raise ValueError(f"{bins} bins of {length} numbers")
    return bins * (length // 2 + 1)


def _product(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    x, y = xs  # bounds the work, too
    several: int = math.prod(y.shape[:-2])
    return int(x.size) * int(y.shape[-1] if y.ndim > 1 else 1) * max(several, 1)


FOLDABLE: dict[str, Size] = {
    **dict.fromkeys(
        (
            "Abs", "Add", "And", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast",
            "Ceil", "Cos", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual",
            "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow",
            "Reciprocal", "Round", "Sign", "Sin", "Sqrt", "Sub", "Sum", "Where", "Xor",
        ),
        _broadcast,
    ),
    **dict.fromkeys(
        (
            "ArgMax", "ArgMin", "CastLike", "Clip", "CumSum", "Flatten", "Identity", "ReduceMax",
            "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape", "Slice",
            "Squeeze", "Transpose", "Trilu", "Unsqueeze",
        ),
        _first,
    ),
    "Compress": _first,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": lambda a, xs: int(xs[1].size),
    "MatMul": _product,
    "MelWeightMatrix": _mel_weights,
    "NonZero": lambda a, xs: int(xs[0].size) * max(xs[0].ndim, 1),
    "OneHot": _one_hot,
    "Range": _range,
    "ScatterElements": _all,
    "ScatterND": _all,
    "Size": lambda a, xs: 1,
    "Split": _split,
    "Tile": _tile,
    "Unique": lambda a, xs: 4 * int(xs[0].size),
}  # fmt: skip


class NotFolded(Exception):
    """The evaluator cannot compute a node; its operator's converter may."""


def _gather_elements(a: Mapping[str, Any], xs: Sequence[Any]) -> np.ndarray:
    """The evaluator chooses among at most 32 positions."""
    data, indices = xs
    axis = normal_axis(a.get("axis", 0), data.ndim)
    others = tuple(slice(None) if d == axis else slice(0, n) for d, n in enumerate(indices.shape))
    at = indices_in_range(indices, data.shape[axis])
    return np.take_along_axis(data[others], at, axis)


# operators that the evaluator does not do well: (attributes, inputs) -> the result
_OWN: dict[str, Callable[[Mapping[str, Any], Sequence[Any]], np.ndarray]] = {
    "GatherElements": _gather_elements,
}


class Folding:
    """Evaluates nodes of constants, within limits for one model."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def fold(
        self, node: NodeProto, constants: Mapping[str, np.ndarray], opset: int
    ) -> list[np.ndarray | None]:
        """What each output of ``node`` is, whose inputs are all in ``constants``.

        Raises:
            Unsupported: it is too large, or the node is malformed.
            NotFolded: the evaluator fails.
        """
        inputs = [constants[i] if i else None for i in node.input]
        try:
            size = FOLDABLE[node.op_type](attributes(node), inputs)
        except Exception as e:  # the inputs do not fit the operator
            raise Unsupported(f"cannot be evaluated: {first_line(e)}") from e
        width = max((x.itemsize for x in inputs if x is not None), default=8)
        if size > LARGEST or not self._budget.fits(size * max(width, 8)):
            raise Unsupported("its result, computed from constants, is too large")
        own = _OWN.get(node.op_type)
        if own is not None:
            try:
                results: list[np.ndarray | None] = [own(attributes(node), inputs)]
            except Exception as e:  # the inputs do not fit the operator
                raise Unsupported(f"cannot be evaluated: {first_line(e)}") from e
        else:
            results = _results(node, inputs, {i: constants[i] for i in node.input if i}, opset)
        self._budget.take(sum(r.nbytes for r in results if r is not None))
        return results


def _results(
    node: NodeProto,
    inputs: Sequence[np.ndarray | None],
    arrays: Mapping[str, np.ndarray],
    opset: int,
) -> list[np.ndarray | None]:
    """The outputs of a node, by NumPy or else by the evaluator."""
    if len(node.output) == 1:
        with suppress(NotSimple):
            return [simple(node.op_type, attributes(node), inputs)]
    return _evaluated(node, arrays, opset)


def _evaluated(
    node: NodeProto, arrays: Mapping[str, np.ndarray], opset: int
) -> list[np.ndarray | None]:
    """The outputs of a node, by the evaluator of the ``onnx`` package."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            graph = onnx.GraphProto(
                node=[node],
                input=[onnx.ValueInfoProto(name=n) for n in arrays],
                output=[onnx.ValueInfoProto(name=n) for n in node.output if n],
            )
            run: Any = ReferenceEvaluator(graph, opsets={"": opset})
            results = iter(run.run(None, dict(arrays)))
            return [np.asarray(next(results)) if n else None for n in node.output]
    except Exception as e:  # whatever it makes of a malformed node, or of one beyond its means
        raise NotFolded(first_line(e)) from e
