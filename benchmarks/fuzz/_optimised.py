"""Operators that optimisers write (``com.microsoft``), and newer ones of the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _maker import Maker, Val

DOMAIN = "com.microsoft"


def _wide(m: Maker) -> Val:
    """Activations of batch, positions, columns."""
    return m.any("float32", ranks=(3,))


def _row(m: Maker, n: int) -> Val:
    return m.constant(m.numbers([n], "float32"))


def norms(m: Maker) -> None:
    """Norms of a sum."""
    x = _wide(m)
    n = x.array.shape[-1]
    skip = m.other(x.array.shape, "float32")
    if m.chance(0.5):
        bias = [_row(m, n)] if m.chance(0.5) else []
        m.node(
            "SkipSimplifiedLayerNormalization", x, skip, _row(m, n), *bias,
            domain=DOMAIN, epsilon=1e-3,
        )  # fmt: skip
        return
    more = [_row(m, n) if m.chance(0.7) else None for _ in range(2)]
    m.node("SkipLayerNormalization", x, skip, _row(m, n), *more, domain=DOMAIN, epsilon=1e-3)


def activations(m: Maker) -> None:
    """GELU and its kin, with a bias or without."""
    op = m.pick(["BiasGelu", "FastGelu", "QuickGelu", "Gelu"])
    x = _wide(m)
    n = x.array.shape[-1]
    if op == "QuickGelu":
        more = {"alpha": float(m.pick([1.702, 1.0, 0.5]))} if m.chance(0.7) else {}
        m.node(op, x, domain=DOMAIN, **more)
    elif op == "BiasGelu" or (op == "FastGelu" and m.chance(0.5)):
        m.node(op, x, _row(m, n), domain=DOMAIN)
    else:
        m.node(op, x, domain=DOMAIN)


def products(m: Maker) -> None:
    """Products with a transpose, a factor, an activation."""
    if m.chance(0.5):
        a = m.any("float32", ranks=(2, 3))
        *batch, rows, inner = a.array.shape
        turned, other = m.chance(0.4), m.chance(0.4)
        inner, columns = (rows if turned else inner), m.extent()
        b = m.other([*batch, *((columns, inner) if other else (inner, columns))], "float32", 0.7)
        m.node(
            "FusedMatMul", a, b, domain=DOMAIN, transA=int(turned), transB=int(other),
            alpha=float(m.pick([1, 0.125, 2])),
        )  # fmt: skip
        return
    a = m.any("float32", ranks=(2,))
    b = m.other([a.array.shape[1], m.extent()], "float32", 0.8)
    op = m.pick(["Relu", "Tanh", "Sigmoid"])
    m.node("FusedGemm", a, b, _row(m, b.array.shape[1]), domain=DOMAIN, activation=op)


def convolutions(m: Maker) -> None:
    """A convolution, what is added, and its activation, in one node."""
    c, k = m.int(1, 9), m.int(1, 17)
    x = m.other([m.int(1, 2), c, m.int(3, 12), m.int(3, 12)], "float32", 0)
    w = m.constant(m.numbers([k, c, 3, 3], "float32"))
    op, more = m.pick([("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_params": [0.1]})])
    given: dict[str, Any] = {"activation": op, **more}
    m.node("FusedConv", x, w, _row(m, k), domain=DOMAIN, pads=[1, 1, 1, 1], **given)


def heads(m: Maker) -> None:
    """Attention, from packed weights or from heads."""
    b, s, h, d = m.int(1, 2), m.int(1, 9), m.int(1, 3), m.pick([2, 4, 8])
    n = h * d
    x = m.other([b, s, n], "float32", 0)
    if m.chance(0.5):
        w = m.constant(m.numbers([n, 3 * n], "float32"))
        mask = m.constant(np.asarray(m.r.integers(1, s + 1, [b]), np.int32))
        more = [mask] if m.chance(0.5) else []
        causal = {"unidirectional": 1} if m.chance(0.4) and not more else {}
        m.node("Attention", x, w, _row(m, 3 * n), *more, domain=DOMAIN, num_heads=h, **causal)
        return
    t = m.int(1, 9)
    k, v = (m.other([b, t, n], "float32", 0) for _ in range(2))
    bias = _row(m, 3 * n) if m.chance(0.4) else None
    added = m.other([1, h, s, t], "float32") if m.chance(0.4) else None
    m.node("MultiHeadAttention", x, k, v, bias, None, added, domain=DOMAIN, num_heads=h)


def grouped(m: Maker) -> None:
    """Attention of few heads of keys, with a cache that grows."""
    b, kv, group, d = m.int(1, 2), m.int(1, 2), m.int(1, 3), 16
    past, s = m.int(1, 6), 1
    q = m.other([b, s, kv * group * d], "float32", 0)
    k, v = (m.other([b, s, kv * d], "float32", 0) for _ in range(2))
    before = [m.other([b, kv, past, d], "float32", 0) for _ in range(2)]
    lengths = m.constant(np.full([b], past + s - 1, np.int32))
    total = m.constant(np.array(past + s, np.int32))
    m.node(
        "GroupQueryAttention", q, k, v, *before, lengths, total,
        outputs=3, domain=DOMAIN, num_heads=kv * group, kv_num_heads=kv,
    )  # fmt: skip


def rotary(m: Maker) -> None:
    """Positions turned into angles."""
    b, s, h, d = m.int(1, 2), m.int(1, 9), m.int(1, 3), m.pick([2, 4, 8, 16])
    x = m.other([b, h, s, d] if m.chance(0.5) else [b, s, h * d], "float32", 0)
    positions = m.constant(np.tile(np.arange(s), (b, 1)).astype(np.int64))
    tables = [m.constant(m.numbers([16, d // 2], "float32")) for _ in range(2)]
    more = {} if x.rank == 4 else {"num_heads": h, "rotary_embedding_dim": 0}
    m.node(
        "RotaryEmbedding", x, positions, *tables,
        domain=DOMAIN, interleaved=m.int(0, 1), **more,
    )  # fmt: skip


def sampled(m: Maker) -> None:
    """Values between the elements of a map."""
    n, c, low, wide = m.int(1, 2), m.int(1, 5), m.int(2, 9), m.int(2, 9)
    x = m.other([n, c, low, wide], "float32", 0)
    if m.chance(0.6):
        places = np.asarray(m.r.uniform(-1.3, 1.3, [n, m.int(1, 6), m.int(1, 6), 2]), np.float32)
        linear = "linear" if m.opset >= 20 else "bilinear"
        m.node(
            "GridSample", x, m.constant(places) if m.chance(0.5) else m.input(places),
            mode=m.pick([linear, "nearest"]), align_corners=m.int(0, 1),
            padding_mode=m.pick(["zeros", "border", "reflection"]),
        )  # fmt: skip
        return
    count = m.int(1, 4)
    corners = np.sort(m.r.uniform(0, min(low, wide), [count, 2, 2]), axis=1).reshape(count, 4)
    m.node(
        "RoiAlign", x, m.constant(corners.astype(np.float32)),
        m.constant(np.asarray(m.r.integers(0, n, [count]), np.int64)),
        output_height=m.int(1, 4), output_width=m.int(1, 4), sampling_ratio=m.int(1, 3),
        mode=m.pick(["avg", "max"]),
    )  # fmt: skip


def spectra(m: Maker) -> None:
    """Fourier transforms and determinants."""
    if m.chance(0.3):
        n = m.int(1, 5)
        m.node("Det", m.other([m.int(1, 3), n, n], "float32", 0))
        return
    x = m.other([m.int(1, 2), m.int(2, 17), m.int(1, 2)], "float32", 0)
    given: dict[str, Any] = {"inverse": int(x.array.shape[-1] == 2 and m.chance(0.4))}
    if m.opset < 20:
        given["axis"] = 1
    if not given["inverse"] and x.array.shape[-1] == 1 and m.chance(0.5):
        given["onesided"] = 1
    m.node(
        "DFT", x, *([None, m.constant(np.array(1, np.int64))] if m.opset >= 20 else []), **given
    )


OPTIMISED: tuple[Callable[[Maker], None], ...] = (
    norms, activations, products, convolutions, heads, grouped, rotary, sampled, spectra,
)  # fmt: skip
