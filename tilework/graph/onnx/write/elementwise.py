"""Operators that treat all elements alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tilework.dtypes import is_float, numpy_dtype
from tilework.errors import NetworkError
from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple


def _clip(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    dtype = numpy_dtype(w.net.types[node.name].dtype)
    ends = [
        w.constant(f"{out}_{end}", np.asarray(node.attrs[end], dtype)) for end in ("low", "high")
    ]
    w.add("Clip", [*inputs, *ends], out)


def _limit(op: str, w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    """A limit that is NaN does not limit: a Clip knows one number, Max and Min are for others."""
    (x, limit), kind = inputs, w.net.types[node.inputs[1]]
    if kind.shape or not is_float(kind.dtype):
        w.add(op, inputs, out)
        return
    # without the other limit, ONNX Runtime takes the largest finite number for it
    beyond = np.asarray(np.inf if op == "Max" else -np.inf, numpy_dtype(kind.dtype))
    other = w.constant(f"{out}_beyond", beyond)
    w.add("Clip", [x, limit, other] if op == "Max" else [x, other, limit], out)


def _rsqrt(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Sqrt", inputs, f"{out}_sqrt")
    w.add("Reciprocal", [f"{out}_sqrt"], out)


def _isinf(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    signs = {f"detect_{k}": int(node.attrs[k]) for k in ("positive", "negative")}
    w.add("IsInf", inputs, out, **signs)


def _modulo(w: Writer, node: Node, inputs: Sequence[str], out: str, *, fmod: bool) -> None:
    floating = np.dtype(w.net.types[node.name].dtype).kind == "f"
    if floating and not fmod:
        raise NetworkError(
            f"node '{node.name}': ONNX has no remainder of floats with the divisor's sign"
        )
    w.add("Mod", inputs, out, fmod=int(fmod))


def _cast(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.cast(inputs[0], node.attrs["to"], out)


def _not_equal(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Equal", inputs, f"{out}_same")
    w.add("Not", [f"{out}_same"], out)


_SAME_MEANING = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin",
    "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "divide": "Div", "equal": "Equal", "erf": "Erf", "exp": "Exp",
    "floor": "Floor", "greater": "Greater", "greater_equal": "GreaterOrEqual",
    "identity": "Identity", "isnan": "IsNaN", "less": "Less", "less_equal": "LessOrEqual",
    "log": "Log", "logical_and": "And", "logical_not": "Not", "logical_or": "Or",
    "logical_xor": "Xor", "maximum": "Max", "minimum": "Min", "multiply": "Mul", "neg": "Neg",
    "power": "Pow", "prelu": "PRelu", "quotient": "Div", "reciprocal": "Reciprocal",
    "round": "Round", "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt",
    "subtract": "Sub", "tan": "Tan", "where": "Where",
}  # fmt: skip


def _shift(direction: str, w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("BitShift", inputs, out, direction=direction)


WRITERS: dict[str, Write] = {
    **{ours: simple(theirs) for ours, theirs in _SAME_MEANING.items()},
    "at_least": partial(_limit, "Max"),
    "at_most": partial(_limit, "Min"),
    "cast": _cast,
    "clip": _clip,
    "floor_mod": partial(_modulo, fmod=False),
    "isinf": _isinf,
    "not_equal": _not_equal,
    "rsqrt": _rsqrt,
    "shift_left": partial(_shift, "LEFT"),
    "shift_right": partial(_shift, "RIGHT"),
    "truncated_mod": partial(_modulo, fmod=True),
}
