"""Single ONNX operators on the numbers that make trouble, and where ONNX Runtime means another.

`KNOWN` lists every difference that is left as it is; the page docs/semantics.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

FLOATS = ("float32", "float64", "float16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
TYPES = (*FLOATS, *INTEGERS, "bool")

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos",
    "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf",
    "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu",
    "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
    "ThresholdedRelu",
)  # fmt: skip
BINARY = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow",
    "PRelu", "Sub", "Sum", "Xor",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """One node.

    Attributes:
        op: the ONNX operator.
        dtype: of the data; other inputs have types of their own.
        arrays: the inputs.
        constants: positions of inputs that are known at import.
        outputs: how many.
        attrs: the node's.
    """

    op: str
    dtype: str
    arrays: tuple[np.ndarray, ...]
    constants: tuple[int, ...] = ()
    outputs: int = 1
    attrs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op} of {self.dtype} {[a.shape for a in self.arrays]} {self.attrs}"


@dataclass(frozen=True)
class Known:
    """A difference from ONNX Runtime that stays.

    Attributes:
        ops: operators.
        dtypes: of the data.
        without: numbers that are left out of the comparison: "nan", "infinity", "large" (integers
            whose sums or products leave the type).
        result: or, for elementwise operators, which elements are not compared.
    """

    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    without: tuple[str, ...] = ()
    result: Callable[[Case], np.ndarray] | None = None


def _beyond(c: Case) -> np.ndarray:
    """Numbers that the type converted to does not hold: NaN, and what lies outside."""
    to = helper.tensor_dtype_to_np_dtype(c.attrs["to"])
    x = c.arrays[0].astype("float64")
    if to.kind not in "iu":
        return np.zeros(x.shape, bool)
    info = np.iinfo(to)
    return ~((x > float(info.min) - 1) & (x < float(info.max) + 1))


def _root_of_minus_infinity(c: Case) -> np.ndarray:
    x, exponent = c.arrays
    return (exponent == 0.5) & (x == -np.inf) & (1 in c.constants)


KNOWN = (
    Known(
        ("ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool", "TopK", "Hardmax"), FLOATS, ("nan",)
    ),
    Known(("ScatterElements", "ScatterND"), FLOATS, ("nan",)),
    Known(("MaxPool", "GlobalMaxPool"), FLOATS, ("infinity",)),
    Known(
        ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare", "ReduceMean"),
        INTEGERS,
        ("large",),
    ),
    Known(("ReduceLogSumExp",), FLOATS, ("nan",)),
    Known(("LogSoftmax",), FLOATS, ("nan", "infinity")),
    Known(("Mod",), ("int64", "uint64"), ("large",)),
    Known(("Sign",), ("float16",), result=lambda c: np.isnan(c.arrays[0])),
    Known(("Shrink",), ("float64",), result=lambda c: np.ones((), bool)),
    Known(("Pow",), FLOATS, result=_root_of_minus_infinity),
    Known(("Cast",), FLOATS, result=_beyond),
)

REFUSED = {
    "Shrink": INTEGERS,
    "ReduceL2": INTEGERS,
    "ReduceLogSum": INTEGERS,
    "ReduceLogSumExp": INTEGERS,
}
"""What ONNX Runtime computes and an import refuses."""


def without(op: str, dtype: str) -> set[str]:
    """Numbers that the comparison of an operator leaves out."""
    return {w for k in KNOWN if op in k.ops and dtype in k.dtypes for w in k.without}


def uncompared(c: Case) -> np.ndarray:
    """Elements of an elementwise operator's result that are not compared."""
    masks = [k.result(c) for k in KNOWN if k.result and c.op in k.ops and c.dtype in k.dtypes]
    return np.logical_or.reduce(masks) if masks else np.zeros((), bool)


# ---------------------------------------------------------------------------- numbers


def special(dtype: str) -> np.ndarray:
    """Numbers at the edges of a type."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in FLOATS:
        info = np.finfo(dtype)
        tiny, most = float(info.smallest_subnormal), float(info.max)
        return np.array([
            np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 3, -3, 7,
            0.1, -10, most, -most, tiny, -tiny, float(info.tiny), 88.8, 1e4,
        ]).astype(dtype)  # fmt: skip
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, 5, 7, 100, -1, -2, -3, -7, info.min, info.min + 1, info.max, info.max - 1,
             info.max // 2, info.min // 2]  # fmt: skip
    return np.array([e for e in edges if info.min <= e <= info.max], dtype)


def numbers(rng: np.random.Generator, dtype: str, shape: Sequence[int], op: str) -> np.ndarray:
    """Random numbers and special ones, without those that `KNOWN` leaves out."""
    gone = without(op, dtype)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in FLOATS:
        x = (rng.standard_normal(shape) * 3).astype(dtype)
        rare = np.asarray(rng.random(shape) < rng.choice([0.0, 0.05, 0.4]))
        odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1e-7], dtype)
        x = np.where(rare, rng.choice(odd, shape), x)
        if x.ndim > 1 and rng.random() < 0.5:
            x[rng.integers(x.shape[0])] = rng.choice(odd)
        x = np.where(np.isnan(x), 1, x) if "nan" in gone else x
        return (np.where(np.isinf(x), 2, x) if "infinity" in gone else x).astype(dtype)
    info = np.iinfo(dtype)
    small = rng.integers(max(info.min, -4), 5, shape).astype(dtype)
    if "large" in gone:
        return small
    wide = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.5, small, wide)


# ---------------------------------------------------------------------------- cases


def elementwise(dtype: str) -> Iterator[Case]:
    """Every elementwise operator on all special numbers, or on all pairs of them."""
    x = special(dtype)
    a, b = np.repeat(x, len(x)), np.tile(x, len(x))
    for op in UNARY:
        yield Case(op, dtype, (x,))
    for op in BINARY:
        fmods = (0, 1) if op == "Mod" and dtype in INTEGERS else (int(op == "Mod"),)
        for fmod in fmods:
            p, q = a, b
            if op in ("Div", "Mod") and dtype in INTEGERS:  # ONNX Runtime dies of these
                fine = (q != 0) & ~((p == np.iinfo(dtype).min) & (q.astype("float64") == -1))
                if "large" in without(op, dtype):
                    fine &= (np.abs(p.astype("float64")) < 200) & (
                        np.abs(q.astype("float64")) < 200
                    )
                p, q = p[fine], q[fine]
            yield Case(op, dtype, (p, q), attrs={"fmod": fmod} if op == "Mod" else {})
    for to in TYPES:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(to))
        yield Case("Cast", dtype, (x,), attrs={"to": number})
    if dtype == "bool":
        return
    exponents = (0, 1, 2, 3, 10) if dtype in INTEGERS else (0, 0.5, 1, 2, 3, -1, -0.5, 2.5)
    for e in (*exponents, *((-1,) if dtype in SIGNED else ())):
        yield Case("Pow", dtype, (x, np.array(e, dtype)), constants=(1,))
    if dtype in UNSIGNED:
        by = np.resize(np.arange(np.iinfo(dtype).bits), a.shape).astype(dtype)
        for direction in ("LEFT", "RIGHT"):
            yield Case("BitShift", dtype, (a, by), attrs={"direction": direction})
    low, high = (np.array(v, dtype) for v in (1, 3))
    for ends in ((low, high), (high, low)):
        yield Case("Clip", dtype, (x, *ends), constants=(1, 2))
        yield Case("Clip", dtype, (x, *ends))
    yield Case("Where", dtype, (a == b, a, b))


def _reductions(r: np.random.Generator, op: str, dtype: str) -> Case:
    shape = tuple(int(n) for n in r.integers(1, 7, r.integers(1, 4)))
    axes = [d for d in range(len(shape)) if r.random() < 0.5]  # none is a case of its own
    attrs = {"keepdims": int(r.integers(2)), "noop_with_empty_axes": int(r.integers(2))}
    x = numbers(r, dtype, shape, op)
    return Case(op, dtype, (x, np.array(axes, np.int64)), (1,), attrs=attrs)


def _along(r: np.random.Generator, op: str, dtype: str) -> Case:
    shape = tuple(int(n) for n in r.integers(1, 8, 2))
    axis = int(r.integers(2)) if op != "Hardmax" else 1
    x = numbers(r, dtype, shape, op)
    if op == "CumSum":
        flags = {k: int(r.integers(2)) for k in ("exclusive", "reverse")}
        return Case(op, dtype, (x, np.array(axis, np.int64)), (1,), attrs=flags)
    if op == "TopK":
        k = np.array([r.integers(1, shape[axis] + 1)], np.int64)
        attrs = {"axis": axis, "largest": int(r.integers(2))}
        return Case(op, dtype, (x, k), (1,), 2, attrs)
    last = {"select_last_index": int(r.integers(2))} if op.startswith("Arg") else {}
    return Case(op, dtype, (x,), attrs={"axis": axis, **last})


def _pools(r: np.random.Generator, op: str, dtype: str) -> Case:
    x = numbers(r, dtype, (1, 2, 7, 6), op)
    if op.startswith("Global"):
        return Case(op, dtype, (x,))
    attrs: dict[str, Any] = {"kernel_shape": [2, 3], "strides": r.integers(1, 3, 2).tolist()}
    if r.random() < 0.5:
        attrs["pads"] = [1, 1, 1, 1]
    return Case(
        op, dtype, (x,), outputs=int(r.integers(1, 3)) if op == "MaxPool" else 1, attrs=attrs
    )


def _indexed(r: np.random.Generator, op: str, dtype: str) -> Case:
    n = int(r.integers(1, 9))
    kind = str(r.choice(["int32", "int64"]))
    x, other = (numbers(r, dtype, (n, 5), op) for _ in range(2))
    anywhere = r.integers(-n, n, (n, 5)).astype(kind)
    if op == "Gather":
        return Case(op, dtype, (x, anywhere[:, :2]), (1,) if r.random() < 0.5 else ())
    if op == "GatherElements":
        return Case(op, dtype, (x, anywhere))
    if op == "GatherND":
        return Case(op, dtype, (x, anywhere[:, :1].astype(np.int64)))
    if op == "OneHot":
        depth = int(r.integers(1, 9))
        at = r.integers(-depth - 2, depth + 2, n).astype(np.int64)
        return Case(op, dtype, (at, np.array(depth), numbers(r, dtype, (2,), op)), (1,))
    reduction = str(r.choice(["none", "add", "mul", "max", "min"]))
    if op == "ScatterND":
        at = r.permutation(n)[:, None] - n * (r.random((n, 1)) < 0.5)
        return Case(op, dtype, (x, at.astype(np.int64), other), attrs={"reduction": reduction})
    if reduction == "none":  # who writes last is open
        anywhere = np.stack([r.permutation(n) for _ in range(5)], 1).astype(kind)
    return Case(op, dtype, (x, anywhere, other), attrs={"axis": 0, "reduction": reduction})


def _rows(r: np.random.Generator, op: str, dtype: str) -> Case:
    x = numbers(r, dtype, (6, 5), op)
    if op == "MatMul":
        return Case(op, dtype, (x, numbers(r, dtype, (5, 3), op)))
    if op == "LayerNormalization":
        return Case(op, dtype, (x, np.ones(5, dtype)), (1,))
    if op == "Pad":
        return Case(op, dtype, (x, np.array([1, 0, 0, 2])), (1,))
    return Case(op, dtype, (x,))


STRUCTURED: dict[str, Callable[[np.random.Generator, str, str], Case]] = {
    **dict.fromkeys(
        ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2",
         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"), _reductions
    ),
    **dict.fromkeys(
        ("Softmax", "LogSoftmax", "Hardmax", "CumSum", "TopK", "ArgMax", "ArgMin"), _along
    ),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pools),
    **dict.fromkeys(
        ("Gather", "GatherElements", "GatherND", "OneHot", "ScatterElements", "ScatterND"),
        _indexed
    ),
    **dict.fromkeys(("MatMul", "LayerNormalization", "Pad", "Trilu"), _rows),
}  # fmt: skip


# ---------------------------------------------------------------------------- running


def model(cases: Sequence[Case]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """All cases in one model, and the inputs that it takes."""
    kind = helper.np_dtype_to_tensor_dtype
    nodes, constants, feed, outputs = [], [], {}, []
    for n, c in enumerate(cases):
        names = [f"x{n}_{i}" for i in range(len(c.arrays))]
        for i, (name, array) in enumerate(zip(names, c.arrays, strict=True)):
            if i in c.constants:
                constants.append(numpy_helper.from_array(array, name))
            else:
                feed[name] = array
        made = [f"y{n}_{i}" for i in range(c.outputs)]
        outputs += made
        nodes.append(helper.make_node(c.op, names, made, **c.attrs))
    infos = [helper.make_tensor_value_info(n, kind(a.dtype), a.shape) for n, a in feed.items()]
    outs = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph(nodes, "cases", infos, outs, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    ), feed


def onnxruntime_says(case: Case) -> list[np.ndarray] | None:
    """Its outputs; None where it has no implementation, or the standard forbids the type."""
    made, feed = model([case])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, feed))
    except (ort_errors.NotImplemented, ort_errors.InvalidGraph, ort_errors.Fail):
        return None
    except ort_errors.RuntimeException as error:
        if "not supported" in str(error):  # said while running
            return None
        raise


_TOLERANCE = {"float16": 2e-3, "float32": 3e-4, "float64": 1e-9}


def assert_same(got: np.ndarray, want: np.ndarray, case: Case, skipped: np.ndarray) -> None:
    """Equal types, shapes and elements; floats to within their rounding, NaN where NaN is."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), str(case)
    equal = got == want
    if want.dtype.kind == "f":
        g, w = got.astype("float64"), want.astype("float64")
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(w), initial=1e-30, where=np.isfinite(w))
            near = np.abs(g - w) <= _TOLERANCE[str(want.dtype)] * np.maximum(
                np.abs(w), 1e-6 if case.op in (*UNARY, *BINARY) else scale
            )
        # a denormal number is a rounding error of a larger one
        tiny = np.maximum(np.abs(g), np.abs(w)) < float(np.finfo(want.dtype).tiny) * 2
        equal = equal | (np.isnan(g) & np.isnan(w)) | near | tiny
    wrong = ~(equal | np.broadcast_to(skipped, equal.shape))
    if wrong.any():
        at = [tuple(map(int, p)) for p in np.argwhere(wrong)[:4]]
        same = [a for a in case.arrays if a.shape == want.shape]
        found = [(*(a[p].item() for a in same), got[p].item(), want[p].item()) for p in at]
        raise AssertionError(f"{case}: at {at}: (inputs.., got, wanted) {found}")
