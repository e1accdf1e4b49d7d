"""Random problems without products: quantised numbers that are pooled, joined or of 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.integers import Array, dequantised, f32, pooled, quantised

if TYPE_CHECKING:
    from tests.fuzz.integer_problems import Maker

_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "QLinearGlobalAveragePool")


def pool(m: Maker) -> None:
    """Between DequantizeLinear and QuantizeLinear, or QLinearGlobalAveragePool.

    Scales of averages are powers of two, so that sums in float32 are exact in any order.
    """
    p = m.p
    op = _POOLS[int(m.r.choice(4, p=(0.4, 0.3, 0.15, 0.15)))]
    x = m.whole(p.data, (p.batch, p.groups * p.k, *p.space), p.numbers[0])
    sx, zx = m.scale(), m.zero(p.data, p.zeros[0])
    if op != "MaxPool":
        sx = _power(sx)
    whole = op.endswith("GlobalAveragePool")
    window = m.window() | {"group": None}
    attrs = {} if whole else {k: v for k, v in window.items() if v is not None}
    if op == "AveragePool":
        attrs["count_include_pad"] = int(p.channel)
        attrs["dilations"] = [1] * p.rank
        attrs["pads"] = list(_narrow_pads(m))
    numbers = x.astype(np.int64) - int(zx)
    if whole:
        axes = tuple(range(2, x.ndim))
        real = np.asarray(numbers.sum(axes, keepdims=True), f32) * sx / f32(np.prod(p.space))
    elif op == "AveragePool":
        real = _averages(m, numbers) * sx
    else:
        real = dequantised(
            pooled(numbers, p.window, p.strides, (*p.before, *p.after), p.dilations, "max"), sx
        )
    same = op == "MaxPool" and p.powers
    sy, zy = (sx, zx) if same else (m.result_scale(real), m.zero(p.result, p.zeros[2]))
    if op != "MaxPool":
        sy = _power(sy)
    given = [m.input(x), m.const(sx), m.const(zx)]
    ends = [m.const(sy), m.const(zy)]
    if op.startswith("QLinear"):
        sy_zy = np.asarray(zy).astype(p.data)
        (y,) = m.node(op, *given, ends[0], m.const(sy_zy), domain="com.microsoft", channels_last=0)
        m.outputs[y] = quantised(real, sy, sy_zy)
        return
    (y,) = m.node(op, *m.node("DequantizeLinear", *given), **attrs)
    (y,) = m.node("QuantizeLinear", y, *ends)
    m.outputs[y] = quantised(real, sy, zy)


def concat(m: Maker) -> None:
    """Two or three tensors, of one scale or of several, by QLinearConcat or between the others."""
    p = m.p
    symbol = (0 if p.rank else 1) if p.ranged else -1
    axis = int(m.r.choice([at for at in range(3) if at != symbol]))
    shape = [p.batch, p.rows, p.n]
    parts, one = [], bool(p.powers)
    for i in range(int(m.r.integers(2, 4))):
        shape[axis] = int(m.r.integers(1, 2 * max(2, shape[axis])))
        x = m.whole(p.data, tuple(shape), p.numbers[i % 2])
        parts.append((x, m.scale(), m.zero(p.data, p.zeros[i % 2])))
    if one:
        parts = [(x, *parts[0][1:]) for x, _, _ in parts]
    real = np.concatenate([dequantised(*part) for part in parts], axis)
    kept = one and p.channel
    sy = parts[0][1] if kept else m.result_scale(real)
    zy = parts[0][2] if kept else m.zero(p.data, p.zeros[2])
    names = [(m.input(x), m.const(s), m.const(z)) for x, s, z in parts]
    ends = [m.const(sy), m.const(zy)]
    if p.rank:
        given = [*ends, *(name for part in names for name in part)]
        (y,) = m.node("QLinearConcat", *given, domain="com.microsoft", axis=axis)
    else:
        reals = [m.node("DequantizeLinear", *part)[0] for part in names]
        (y,) = m.node("Concat", *reals, axis=axis)
        (y,) = m.node("QuantizeLinear", y, *ends)
    m.outputs[y] = quantised(real, sy, zy)


def words(m: Maker) -> None:
    """Two tensors of 16 bits, added or multiplied; the result is of 16 bits or of 8."""
    p = m.p
    kind = p.data.replace("8", "16")
    result = p.result if p.channel else p.result.replace("8", "16")
    shape = (p.batch, p.rows, p.n)
    by: dict[str, Any] = {"axis": 2} if p.tail else {}
    own = (p.n,) if by else ()
    a, b = (m.whole(kind, shape, how) for how in p.numbers)
    (sa, za), (sb, zb) = ((m.scale(own), m.zero(kind, how, own)) for how in p.zeros[:2])
    left, right = dequantised(a, sa, za), dequantised(b, sb, zb)
    times = m.r.random() < 0.5
    value = left * right if times else left + right
    sy, zy = m.result_scale(value), m.zero(result, p.zeros[2])
    given = [
        m.node("DequantizeLinear", m.input(x), m.const(s), m.const(z), **by)[0]
        for x, s, z in ((a, sa, za), (b, sb, zb))
    ]
    (y,) = m.node("Mul" if times else "Add", *given)
    if m.r.random() < 0.3:
        (y,) = m.node("Relu", y)
        value = np.maximum(value, f32(0))
    (y,) = m.node("QuantizeLinear", y, m.const(sy), m.const(zy))
    m.outputs[y] = quantised(value, sy, zy)


def _averages(m: Maker, numbers: Array) -> Array:
    p = m.p
    count = np.ones_like(numbers)
    plain = (1,) * p.rank
    sums, seen = (
        pooled(x, p.window, p.strides, _narrow_pads(m), plain, "sum") for x in (numbers, count)
    )
    if p.channel:
        seen = np.full_like(seen, np.prod(p.window))
    return np.asarray(sums.astype(f32) / seen.astype(f32))


def _narrow_pads(m: Maker) -> tuple[int, ...]:
    """Padding of a window without dilations, which is below it."""
    pairs = zip((*m.p.before, *m.p.after), m.p.window * 2, strict=True)
    return tuple(min(pad, extent - 1) for pad, extent in pairs)


def _power(scale: Array) -> Array:
    """The nearest power of two."""
    return np.asarray(np.exp2(np.rint(np.log2(scale))), f32)
