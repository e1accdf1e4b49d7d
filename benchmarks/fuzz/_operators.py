"""What random models are made of: a function per operator or family, which draws a use of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _maker import FLOATS, NUMBERS, Maker, Skip, Val
from _optimised import OPTIMISED
from onnx import TensorProto, helper

F32 = ("float32",)
SOME = ("float32", "float32", "float64", "float16")
ALL = (*NUMBERS, "bool")

UNARY = (
    "Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil",
    "Round", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh",
    "Atanh",    "Erf", "Sign", "Softplus", "Softsign", "HardSwish", "Mish", "Gelu", "Identity",
)  # fmt: skip
ALPHA = ("LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Swish")
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod", "PRelu")
COMPARE = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
EINSUMS = (
    "bij,bjk->bik", "bij,bkj->bik", "ij,jk->ki", "bshd,bthd->bhst", "ij->ji", "bij->b", "ij,ij->i",
    "i,j->ij", "bhst,bthd->bshd", "ij,j->i", "...ij,...jk->...ik", "bii->bi",
)  # fmt: skip
REDUCE = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip


def unary(m: Maker) -> None:
    """A function of each element."""
    op = m.pick(UNARY)
    kinds = NUMBERS if op in ("Abs", "Neg", "Sign", "Relu", "Identity") else SOME
    m.node(op, m.any(*kinds))


def with_alpha(m: Maker) -> None:
    """An activation with parameters."""
    op = m.pick(ALPHA)
    more: dict[str, Any] = {}
    if op in ("LeakyRelu", "Elu", "Celu", "HardSigmoid", "ThresholdedRelu") and m.chance(0.7):
        more["alpha"] = float(np.round(m.r.uniform(0.05, 1.5), 2))
    if op == "HardSigmoid" and m.chance(0.5):
        more["beta"] = float(np.round(m.r.uniform(0, 1), 2))
    if op == "Shrink":
        more = {"lambd": 0.5, "bias": float(m.pick([0.0, 0.3]))}
    m.node(op, m.any(*F32), **more)


def binary(m: Maker) -> None:
    """Two operands that broadcast."""
    op = m.pick(BINARY)
    a = m.any(*(SOME if op in ("Pow", "PRelu", "Div") and m.chance(0.7) else NUMBERS))
    b = m.fitting(a)
    if op == "PRelu":
        if np.broadcast_shapes(a.array.shape, b.array.shape) != a.array.shape:
            raise Skip  # the slope broadcasts to x, and not the other way
    elif m.chance(0.3):
        a, b = b, a
    if op in ("Div", "Mod") and a.array.dtype.kind in "iu" and _unsafe(a, b):
        raise Skip
    more = {}
    if op == "Mod":
        more["fmod"] = 1 if a.kind in FLOATS or m.chance(0.3) else 0
    if op == "Pow" and m.chance(0.6):
        b = m.constant(np.array(m.pick([2, 3, 1, 0.5, -1, 0, 4]), a.kind))
    m.node(op, a, b, **more)


def _unsafe(a: Val, b: Val) -> bool:
    return bool((b.array == 0).any() or (b.array.astype(np.int64) == -1).any())


def compare(m: Maker) -> None:
    """A comparison, and often what uses one."""
    a = m.any(*NUMBERS)
    (c,) = m.node(m.pick(COMPARE), a, m.fitting(a))
    if m.chance(0.5):
        m.node("Where", c, m.other(c.array.shape, "float32"), m.other(c.array.shape, "float32"))


def logic(m: Maker) -> None:
    """Operations of predicates."""
    a = m.any("bool")
    if m.chance(0.3):
        m.node("Not", a)
    else:
        m.node(m.pick(["And", "Or", "Xor"]), a, m.fitting(a))


def bits(m: Maker) -> None:
    """Operations of the bits of integers."""
    a = m.any("int32", "int64", "uint8", "int8")
    op = m.pick(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    m.node(op, *([a] if op == "BitwiseNot" else [a, m.fitting(a)]))


def where(m: Maker) -> None:
    """A choice by a predicate."""
    c, a = m.any("bool"), m.any(*NUMBERS)
    m.node("Where", m.other(a.array.shape, "bool") if m.chance(0.5) else c, a, m.fitting(a))


def many(m: Maker) -> None:
    """Sums, means, maxima of several."""
    a = m.any(*SOME)
    rest = [m.fitting(a) for _ in range(m.int(0, 3))]
    m.node(m.pick(["Sum", "Mean", "Max", "Min"]), a, *rest)


def clip(m: Maker) -> None:
    """Limits, as inputs or attributes."""
    a = m.any(*(NUMBERS if m.opset >= 12 else F32))
    low, high = sorted(m.r.integers(0 if a.kind.startswith("u") else -2, 4, 2).tolist())
    if m.opset < 11:
        m.node("Clip", a, min=float(low), max=float(high))
        return
    given = [m.constant(np.array(n, a.kind)) if m.chance(0.8) else None for n in (low, high)]
    m.node("Clip", a, *given)


def cast(m: Maker) -> None:
    """To another type."""
    a = m.any(*ALL)
    to = m.pick(
        ["float32", "float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool"]
    )
    if to == "uint8" and a.kind != "bool" and (a.array < 0).any():
        raise Skip
    if to in ("int8", "uint8") and a.kind != "bool" and (np.abs(a.array) > 120).any():
        raise Skip
    m.node("Cast", a, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


def reduce(m: Maker) -> None:
    """Reductions along some axes, given as an attribute or an input."""
    op = m.pick(REDUCE)
    a = m.any(*(SOME if m.chance(0.8) else ("int32", "int64")), ranks=(1, 2, 3, 4, 5))
    more: dict[str, Any] = {"keepdims": m.int(0, 1)} if m.chance(0.8) else {}
    axes = m.axes(a)
    if m.chance(0.15):
        m.node(op, a, **more)
    elif m.opset >= (13 if op == "ReduceSum" else 18):
        m.node(op, a, m.ints(*axes), **more)
    else:
        m.node(op, a, axes=axes, **more)


def arg(m: Maker) -> None:
    """Positions of extremes."""
    a = m.any("float32", "int32", "uint8", ranks=(1, 2, 3, 4))
    more = {"select_last_index": m.int(0, 1)} if m.opset >= 12 and m.chance(0.5) else {}
    m.node(m.pick(["ArgMax", "ArgMin"]), a, axis=m.axis(a), keepdims=m.int(0, 1), **more)


def softmax(m: Maker) -> None:
    """Along one axis, or, in old operator sets, along all from it on."""
    a = m.any(*SOME, ranks=(1, 2, 3, 4))
    m.node(m.pick(["Softmax", "LogSoftmax", "Hardmax"]), a, axis=m.axis(a))


def cumulate(m: Maker) -> None:
    """Running sums."""
    a = m.any("float32", "int32", "int64", "float64", ranks=(1, 2, 3, 4))
    axis = m.constant(np.array(m.axis(a), np.int64))
    m.node("CumSum", a, axis, exclusive=m.int(0, 1), reverse=m.int(0, 1))


def top_k(m: Maker) -> None:
    """The largest or smallest elements."""
    a = m.any("float32", "int64", "int32", ranks=(1, 2, 3))
    axis = m.axis(a)
    k = m.int(1, min(a.array.shape[axis], 6))
    more = {"largest": m.int(0, 1)} if m.opset >= 11 else {}
    m.node("TopK", a, m.ints(k), outputs=2, axis=axis, **more)


def transpose(m: Maker) -> None:
    """A permutation of the dimensions."""
    a = m.any(*ALL, ranks=(1, 2, 3, 4, 5))
    more = {} if m.chance(0.15) else {"perm": m.r.permutation(a.rank).tolist()}
    m.node("Transpose", a, **more)


def reshape(m: Maker) -> None:
    """Other extents of as many elements."""
    a = m.any(*ALL)
    left, shape = a.array.size, []
    while left > 1 and len(shape) < 4:
        n = m.pick([d for d in range(1, left + 1) if left % d == 0])
        shape.append(n)
        left //= n
    if left > 1 or not shape:
        shape.append(left)
    m.r.shuffle(shape)
    if m.chance(0.3):
        shape[m.int(0, len(shape) - 1)] = -1
    elif m.chance(0.2) and shape[0] == (a.array.shape or (0,))[0]:
        shape[0] = 0
    m.node("Reshape", a, m.ints(*shape))


def flatten(m: Maker) -> None:
    """To two dimensions."""
    a = m.any(*SOME, ranks=(1, 2, 3, 4))
    m.node("Flatten", a, axis=m.int(-a.rank if m.opset >= 11 else 0, a.rank))


def squeeze(m: Maker) -> None:
    """Without or with extents of 1."""
    a = m.any(*ALL, ranks=(0, 1, 2, 3, 4))
    ones = [i for i, n in enumerate(a.array.shape) if n == 1]
    if ones and m.chance(0.6):
        op, axes = "Squeeze", sorted(m.r.permutation(ones)[: m.int(1, len(ones))].tolist())
    else:
        op, axes = "Unsqueeze", sorted(m.r.permutation(a.rank + 2)[: m.int(1, 2)].tolist())
    if op == "Squeeze" and m.chance(0.2):
        m.node(op, a)
    elif m.opset >= 13:
        m.node(op, a, m.ints(*axes))
    else:
        m.node(op, a, axes=axes)


def slices(m: Maker) -> None:
    """Parts with steps, also backwards and beyond the ends."""
    a = m.any(*ALL, ranks=(1, 2, 3, 4))
    axes = m.axes(a)
    starts, ends, steps = [], [], []
    for axis in axes:
        n = a.array.shape[axis]
        begin, end = sorted([m.int(0, n), m.int(0, n)])
        step = m.pick([1, 1, 1, 2, 3]) if m.opset >= 10 else 1
        if end == begin:
            begin, end = 0, n
        if m.opset >= 10 and m.chance(0.25):
            begin, end, step = end - 1, begin - 1 if begin else -n - 1, -step
            if begin < 0:
                raise Skip
        elif m.chance(0.2):
            end = m.pick([n + 5, 2**31 - 1, 2**63 - 1])
        elif begin and m.chance(0.2):
            begin -= n
        starts.append(begin)
        ends.append(end)
        steps.append(step)
    if m.opset < 10:
        m.node("Slice", a, axes=axes, starts=starts, ends=ends)
    else:
        m.node("Slice", a, m.ints(*starts), m.ints(*ends), m.ints(*axes), m.ints(*steps))


def concat(m: Maker) -> None:
    """Several along one axis."""
    a = m.any(*ALL, ranks=(1, 2, 3, 4))
    axis, parts = m.axis(a), [a]
    for _ in range(m.int(0, 3)):
        shape = list(a.array.shape)
        found = [v for v in m.values if _joins(v, a, axis)]
        if found and m.chance(0.6):
            parts.append(m.pick(found))
        else:
            shape[axis] = m.int(1, 6)
            parts.append(m.other(shape, a.kind))
    m.r.shuffle(parts)  # type: ignore[arg-type]
    m.node("Concat", *parts, axis=axis)


def _joins(v: Val, a: Val, axis: int) -> bool:
    if v.kind != a.kind or v.rank != a.rank:
        return False
    each = [i for i in range(a.rank) if i != axis % a.rank]
    return all(v.array.shape[i] == a.array.shape[i] for i in each)


def split(m: Maker) -> None:
    """Into parts."""
    a = m.any(*ALL, ranks=(1, 2, 3, 4))
    axis = m.axis(a)
    n = a.array.shape[axis]
    cuts = sorted(m.r.integers(1, n + 1, m.int(1, 3)).tolist())
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True) if b > a]
    if m.opset >= 13:
        m.node("Split", a, m.ints(*sizes), outputs=len(sizes), axis=axis)
    else:
        m.node("Split", a, outputs=len(sizes), axis=axis, split=sizes)


def pad(m: Maker) -> None:
    """Around, also reflected, repeated, and negative."""
    a = m.any("float32", "float32", "float64", "int32", ranks=(1, 2, 3, 4))
    mode = m.pick(
        ["constant", "constant", "reflect", "edge", *(["wrap"] if m.opset >= 19 else [])]
    )
    least = -1 if mode == "constant" and m.chance(0.3) else 0
    pads = [m.int(least, 2) for _ in range(2 * a.rank)]
    if mode in ("reflect", "wrap"):
        pads = [min(p, n - 1) for p, n in zip(pads, a.array.shape * 2, strict=True)]
    if m.opset < 11:
        m.node("Pad", a, mode=mode, pads=pads, value=1.5)
    else:
        value = m.constant(np.array(2, a.kind)) if mode == "constant" and m.chance(0.6) else None
        m.node("Pad", a, m.ints(*pads), *([value] if value else []), mode=mode)


def expand(m: Maker) -> None:
    """Repeated: Expand or Tile."""
    a = m.any(*ALL, ranks=(1, 2, 3, 4))
    if m.chance(0.5):
        m.node("Tile", a, m.ints(*(m.int(1, 3) for _ in range(a.rank))))
        return
    shape = [n if n > 1 or m.chance(0.3) else m.int(1, 5) for n in a.array.shape]
    if m.chance(0.3):
        shape.insert(0, m.int(1, 3))
    m.node("Expand", a, m.ints(*shape))


def gather(m: Maker) -> None:
    """Elements by constant or given indices."""
    a = m.any(*ALL, ranks=(1, 2, 3, 4))
    op = m.pick(["Gather", "Gather", "GatherElements", "GatherND"])
    axis = m.axis(a)
    n = a.array.shape[axis]
    if op == "Gather":
        index = m.r.integers(-n, n, m.shape(0, 2))
    elif op == "GatherElements":
        shape = [m.int(1, e) for e in a.array.shape]
        index = m.r.integers(-n, n, shape)
    else:
        deep = m.int(1, a.rank)
        each = [m.r.integers(-e, e, (m.int(1, 4),) * 0 + (3,)) for e in a.array.shape[:deep]]
        index = np.stack(each, axis=-1)
    array = np.asarray(
        index, m.pick([np.int64, np.int64, np.int32]) if op != "GatherND" else np.int64
    )
    i = m.constant(array) if m.chance(0.5) else m.input(array)
    m.node(op, a, i, **({} if op == "GatherND" else {"axis": axis}))


def scatter(m: Maker) -> None:
    """Elements written at indices."""
    a = m.any("float32", "int64", "int32", ranks=(1, 2, 3))
    axis = m.axis(a)
    more: dict[str, Any] = {}
    kinds = ["none"] if m.opset < 16 else ["none", "add", "mul"] + ["max", "min"] * (m.opset >= 18)
    if (kind := m.pick(kinds)) != "none":
        more["reduction"] = kind
    if m.chance(0.5):
        n = a.array.shape[axis]
        shape = [m.int(1, e) for e in a.array.shape]
        if kind == "none":  # no index twice
            shape[axis] = m.int(1, n)
            index = np.argsort(
                m.r.random([n if i == axis % a.rank else e for i, e in enumerate(shape)]),
                axis=axis,
            )
            index = np.take(index, range(shape[axis]), axis=axis)
        else:
            index = m.r.integers(-n, n, shape)
        i = (
            m.constant(index.astype(np.int64))
            if m.chance(0.5)
            else m.input(index.astype(np.int64))
        )
        m.node("ScatterElements", a, i, m.other(shape, a.kind), axis=axis, **more)
    else:
        n = a.array.shape[0]
        rows = m.r.permutation(n)[: m.int(1, n)].reshape(-1, 1).astype(np.int64)
        i = m.constant(rows) if m.chance(0.5) else m.input(rows)
        m.node("ScatterND", a, i, m.other((len(rows), *a.array.shape[1:]), a.kind), **more)


def one_hot(m: Maker) -> None:
    """Indices as rows."""
    depth = m.int(2, 9)
    i = m.input(np.asarray(m.r.integers(0, depth, m.shape(1, 2)), np.int64))
    values = m.constant(np.array([0, 1], m.pick(["float32", "int64", "int32"])))
    m.node("OneHot", i, m.constant(np.array(depth, np.int64)), values, axis=m.pick([-1, 0, 1]))


def trilu(m: Maker) -> None:
    """A triangle."""
    a = m.any("float32", "int64", "bool", ranks=(2, 3, 4))
    k = [m.constant(np.array(m.int(-3, 3), np.int64))] if m.chance(0.7) else []
    m.node("Trilu", a, *k, upper=m.int(0, 1))


def _maps(m: Maker, low: int = 3, high: int = 4, kinds: tuple[str, ...] = F32) -> Val:
    """Feature maps: batch, channels, then positions."""
    found = [v for v in m.values if v.kind in kinds and low <= v.rank <= high]
    found = [v for v in found if min(v.array.shape[2:]) >= 2]
    if found and m.chance(0.75):
        return m.pick(found[-3:])
    rank = m.pick([4, 4, 4, *range(low, high + 1)])
    top = 20 if rank <= 4 else 7
    shape = [m.pick([1, 1, 1, 2]), m.int(1, 12), *(m.int(3, top) for _ in range(rank - 2))]
    return m.input(m.numbers(shape, m.pick(kinds)))


def _window(m: Maker, a: Val, k: list[int]) -> dict[str, Any]:
    """Strides, dilations and padding of a window."""
    more: dict[str, Any] = {}
    n = len(k)
    if m.chance(0.5):
        more["strides"] = [m.int(1, 3) for _ in range(n)] if m.chance(0.4) else [2] * n
    if m.chance(0.25):
        more["dilations"] = [m.int(1, 2) for _ in range(n)]
    if m.chance(0.2):
        more["auto_pad"] = m.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        more.pop("dilations", None)  # ONNX Runtime forgets them: docs/semantics.md
    elif m.chance(0.7):
        half = [(e - 1) // 2 for e in k]
        pads = [*half, *half] if m.chance(0.6) else [m.int(0, max(e - 1, 0)) for e in (*k, *k)]
        more["pads"] = pads
    return more


def conv(m: Maker) -> None:
    """Convolutions: grouped, strided, dilated, of one to three dimensions, also transposed."""
    back = m.chance(0.25)
    a = _maps(m, 3, 5, ("float32",) if m.chance(0.9) else ("float32", "float16"))
    space = a.array.shape[2:]
    k = [min(m.pick([1, 1, 2, 3, 3, 3, 5]), n) for n in space]
    if m.chance(0.5):
        k = [min(k)] * len(k)
    channels = a.array.shape[1]
    group = m.pick([1, 1, 1, channels, *[d for d in (2, 3, 4) if channels % d == 0]])
    out = group * m.pick([1, 1, 2, 3, 4, 8]) if group > 1 else m.pick([1, 3, 4, 8, 16, 17])
    more = _window(m, a, k)
    shape = [channels, out // group, *k] if back else [out, channels // group, *k]
    w = m.constant(np.asarray(m.r.standard_normal(shape) / np.sqrt(np.prod(shape[1:])), a.kind))
    if m.chance(0.05):
        w = m.input(w.array)
    bias = [m.constant(m.numbers([out], a.kind))] if m.chance(0.5) else []
    if back and m.chance(0.3) and "strides" in more:
        more["output_padding"] = [m.int(0, s - 1) for s in more["strides"]]
    if group > 1:
        more["group"] = group
    (y,) = m.node("ConvTranspose" if back else "Conv", a, w, *bias, **more)
    after(m, y)


def after(m: Maker, y: Val) -> None:
    """What often stands behind a product."""
    kind = m.int(0, 5)
    if kind == 0:
        m.node("Relu", y)
    elif kind == 1 and y.rank >= 3:
        c = y.array.shape[1]
        scale, bias, mean = (m.constant(m.numbers([c], y.kind)) for _ in range(3))
        var = m.constant(np.asarray(m.r.uniform(0.5, 2, c), y.kind))
        (y,) = m.node("BatchNormalization", y, scale, bias, mean, var)
        m.node("Relu", y)
    elif kind == 2:
        (s,) = m.node("Sigmoid", y)
        m.node("Mul", y, s)
    elif kind == 3:
        (y,) = m.node("Add", y, m.fitting(y))
        m.node(m.pick(["Relu", "Tanh", "Clip"]), y)


def pool(m: Maker) -> None:
    """Windows reduced, and whole maps."""
    op = m.pick(
        [
            "MaxPool",
            "MaxPool",
            "AveragePool",
            "AveragePool",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "LpPool",
        ]
    )
    a = _maps(m, 3, 5)
    if op.startswith("Global"):
        m.node(op, a)
        return
    k = [m.int(1, min(4, n)) for n in a.array.shape[2:]]
    more = _window(m, a, k)
    if (op != "MaxPool" and m.opset < 19) or op == "LpPool":
        more.pop("dilations", None)
    if m.opset >= 10 and m.chance(0.3) and op != "LpPool":
        more["ceil_mode"] = 1
    if op == "AveragePool" and m.chance(0.5):
        more["count_include_pad"] = 1
    outputs = 2 if op == "MaxPool" and m.chance(0.15) else 1
    m.node(op, a, outputs=outputs, kernel_shape=k, **more)


def normal(m: Maker) -> None:
    """Normalisations."""
    op = m.pick(["BatchNormalization", "InstanceNormalization", "LayerNormalization",
                 "GroupNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization",
                 "RMSNormalization"])  # fmt: skip
    if op in ("LayerNormalization", "RMSNormalization"):
        a = m.any("float32", ranks=(2, 3, 4))
        axis = m.axis(a)
        shape = a.array.shape[axis:]
        rest = [
            m.constant(m.numbers(shape, "float32"))
            for _ in range(2 if m.chance(0.5) and op[0] == "L" else 1)
        ]
        m.node(op, a, *rest, axis=axis, **({"epsilon": 1e-3} if m.chance(0.3) else {}))
        return
    if op == "LpNormalization":
        a = m.any("float32", ranks=(1, 2, 3))
        m.node(op, a, axis=m.axis(a), p=m.int(1, 2))
        return
    a = _maps(m, 3, 4)
    c = a.array.shape[1]
    scale, bias, mean = (m.constant(m.numbers([c], "float32")) for _ in range(3))
    if op == "BatchNormalization":
        var = m.constant(np.asarray(m.r.uniform(0.3, 3, c), np.float32))
        m.node(op, a, scale, bias, mean, var)
    elif op == "InstanceNormalization":
        m.node(op, a, scale, bias)
    elif op == "GroupNormalization":
        groups = m.pick([d for d in range(1, c + 1) if c % d == 0])
        if m.opset < 21:
            scale, bias = (m.constant(m.numbers([groups], "float32")) for _ in range(2))
        m.node(op, a, scale, bias, num_groups=groups)
    elif op == "LRN":
        m.node(op, a, size=m.pick([1, 3, 5]), alpha=1e-2, beta=0.75)
    else:
        m.node(op, a, axes=[0, 2, 3] if a.rank == 4 else [0, 2])


def matmul(m: Maker) -> None:
    """Products of matrices, batched and broadcast."""
    kinds = SOME if m.chance(0.85) else ("int32", "int64")
    a = m.any(*kinds, ranks=(1, 2, 3, 4))
    n, rank = a.array.shape[-1], m.int(1, 4)
    if n > 500:
        raise Skip
    batch = [e if m.chance(0.7) else 1 for e in a.array.shape[:-2]]
    shape = [n] if rank == 1 else [*(batch if rank > 2 else []), n, m.int(1, 20)]
    array = m.numbers(shape, a.kind)
    if a.kind in FLOATS:
        array = np.asarray(array / max(np.sqrt(n), 1), a.kind)
    b = m.constant(array) if m.chance(0.6) else m.input(array)
    if m.chance(0.2) and b.rank >= 2 and a.rank >= 2:
        t = list(range(b.rank))
        t[-1], t[-2] = t[-2], t[-1]
        (b2,) = m.node("Transpose", m.input(np.ascontiguousarray(array.swapaxes(-1, -2))), perm=t)
        b = b2
    (y,) = m.node("MatMul", a, b)
    if a.kind in FLOATS:
        after(m, y)


def gemm(m: Maker) -> None:
    """Dense layers."""
    a = m.any("float32", "float32", "float64", ranks=(2,))
    ta, tb = m.int(0, 1) if m.chance(0.3) else 0, m.int(0, 1)
    k, rows = a.array.shape[0 if ta else 1], a.array.shape[1 if ta else 0]
    n = m.int(1, 33)
    array = np.asarray(m.r.standard_normal((n, k) if tb else (k, n)) / np.sqrt(k), a.kind)
    b = m.constant(array) if m.chance(0.8) else m.input(array)
    shape = m.pick([(n,), (1, n), (rows, n), (rows, 1), (1,), ()])
    c = [m.other(shape, a.kind)] if m.chance(0.7) else []
    more = {"alpha": 0.5} if m.chance(0.2) else {}
    more |= {"beta": 2.0} if m.chance(0.2) else {}
    (y,) = m.node("Gemm", a, b, *c, transA=ta, transB=tb, **more)
    after(m, y)


def einsum(m: Maker) -> None:
    """Sums of products by labels."""
    text = m.pick(EINSUMS)
    sizes: dict[str, int] = {}
    operands = []
    for labels in text.split("->")[0].split(","):
        letters = labels.replace("...", "YZ")
        shape = [sizes.setdefault(c, m.int(1, 9)) for c in letters]
        operands.append(m.other(shape, "float32", constant=0.3))
    m.node("Einsum", *operands, equation=text)


def resize(m: Maker) -> None:
    """Other extents by interpolation."""
    a = _maps(m, 3, 4)
    space = a.array.shape[2:]
    mode = m.pick(["nearest", "nearest", "linear", "linear", "cubic"])
    if mode == "cubic" and a.rank != 4:
        raise Skip
    whole = [m.int(1, 3) for _ in space]
    if m.opset < 10:
        scales = m.constant(np.array([1, 1, *whole], np.float32))
        m.node("Upsample", a, scales, mode="nearest" if mode == "nearest" else "linear")
        return
    if m.opset < 11:
        raise Skip
    more: dict[str, Any] = {"mode": mode}
    how = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    more["coordinate_transformation_mode"] = m.pick(how)
    if mode == "nearest":
        more["nearest_mode"] = m.pick(["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"])
    if mode == "cubic" and m.chance(0.3):
        more["cubic_coeff_a"] = -0.5
    roi = m.constant(np.zeros(0, np.float32)) if m.opset < 13 else None
    if m.chance(0.5):
        scales = [m.pick([0.5, 1, 1.5, 2, 2.5, 3]) for _ in space]
        m.node("Resize", a, roi, m.constant(np.array([1, 1, *scales], np.float32)), **more)
    else:
        sizes = m.ints(*a.array.shape[:2], *(m.int(1, 2 * n) for n in space))
        none = m.constant(np.zeros(0, np.float32)) if m.opset < 13 else None
        m.node("Resize", a, roi, none, sizes, **more)


def blocks(m: Maker) -> None:
    """Depth to space and back."""
    b = m.int(2, 3)
    if m.chance(0.5):
        a = m.other([1, b * b * m.int(1, 3), m.int(2, 6), m.int(2, 6)], "float32", 0)
        more = {"mode": m.pick(["DCR", "CRD"])} if m.opset >= 11 else {}
        m.node("DepthToSpace", a, blocksize=b, **more)
    else:
        a = m.other([1, m.int(1, 3), b * m.int(1, 4), b * m.int(1, 4)], "float32", 0)
        m.node("SpaceToDepth", a, blocksize=b)


def reverse(m: Maker) -> None:
    """Sequences turned round up to their lengths."""
    a = m.any("float32", ranks=(2, 3))
    lengths = m.ints(*m.r.integers(1, a.array.shape[0] + 1, a.array.shape[1]).tolist())
    m.node("ReverseSequence", a, lengths, time_axis=0, batch_axis=1)


def shapes(m: Maker) -> None:
    """Arithmetic of shapes, as exporters write it."""
    a = m.any("float32", ranks=(2, 3, 4))
    (s,) = m.node("Shape", a)
    (first,) = m.node("Gather", s, m.constant(np.array(0, np.int64)))
    if m.opset >= 13:
        (one,) = m.node("Unsqueeze", first, m.ints(0))
    else:
        (one,) = m.node("Unsqueeze", first, axes=[0])
    (both,) = m.node("Concat", one, m.ints(-1), axis=0)
    m.node("Reshape", a, both)


def filled(m: Maker) -> None:
    """Tensors made of nothing else: ConstantOfShape, Range, EyeLike."""
    kind = m.int(0, 2)
    if kind == 0:
        value = helper.make_tensor("v", TensorProto.FLOAT, [1], [float(m.int(-2, 2))])
        (c,) = m.node("ConstantOfShape", m.ints(*m.shape(1, 3)), value=value)
        m.node("Add", c, m.fitting(c))
    elif kind == 1:
        start, step, count = m.int(-5, 5), m.pick([-2, -1, 1, 3]), m.int(1, 9)
        each = [m.constant(np.array(n, np.int64)) for n in (start, start + step * count, step)]
        m.node("Range", *each)
    else:
        m.node("EyeLike", m.any("float32", "int32", ranks=(2,)), k=m.int(-1, 2))


def attention(m: Maker) -> None:
    """Scores, a softmax, a mixture: what passes look for."""
    b, h, s, d = m.int(1, 2), m.int(1, 3), m.int(1, 9), m.int(1, 8)
    q, k, v = (m.other([b, s, h * d], "float32", 0) for _ in range(3))
    heads = []
    for x, perm in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3])):
        (x,) = m.node("Reshape", x, m.ints(b, s, h, d))
        (x,) = m.node("Transpose", x, perm=perm)
        heads.append(x)
    (scores,) = m.node("MatMul", heads[0], heads[1])
    (scores,) = m.node(
        m.pick(["Mul", "Div"]), scores, m.constant(np.array(max(d, 1) ** 0.5, np.float32))
    )
    if m.chance(0.4):
        (scores,) = m.node("Add", scores, m.fitting(scores))
    (share,) = m.node("Softmax", scores, axis=-1 if m.opset >= 13 else 3)
    (mixed,) = m.node("MatMul", share, heads[2])
    (mixed,) = m.node("Transpose", mixed, perm=[0, 2, 1, 3])
    m.node("Reshape", mixed, m.ints(b, s, h * d))


def written_out(m: Maker) -> None:
    """Layer norm, GELU, hard swish in small operators: what `recognize` looks for."""
    a = m.any("float32", ranks=(2, 3))
    kind = m.int(0, 2)
    if kind == 0:
        more = {} if m.opset >= 18 else {"axes": [-1]}
        axes = [m.ints(-1)] if m.opset >= 18 else []
        (mean,) = m.node("ReduceMean", a, *axes, **more)
        (d,) = m.node("Sub", a, mean)
        (sq,) = m.node("Pow", d, m.constant(np.array(2, np.float32)))
        (var,) = m.node("ReduceMean", sq, *axes, **more)
        (var,) = m.node("Add", var, m.constant(np.array(1e-3, np.float32)))
        (std,) = m.node("Sqrt", var)
        (y,) = m.node("Div", d, std)
        (y,) = m.node("Mul", y, m.constant(m.numbers(a.array.shape[-1:], "float32")))
        m.node("Add", y, m.constant(m.numbers(a.array.shape[-1:], "float32")))
    elif kind == 1:
        (x,) = m.node("Div", a, m.constant(np.array(2**0.5, np.float32)))
        (x,) = m.node("Erf", x)
        (x,) = m.node("Add", x, m.constant(np.array(1, np.float32)))
        (x,) = m.node("Mul", a, x)
        m.node("Mul", x, m.constant(np.array(0.5, np.float32)))
    else:
        (x,) = m.node("HardSigmoid", a, alpha=m.pick([1 / 6, 0.2]), beta=0.5)
        m.node("Mul", a, x)


def rare(m: Maker) -> None:
    """Operators that few networks have."""
    kind = m.int(0, 9)
    if kind == 0:
        m.node("Size", m.any(*ALL))
    elif kind == 1:
        m.node("CastLike", m.any("float32", "int32"), m.any("float64", "int64", "float32"))
    elif kind == 2:
        m.node("Dropout", m.any("float32"))
    elif kind == 3:
        m.node("GlobalLpPool", _maps(m), p=m.int(1, 2))
    elif kind == 4:
        a = m.other(m.shape(1, 3), m.pick(["uint8", "uint32", "uint64"]))
        shifts = m.constant(np.asarray(m.r.integers(0, 5, a.array.shape), a.kind))
        m.node("BitShift", a, shifts, direction=m.pick(["LEFT", "RIGHT"]))
    elif kind == 5:
        (c,) = m.node(m.pick(["IsNaN", "IsInf"]), m.any("float32"))
        m.node("Not", c)
    elif kind == 6:
        n = m.int(1, 20)
        a = m.other([m.int(1, 9), n], m.pick(["uint8", "int8"]))
        b = m.other([n, m.int(1, 17)], m.pick(["uint8", "int8"]))
        zeros = [m.constant(np.array(m.int(0, 5), v.kind)) for v in (a, b)]
        m.node("MatMulInteger", a, b, *(zeros if m.chance(0.6) else []))
    elif kind == 7:
        k, space = [m.int(1, 3), m.int(1, 3)], [m.int(3, 8), m.int(3, 8)]
        blocks = (space[0] - k[0] + 1) * (space[1] - k[1] + 1)
        a = m.other([1, m.int(1, 3) * k[0] * k[1], blocks], "float32", 0)
        m.node("Col2Im", a, m.ints(*space), m.ints(*k))
    elif kind == 8:
        a = m.any("float32", "int32", ranks=(2, 3))
        m.node("CenterCropPad", a, m.ints(*(m.int(1, n + 3) for n in a.array.shape)))
    else:
        a = m.any("float32", ranks=(1, 2, 3, 4))
        for _ in range(m.int(2, 12)):  # a long chain of elementwise operators
            op = m.pick(["Tanh", "Neg", "Abs", "Sigmoid", "Relu", "Sin"])
            (a,) = m.node(op, a)


HEAVY: tuple[Callable[[Maker], None], ...] = (conv, pool, matmul, gemm, reduce, normal, attention)
"""Drawn more often: what tasks of the search come from."""

OPERATORS: tuple[Callable[[Maker], None], ...] = (
    *HEAVY,
    conv, conv, pool, matmul, reduce, unary, unary, unary, with_alpha, binary, binary,
    binary, compare, logic, bits, where, many, clip, cast, arg, softmax, cumulate, top_k,
    transpose,
    transpose, reshape, reshape, flatten, squeeze, slices, slices, concat, concat, split, pad,
    expand, gather, scatter, one_hot, trilu, einsum, resize, blocks, reverse, shapes, filled,
    written_out, rare, rare, *OPTIMISED,
)  # fmt: skip
