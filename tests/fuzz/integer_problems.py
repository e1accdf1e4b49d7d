"""Random products of quantised numbers: as a file holds them, on some machine, by some schedules.

Forms are those of files: ``qdq`` (DequantizeLinear, an operator, QuantizeLinear), ``qlinear``
(QLinearConv, QLinearMatMul, QGemm), ``integer`` (MatMulInteger, ConvInteger), ``dynamic``
(DynamicQuantizeLinear before a MatMulInteger), ``pair`` (QLinearAdd and QLinearMul); without a
product `pool`, `concat` and `words` (`tests.fuzz.integer_moves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.integer_moves import concat, pool, words
from tests.fuzz.integers import (
    Array,
    conv,
    dequantised,
    dynamic,
    f32,
    product,
    quantised,
    requantised,
)

FORMS = (
    *("qdq",) * 4, *("qlinear",) * 3, *("integer",) * 3, "dynamic", "pair", "pool", "pool",
    "concat", "words",
)  # fmt: skip
BYTES = ("uint8", "int8")
RANGED = "rows"
NUMBERS = ("any", "any", "any", "ends", "ends", "low", "high")
ZEROS = ("any", "any", "low", "high", "none")
TAILS = ("", "", "", "relu", "clip", "residual", "sum", "float")
WIDTHS = (
    1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 64, 65, 96, 128, 128, 192
)  # fmt: skip
CPUS = (
    "llvm", "llvm", "llvm -mattr=-amx-tile,-amx-int8,-amx-bf16", "llvm -mcpu=haswell",
    "llvm -mcpu=alderlake", "llvm -mcpu=skylake-avx512", "llvm -mcpu=x86-64",
)  # fmt: skip
"""This machine, twice; without its matrix unit; AVX2; AVX_VNNI; AVX-512 without VNNI; SSE2."""


@dataclass(frozen=True)
class Problem:
    """What is drawn, all but arrays.

    Attributes:
        seed: of numbers and of schedules.
        form: see the module's text.
        rank: spatial axes of a convolution; 0: a matrix product.
        data, weight, result: element types.
        computed: the weights are an input.
        channel: scales and zero points of weights go by output channel, where files may have them.
        zeros: of data, weights and result: the end of the type, 0, or anything.
        numbers: of data and weights: the ends of the type, or anything.
        bias: "", "small" or "large".
        tail: what follows the product, in the form ``qdq``.
        powers: scales are powers of two, so that sums lie in the middle between two numbers.
        batch, rows, k, n, groups: extents; of a convolution, ``k`` and ``n`` are those of a group.
        space, window, strides, before, after, dilations: of a convolution, by spatial axis.
        ranged: the extent of rows, or the batch of a convolution, is known to a run alone.
        target: the machine's text.
    """

    seed: int
    form: str
    rank: int
    data: str
    weight: str
    result: str
    computed: bool
    channel: bool
    zeros: tuple[str, str, str]
    numbers: tuple[str, str]
    bias: str
    tail: str
    powers: bool
    batch: int
    rows: int
    k: int
    n: int
    groups: int
    space: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilations: tuple[int, ...]
    ranged: bool
    target: str

    @property
    def ranges(self) -> dict[str, str]:
        """The range of the symbol that the model has, if any."""
        most = self.batch if self.rank else self.rows
        return {RANGED: f"1..{most + 5}"} if self.ranged else {}


def draw(seed: int, cpus: Sequence[str] = CPUS) -> Problem:
    """The problem of a seed, on one of some machines."""
    r = np.random.default_rng(seed)

    def of(some: Sequence[Any]) -> Any:
        return some[int(r.integers(len(some)))]

    form, matrix = of(FORMS), r.random() < 0.5
    flat = form in ("dynamic", "pair", "words") or (matrix and form != "pool")
    rank = 0 if flat else of((1, 2, 2, 2, 2, 2, 3))
    data, window = of(BYTES), tuple(of((1, 1, 2, 3, 3, 5)) for _ in range(rank))
    dilations = tuple(of((1, 1, 1, 2)) for _ in range(rank))
    reach = [d * (w - 1) + 1 for d, w in zip(dilations, window, strict=True)]
    kind = of(("plain", "plain", "depthwise", "grouped")) if rank else "plain"
    k, n = (of(WIDTHS[: 18 if rank == 3 else None]) for _ in range(2))
    if kind == "depthwise":
        k, n = 1, of((1, 1, 1, 2))
    elif kind == "grouped":
        k, n = of((1, 2, 3, 4, 5, 8, 16)), of((1, 2, 3, 4, 8, 16))
    most = {1: 40, 2: 13, 3: 6}.get(rank, 1)
    return Problem(
        seed,
        form,
        rank,
        data,
        of(BYTES),
        data if r.random() < 0.7 else of(BYTES),
        bool(form in ("qlinear", "integer") and r.random() < 0.15),
        bool(r.random() < 0.5),
        (of(ZEROS), of((*ZEROS, "none", "none")), of(ZEROS)),
        (of(NUMBERS), of(NUMBERS)),
        of(("", "small", "large")) if form in ("qdq", "qlinear") else "",
        of(TAILS) if form in ("qdq", "words") else "",
        bool(r.random() < 0.25),
        of((1, 1, 1, 2, 3)),
        of(WIDTHS),
        k,
        n,
        {"plain": 1, "depthwise": of(WIDTHS), "grouped": of((2, 3, 4))}[kind],
        tuple(int(r.integers(reach[a], reach[a] + most)) for a in range(rank)),
        window,
        tuple(of((1, 1, 2, 3)) for _ in range(rank)),
        tuple(int(r.integers(0, n)) for n in reach),
        tuple(int(r.integers(0, n)) for n in reach),
        dilations,
        bool(r.random() < 0.15),
        f"{of(cpus)} -num-cores={of((1, 2))}",
    )


@dataclass(frozen=True, eq=False)
class Made:
    """A model, its inputs in order, and its outputs as they are by definition."""

    model: onnx.ModelProto
    inputs: tuple[Array, ...]
    want: tuple[Array, ...]


class Maker:
    """Writes the model of a problem and computes what it gives."""

    def __init__(self, p: Problem) -> None:
        self.p = p
        self.r = np.random.default_rng((p.seed, 1))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, Array] = {}
        self.whole_inputs: set[str] = set()  # that have no extent which may be a symbol
        self.outputs: dict[str, Array] = {}

    # -- the model

    def const(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, array: Array) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        return name

    def weights(self, array: Array) -> str:
        if not self.p.computed:
            return self.const(array)
        name = self.input(array)
        self.whole_inputs.add(name)
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> list[str]:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names

    def made(self) -> Made:
        infos = [_info(n, a.dtype, a.shape) for n, a in self.inputs.items()]
        if self.p.ranged:
            for info in infos:
                if info.name not in self.whole_inputs:
                    info.type.tensor_type.shape.dim[0 if self.p.rank else -2].dim_param = RANGED
        graph = helper.make_graph(
            self.nodes, "integers", infos,
            [_info(n, a.dtype, None) for n, a in self.outputs.items()], self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return Made(model, tuple(self.inputs.values()), tuple(self.outputs.values()))

    # -- numbers

    def whole(self, kind: str, shape: Sequence[int], how: str) -> Array:
        ends = np.iinfo(kind)
        if how in ("low", "high"):
            return np.full(shape, ends.min if how == "low" else ends.max, kind)
        if how == "ends":
            return self.r.choice(np.array([ends.min, ends.max], kind), shape)
        return self.r.integers(ends.min, ends.max + 1, shape).astype(kind)

    def zero(self, kind: str, how: str, shape: Sequence[int] = ()) -> Array:
        return np.zeros(shape, kind) if how == "none" else self.whole(kind, shape, how)

    def scale(self, shape: Sequence[int] = ()) -> Array:
        u = self.r.uniform(-9, -1, shape)
        return np.exp2(np.rint(u) if self.p.powers else u).astype(f32)

    def result_scale(self, real: Array) -> Array:
        """One of a result of which some or many elements are beyond the type's ends."""
        by = float(np.abs(real).max(initial=0)) / 127 * self.r.uniform(0.3, 2) or 1.0
        return np.asarray(np.exp2(np.rint(np.log2(by))) if self.p.powers else by, f32)

    # -- operands

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of data and weights."""
        p = self.p
        if p.rank:
            x = p.batch, p.groups * p.k, *p.space
            return x, (p.groups * p.n, p.k, *p.window)
        first = (p.batch,) if p.batch > 1 else ()
        return (*first, p.rows, p.k), (*(first if p.computed else ()), p.k, p.n)

    def window(self) -> dict[str, Any]:
        p = self.p
        return {
            "strides": list(p.strides), "pads": [*p.before, *p.after],
            "dilations": list(p.dilations), "group": p.groups, "kernel_shape": list(p.window),
        }  # fmt: skip

    def sums(self, x: Array, w: Array, of_x: Array, of_w: Array) -> Array:
        """The product without zero points, which broadcast to their numbers."""
        p = self.p
        a, b = x.astype(np.int64) - of_x.astype(np.int64), w.astype(np.int64) - of_w.astype(int)
        if p.rank:
            return conv(a, b, p.groups, p.strides, (*p.before, *p.after), p.dilations)
        return product(a, b)

    def over(self, array: Array, out: bool) -> Array:
        """What goes by output channel, to broadcast to weights, or to the result (``out``)."""
        if not array.shape or not self.p.rank:
            return array
        return array.reshape(-1, *(1,) * (self.p.rank + (not out)))

    def bias(self, channels: int) -> Array:
        by = {"small": 1 << 12, "large": (1 << 30) - 1}[self.p.bias]
        low, high = (-by, by + 1) if self.r.random() < 0.7 else (-by, -by + 9)
        return self.r.integers(low, high, channels).astype(np.int32)


def _info(name: str, kind: Any, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)


def make(p: Problem) -> Made:
    """The arrays of a problem, its model, and what it gives."""
    m = Maker(p)
    forms = {
        "integer": _integer, "dynamic": _dynamic, "pair": _pair, "pool": pool, "concat": concat,
        "words": words,
    }  # fmt: skip
    forms.get(p.form, _scaled)(m)
    return m.made()


def _integer(m: Maker) -> None:
    p = m.p
    (of_x, of_w), (xs, ws) = (p.data, p.weight), m.shapes()
    x, w = m.whole(of_x, xs, p.numbers[0]), m.whole(of_w, ws, p.numbers[1])
    channels = (ws[0] if p.rank else ws[-1],) if p.channel and not (p.computed and p.rank) else ()
    zx, zw = m.zero(of_x, p.zeros[0]), m.zero(of_w, p.zeros[1], channels)
    given = [m.input(x), m.weights(w), m.const(zx), m.const(zw)]
    if p.zeros[1] == "none":
        given = given[: 2 if p.zeros[0] == "none" else 3]
    (y,) = m.node("ConvInteger", *given, **m.window()) if p.rank else m.node(
        "MatMulInteger", *given
    )  # fmt: skip
    m.outputs[y] = m.sums(x, w, zx, m.over(zw, False)).astype(np.int32)


def _dynamic(m: Maker) -> None:
    p, (xs, ws) = m.p, m.shapes()
    x = (m.r.standard_normal(xs) * 3 + m.r.choice([-9, 0, 0, 9])).astype(f32)
    w = m.whole(p.weight, ws, p.numbers[1])
    zw = m.zero(p.weight, p.zeros[1], (p.n,) if p.channel else ())
    q, scale, zero = m.node("DynamicQuantizeLinear", m.input(x), outputs=3)
    (y,) = m.node("MatMulInteger", q, m.weights(w), zero, m.const(zw))
    numbers, by, point = dynamic(x)
    m.outputs.update({q: numbers, scale: by, zero: point})
    m.outputs[y] = m.sums(numbers, w, point, zw).astype(np.int32)


def _pair(m: Maker) -> None:
    p = m.p
    shape = (p.batch, p.rows, p.n)
    a, b = (m.whole(p.data, shape, how) for how in p.numbers)
    zeros = [m.zero(p.data, how) for how in p.zeros]
    sa, sb = m.scale(), m.scale()
    op = "QLinearMul" if p.channel else "QLinearAdd"
    left, right = dequantised(a, sa, zeros[0]), dequantised(b, sb, zeros[1])
    real = left * right if p.channel else left + right
    sy = m.result_scale(real)
    parts = [m.input(a), *map(m.const, (sa, zeros[0])), m.input(b), *map(m.const, (sb, zeros[1]))]
    (y,) = m.node(op, *parts, m.const(sy), m.const(zeros[2]), domain="com.microsoft")
    m.outputs[y] = quantised(real, sy, zeros[2])


def _scaled(m: Maker) -> None:
    """A product whose sums are scaled: of the forms ``qdq`` and ``qlinear``."""
    p, (xs, ws) = m.p, m.shapes()
    x, w = m.whole(p.data, xs, p.numbers[0]), m.whole(p.weight, ws, p.numbers[1])
    channels = ws[0] if p.rank else ws[-1]
    by = (channels,) if p.channel and not p.computed else ()
    zx, zw = m.zero(p.data, p.zeros[0]), m.zero(p.weight, p.zeros[1], by)
    sx, sw = m.scale(), m.scale(by)
    sums = m.sums(x, w, zx, m.over(zw, False))
    bias = None
    gemm = not p.rank and p.batch == 1 and not p.computed and (p.form == "qdq" or p.channel)
    if p.bias and (p.rank or gemm):
        bias = m.bias(channels)
        sums = sums + m.over(bias.astype(np.int64), True)
    of_sums = m.over(sx * sw, True)
    sy = m.result_scale(dequantised(sums, of_sums))
    zy = m.zero(p.result, p.zeros[2])
    if p.form == "qlinear":
        given = [m.input(x), *map(m.const, (sx, zx)), m.weights(w)]
        given += map(m.const, (sw, zw))
        ends = [m.const(sy), m.const(zy)]
        if gemm:
            own = m.const(bias) if bias is not None else ""
            (y,) = m.node("QGemm", *given, own, *ends, domain="com.microsoft")
        elif p.rank:
            own = [m.const(bias)] if bias is not None else []
            (y,) = m.node("QLinearConv", *given, *ends, *own, **m.window())
        else:
            (y,) = m.node("QLinearMatMul", *given, *ends)
        m.outputs[y] = requantised(sums, of_sums / sy, zy)
        return
    _between(m, (x, sx, zx), (w, sw, zw), bias, gemm, (sums, of_sums, sy, zy))


def _between(
    m: Maker,
    data: tuple[Array, Array, Array],
    weights: tuple[Array, Array, Array],
    bias: Array | None,
    gemm: bool,
    end: tuple[Array, Array, Array, Array],
) -> None:
    """Between DequantizeLinear and QuantizeLinear, with what follows."""
    p, (sums, of_sums, sy, zy) = m.p, end
    (x, sx, zx), (w, sw, zw) = data, weights
    axis = {"axis": 0 if p.rank else 1}

    def real(name: str, scale: Array, zero: Array, **more: Any) -> str:
        return m.node("DequantizeLinear", name, m.const(scale), m.const(zero), **more)[0]

    given = [real(m.input(x), sx, zx), real(m.const(w), sw, zw, **(axis if sw.shape else {}))]
    if bias is not None:
        scale = sx * sw if sw.shape else np.asarray(sx * sw)
        zero = np.zeros(scale.shape, np.int32)
        given.append(real(m.const(bias), scale, zero, **({"axis": 0} if sw.shape else {})))
    op = "Conv" if p.rank else "Gemm" if gemm and (bias is not None or p.channel) else "MatMul"
    (y,) = m.node(op, *given, **(m.window() if p.rank else {}))
    if p.tail in ("float", "sum"):  # what is not quantised at once is added to in float32
        value = dequantised(sums, of_sums)
        if bias is not None:
            own = m.over(bias.astype(np.int64), True)
            value = dequantised(sums - own, of_sums) + dequantised(own, of_sums)
        if p.tail == "sum":
            other, scale = m.whole(p.result, sums.shape, "any"), sy * f32(0.7)
            (y,) = m.node("Add", y, real(m.input(other), scale, zy))
            (y,) = m.node("QuantizeLinear", y, m.const(sy), m.const(zy))
            value = quantised(value + dequantised(other, scale, zy), sy, zy)
        m.outputs[y] = value
        return
    ends = np.iinfo(zy.dtype)
    low, high = ends.min, ends.max
    if p.tail in ("relu", "clip"):
        low = int(zy)
        top = 20 * float(sy)
        if p.tail == "clip":
            high = int(np.clip(np.rint(f32(top) / sy) + f32(zy), ends.min, ends.max))
        limits = [m.const(f32(0)), m.const(f32(top))] if p.tail == "clip" else []
        (y,) = m.node("Clip" if limits else "Relu", y, *limits)
    (q,) = m.node("QuantizeLinear", y, m.const(sy), m.const(zy))
    numbers = np.clip(requantised(sums, of_sums / sy, zy), low, high)
    if p.tail == "residual":
        other, scale = m.whole(p.result, sums.shape, "any"), sy * f32(0.7)
        (y,) = m.node("Add", real(q, sy, zy), real(m.input(other), scale, zy))
        (q,) = m.node("QuantizeLinear", y, m.const(sy), m.const(zy))
        numbers = quantised(dequantised(numbers, sy, zy) + dequantised(other, scale, zy), sy, zy)
    m.outputs[q] = numbers
