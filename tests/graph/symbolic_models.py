"""Networks of texts with symbolic extents, as exporters write them; small, with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.graph.onnx_models import GraphMaker

WIDTH, HEADS, WORDS, PLACES = 32, 4, 50, 64
HEAD = WIDTH // HEADS
LOWEST = float(np.finfo(np.float32).min)

_INT, _FLOAT = TensorProto.INT64, TensorProto.FLOAT


class Maker(GraphMaker):
    """A graph of a network of texts."""

    def ints(self, *numbers: int) -> str:
        return self.weight(np.array(numbers, np.int64))

    def whole(self, number: int) -> str:
        return self.weight(np.array(number, np.int64))

    def number(self, value: float) -> str:
        return self.weight(np.array(value, np.float32))

    def dim(self, x: str, d: int) -> str:
        """One extent as a list, as PyTorch's exporter writes it."""
        return self.node("Shape", x, start=d, end=d + 1)

    def scalar_dim(self, x: str, d: int) -> str:
        """One extent as a scalar, as it was written before."""
        return self.node("Gather", self.node("Shape", x), self.whole(d), axis=0)

    def dense(self, x: str, rows: int, columns: int) -> str:
        w = self.rng.standard_normal((rows, columns)).astype(np.float32) / rows**0.5
        b = self.rng.normal(0, 0.1, columns).astype(np.float32)
        return self.node("Add", self.node("MatMul", x, self.weight(w)), self.weight(b))

    def norm(self, x: str) -> str:
        scale, shift = (
            self.rng.uniform(low, high, WIDTH).astype(np.float32)
            for low, high in ((0.5, 1.5), (-0.1, 0.1))
        )
        return self.node("LayerNormalization", x, self.weight(scale), self.weight(shift), axis=-1)

    def table(self, rows: int, columns: int = WIDTH) -> str:
        return self.weight(self.rng.standard_normal((rows, columns)).astype(np.float32))

    def heads(self, x: str) -> str:
        """[B, S, W] as [B, H, S, D]."""
        shape = self.node(
            "Concat", self.dim(x, 0), self.dim(x, 1), self.ints(-1), self.ints(HEAD), axis=0
        )
        return self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attention(self, q: str, k: str, v: str, mask: str, like: str) -> str:
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Add", self.node("Mul", scores, self.number(HEAD**-0.5)), mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        mixed = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        shape = self.node("Concat", self.dim(like, 0), self.dim(like, 1), self.ints(WIDTH), axis=0)
        return self.node("Reshape", mixed, shape)

    def feed_forward(self, x: str) -> str:
        u = self.dense(x, WIDTH, 2 * WIDTH)
        inner = self.node("Erf", self.node("Div", u, self.number(2**0.5)))
        u = self.node("Mul", u, self.node("Add", inner, self.number(1.0)))
        return self.dense(self.node("Mul", u, self.number(0.5)), 2 * WIDTH, WIDTH)

    def file(
        self,
        inputs: Mapping[str, tuple[int, Sequence[int | str]]],
        outputs: Mapping[str, Sequence[int | str]],
    ) -> onnx.ModelProto:
        infos = [
            helper.make_tensor_value_info(n, kind, list(s)) for n, (kind, s) in inputs.items()
        ]
        results = [helper.make_tensor_value_info(n, _FLOAT, list(s)) for n, s in outputs.items()]
        graph = helper.make_graph(self.nodes, "texts", infos, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(model)
        return model


def encoder(layers: int = 2) -> onnx.ModelProto:
    """BERT's encoder: ``input_ids`` and ``attention_mask`` [batch, seq] -> hidden and pooled."""
    g = Maker()
    ids, length = "input_ids", g.scalar_dim("input_ids", 1)
    end = g.node("Unsqueeze", length, g.ints(0))
    numbers = g.weight(np.arange(PLACES)[None])
    places = g.node("Slice", numbers, g.ints(0), end, g.ints(1), g.ints(1))
    x = g.node(
        "Add", g.node("Gather", g.table(WORDS), ids), g.node("Gather", g.table(PLACES), places)
    )
    kinds = g.node("Expand", g.weight(np.zeros((1, 1), np.int64)), g.node("Shape", ids))
    x = g.norm(g.node("Add", x, g.node("Gather", g.table(2), kinds)))
    mask = g.node("Unsqueeze", "attention_mask", g.ints(1, 2))
    mask = g.node("Sub", g.number(1.0), g.node("Cast", mask, to=_FLOAT))
    mask = g.node("Mul", mask, g.number(LOWEST))
    for _ in range(layers):
        q, k, v = (g.heads(g.dense(x, WIDTH, WIDTH)) for _ in range(3))
        mixed = g.attention(q, k, v, mask, x)
        x = g.norm(g.node("Add", x, g.dense(mixed, WIDTH, WIDTH)))
        x = g.norm(g.node("Add", x, g.feed_forward(x)))
    g.node("Identity", x, output="hidden")
    first = g.node("Gather", x, g.whole(0), axis=1)
    g.node("Tanh", g.dense(first, WIDTH, WIDTH), output="pooled")
    shape = ("batch", "seq")
    return g.file(
        {ids: (_INT, shape), "attention_mask": (_INT, shape)},
        {"hidden": (*shape, WIDTH), "pooled": ("batch", WIDTH)},
    )


def decoder(layers: int = 2, past: bool = False, table: bool = False) -> onnx.ModelProto:
    """A decoder with rotary positions: ``input_ids`` [batch, seq] -> ``logits``.

    Args:
        layers: of attention.
        past: keys and values of earlier positions are inputs, and all of them outputs.
        table: cosines and sines are slices of a table, and not computed.
    """
    g = Maker(1)
    ids = "input_ids"
    new = g.scalar_dim(ids, 1)
    old = g.scalar_dim("past_0", 2) if past else g.whole(0)
    total = g.node("Add", old, new)
    cos, sin = (_sliced if table else _computed)(g, old, total)
    seen = g.node("Range", g.whole(0), total, g.whole(1))
    own = g.node("Unsqueeze", g.node("Range", old, total, g.whole(1)), g.ints(1))
    causal = g.node("LessOrEqual", g.node("Unsqueeze", seen, g.ints(0)), own)
    if past:
        causal = g.node("Unsqueeze", causal, g.ints(0, 1))
        kept = g.node("Cast", g.node("Unsqueeze", "mask", g.ints(1, 2)), to=TensorProto.BOOL)
        causal = g.node("And", causal, kept)
    mask = g.node("Where", causal, g.number(0.0), g.number(LOWEST))
    x = g.node("Gather", g.table(WORDS), ids)
    for n in range(layers):
        q, k, v = (g.heads(g.dense(x, WIDTH, WIDTH)) for _ in range(3))
        q, k = (_turned(g, y, cos, sin) for y in (q, k))
        if past:
            k = g.node("Concat", f"past_{2 * n}", k, axis=2, output=f"present_{2 * n}")
            v = g.node("Concat", f"past_{2 * n + 1}", v, axis=2, output=f"present_{2 * n + 1}")
        mixed = g.attention(q, k, v, mask, x)
        x = g.norm(g.node("Add", x, g.dense(mixed, WIDTH, WIDTH)))
        x = g.norm(g.node("Add", x, g.feed_forward(x)))
    g.node("Identity", g.dense(x, WIDTH, WORDS), output="logits")
    inputs: dict[str, tuple[int, Sequence[int | str]]] = {ids: (_INT, ("batch", "seq"))}
    outputs: dict[str, Sequence[int | str]] = {"logits": ("batch", "seq", WORDS)}
    if past:
        inputs["mask"] = (_INT, ("batch", "past + seq"))
        for n in range(2 * layers):
            inputs[f"past_{n}"] = (_FLOAT, ("batch", HEADS, "past", HEAD))
            outputs[f"present_{n}"] = ("batch", HEADS, "past + seq", HEAD)
    return g.file(inputs, outputs)


def _computed(g: Maker, first: str, end: str) -> tuple[str, str]:
    """Cosines and sines of positions."""
    places = g.node("Range", first, end, g.whole(1))
    places = g.node("Unsqueeze", g.node("Cast", places, to=_FLOAT), g.ints(1))
    steps = (10000.0 ** -(np.arange(0, HEAD, 2) / HEAD)).astype(np.float32)
    angles = g.node("Mul", places, g.weight(steps[None]))
    both = g.node("Concat", angles, angles, axis=1)
    return g.node("Cos", both), g.node("Sin", both)


def _sliced(g: Maker, first: str, end: str) -> tuple[str, str]:
    """Cosines and sines of a table."""
    angles = np.arange(2 * PLACES)[:, None] * 10000.0 ** -(np.arange(0, HEAD, 2) / HEAD)
    both = np.concatenate((angles, angles), 1)
    ends = [g.node("Unsqueeze", e, g.ints(0)) for e in (first, end)]
    return tuple(
        g.node("Slice", g.weight(table.astype(np.float32)), *ends, g.ints(0))
        for table in (np.cos(both), np.sin(both))
    )  # type: ignore[return-value]


def _turned(g: Maker, x: str, cos: str, sin: str) -> str:
    last = g.ints(3)
    front = g.node("Slice", x, g.ints(0), g.ints(HEAD // 2), last)
    back = g.node("Slice", x, g.ints(HEAD // 2), g.ints(2**63 - 1), last)
    other = g.node("Concat", g.node("Neg", back), front, axis=-1)
    return g.node("Add", g.node("Mul", x, cos), g.node("Mul", other, sin))
