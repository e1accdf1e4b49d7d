"""Evaluating operators of constants at import: shape arithmetic, masks, small tables.

What a network computes from its weights is left to the passes; here is what must be known for
the shapes. The size of every result is worked out before it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.graph.onnx.budget import Budget
from tilework.graph.onnx.context import Unsupported, attributes
from tilework.graph.onnx.messages import first_line

if TYPE_CHECKING:
    import onnx

LARGEST = 2**27  # elements of one result

# (attributes, inputs; None for those left out) -> number of elements of all results
Size = Callable[[Mapping[str, Any], Sequence[Any]], int]


def _broadcast(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return math.prod(np.broadcast_shapes(*(x.shape for x in xs if x is not None)))


def _first(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return int(xs[0].size)


def _all(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return sum(x.size for x in xs if x is not None)


def _gather(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    data, indices = xs
    return int(indices.size) * (data.size // max(data.shape[a.get("axis", 0)], 1))


def _filled(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return math.prod(int(n) for n in xs[0].reshape(-1))


def _expand(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    extents = tuple(int(n) for n in xs[1].reshape(-1))
    return math.prod(np.broadcast_shapes(xs[0].shape, extents))


def _tile(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return int(xs[0].size) * math.prod(int(n) for n in xs[1].reshape(-1))


def _range(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    start, limit, delta = (x.item() for x in xs)
    return max(math.ceil((limit - start) / delta), 0)


def _one_hot(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    return int(xs[0].size) * int(xs[1].item())


def _product(a: Mapping[str, Any], xs: Sequence[Any]) -> int:
    x, y = xs  # bounds the work, too
    return int(x.size) * int(y.shape[-1] if y.ndim > 1 else 1) * max(math.prod(y.shape[:-2]), 1)


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
            "CastLike", "CumSum", "Flatten", "Identity", "ReduceMax", "ReduceMean", "ReduceMin",
            "ReduceProd", "ReduceSum", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
            "Trilu", "Unsqueeze",
        ),
        _first,
    ),
    "Compress": _first,
    "Concat": _all,
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": lambda a, xs: int(xs[1].size),
    "MatMul": _product,
    "NonZero": lambda a, xs: int(xs[0].size) * max(xs[0].ndim, 1),
    "OneHot": _one_hot,
    "Range": _range,
    "ScatterElements": _all,
    "ScatterND": _all,
    "Size": lambda a, xs: 1,
    "Tile": _tile,
    "Unique": lambda a, xs: 4 * int(xs[0].size),
}  # fmt: skip


class Folding:
    """Evaluates nodes of constants, within limits for one model."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def fold(
        self, node: onnx.NodeProto, constants: Mapping[str, np.ndarray], opset: int
    ) -> list[np.ndarray | None]:
        """What each output of ``node`` is, whose inputs are all in ``constants``.

        Raises:
            Unsupported: it is too large, or the node is malformed.
        """
        import onnx
        from onnx.reference import ReferenceEvaluator

        inputs = [constants[i] if i else None for i in node.input]
        try:
            size = FOLDABLE[node.op_type](attributes(node), inputs)
        except Exception as e:  # the inputs do not fit the operator
            raise Unsupported(f"cannot be evaluated: {first_line(e)}") from e
        width = max((x.itemsize for x in inputs if x is not None), default=8)
        if size > LARGEST or not self._budget.fits(size * max(width, 8)):
            raise Unsupported("its result, computed from constants, is too large")
        arrays = {i: constants[i] for i in node.input if i}
        try:
            with np.errstate(all="ignore"):
                graph = onnx.GraphProto(
                    node=[node],
                    input=[onnx.ValueInfoProto(name=n) for n in arrays],
                    output=[onnx.ValueInfoProto(name=n) for n in node.output if n],
                )
                run: Any = ReferenceEvaluator(graph, opsets={"": opset})
                found = iter(run.run(None, arrays))
                results = [np.asarray(next(found)) if n else None for n in node.output]
        except Exception as e:  # whatever the evaluator makes of a malformed node
            raise Unsupported(f"cannot be evaluated: {first_line(e)}") from e
        self._budget.take(sum(r.nbytes for r in results if r is not None))
        return results
