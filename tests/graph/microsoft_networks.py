"""Small networks as ONNX Runtime's optimisers leave them, with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from tests.graph.onnx_models import GraphMaker

MICROSOFT = "com.microsoft"
Network = tuple[onnx.ModelProto, dict[str, np.ndarray]]  # and what it is run with


class Maker(GraphMaker):
    """Collects nodes of both domains; weights are small, so that values stay of order one."""

    def of(self, *shape: int) -> str:
        scale = 1.0 / np.sqrt(shape[0]) if len(shape) > 1 else 0.1
        return self.weight((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def fused(self, op: str, *inputs: str, outputs: Sequence[str] = (), **attrs: object) -> str:
        """A node of ONNX Runtime's domain; its first output."""
        name = self.node(op, *inputs, domain=MICROSOFT, **attrs)
        self.nodes[-1].output.extend(outputs)
        return name

    def network(self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> Network:
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in inputs.items()
        ]
        results = [onnx.ValueInfoProto(name=n) for n in outputs]
        graph = helper.make_graph(self.nodes, "g", infos, results, self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8), dict(inputs)


def bert(
    layers: int = 1, batch: int = 2, length: int = 6, width: int = 32, heads: int = 4
) -> Network:
    """Layers behind embeddings; the first sequence is padded."""
    g, d = Maker(), width
    tables = [g.of(n, d) for n in (20, length, 2)]
    x = g.fused(
        "EmbedLayerNormalization", "ids", "kinds", *tables, g.of(d), g.of(d), "mask",
        outputs=["lengths"], epsilon=1e-12,
    )  # fmt: skip
    for _ in range(layers):
        y = g.fused("Attention", x, g.of(d, 3 * d), g.of(3 * d), "lengths", num_heads=heads)
        y = g.node("MatMul", y, g.of(d, d))
        x = g.fused("SkipLayerNormalization", y, x, g.of(d), g.of(d), g.of(d), epsilon=1e-12)
        y = g.fused("BiasGelu", g.node("MatMul", x, g.of(d, 4 * d)), g.of(4 * d))
        y = g.node("MatMul", y, g.of(4 * d, d))
        x = g.fused("SkipLayerNormalization", y, x, g.of(d), g.of(d), g.of(d), epsilon=1e-12)
    mask = np.ones((batch, length), np.int32)
    mask[0, length // 2 :] = 0
    ids, kinds = (g.rng.integers(0, n, (batch, length)).astype(np.int32) for n in (20, 2))
    return g.network({"ids": ids, "kinds": kinds, "mask": mask}, [x])


def gpt2(layers: int = 1, past: int = 5, length: int = 1) -> Network:
    """Layers with the keys and values of earlier tokens."""
    g, d, batch, heads = Maker(), 32, 2, 4
    x, skip = g.node("LayerNormalization", "x", g.of(d), g.of(d)), "x"
    presents = []
    for i in range(layers):
        presents.append(f"present{i}")
        y = g.fused(
            "Attention", x, g.of(d, 3 * d), g.of(3 * d), "mask", f"past{i}",
            outputs=presents[-1:], num_heads=heads, unidirectional=1,
        )  # fmt: skip
        y = g.node("MatMul", y, g.of(d, d))
        norm = ("SkipLayerNormalization", *(g.of(d) for _ in range(3)))
        x = g.fused(norm[0], y, skip, *norm[1:], outputs=["", "", f"sum{i}"], epsilon=1e-5)
        y = g.fused("FastGelu", g.node("MatMul", x, g.of(d, 4 * d)), g.of(4 * d))
        y = g.node("MatMul", y, g.of(4 * d, d))
        skip = f"skip{i}"
        x = g.fused(norm[0], y, f"sum{i}", *norm[1:], outputs=["", "", skip], epsilon=1e-5)
    inputs = {
        "x": g.rng.standard_normal((batch, length, d)).astype(np.float32),
        "mask": np.ones((batch, past + length), np.int32),
    }
    inputs["mask"][0, :2] = 0
    cache = (2, batch, heads, past, d // heads)
    for i in range(layers):
        inputs[f"past{i}"] = g.rng.standard_normal(cache).astype(np.float32)
    return g.network(inputs, [x, *presents])


def llama(layers: int = 1, length: int = 1, packed: bool = False) -> Network:
    """Layers with groups of queries, rotary embedding, and caches of fixed length.

    Lengths of the sequences come from their mask, as exporters compute them.
    """
    g, d, heads, groups, size = Maker(), 64, 4, 2, 16
    kv, batch, cache, total = groups * size, 1 if length > 1 else 2, 12, 8
    one = g.weight(np.array([1], np.int32))
    ones = g.node("ReduceSum", "mask", g.weight(np.array([1])), keepdims=0)
    last = g.node("Sub", ones, one)
    whole = g.node("Cast", g.node("Gather", g.node("Shape", "mask"), g.weight(np.array(1))), to=6)
    angles = g.rng.uniform(0, 6, (cache, size // 2)).astype(np.float32)
    turns = [g.weight(f(angles)) for f in (np.cos, np.sin)]
    x, skip = g.node("SimplifiedLayerNormalization", "x", g.of(d), axis=-1, epsilon=1e-6), "x"
    presents = []
    for i in range(layers):
        if packed:
            operands = [g.node("MatMul", x, g.of(d, d + 2 * kv)), "", ""]
        else:
            operands = [g.node("MatMul", x, g.of(d, n)) for n in (d, kv, kv)]
        presents += [f"key{i}", f"value{i}"]
        y = g.fused(
            "GroupQueryAttention", *operands, f"past_key{i}", f"past_value{i}", last, whole,
            *turns, outputs=presents[-2:], num_heads=heads, kv_num_heads=groups, do_rotary=1,
        )  # fmt: skip
        y, skips = g.node("MatMul", y, g.of(d, d)), ["", "", f"sum{i}"]
        norm = "SkipSimplifiedLayerNormalization"
        x = g.fused(norm, skip, y, g.of(d), outputs=skips, epsilon=1e-6)
        gate = g.fused("QuickGelu", g.node("MatMul", x, g.of(d, 2 * d)), alpha=1.0)
        y = g.node("Mul", gate, g.node("MatMul", x, g.of(d, 2 * d)))
        y, skip = g.node("MatMul", y, g.of(2 * d, d)), f"skip{i}"
        x = g.fused(norm, f"sum{i}", y, g.of(d), outputs=["", "", skip], epsilon=1e-6)
    inputs = {
        "x": g.rng.standard_normal((batch, length, d)).astype(np.float32),
        "mask": np.ones((batch, total), np.int32),
    }
    if batch > 1:
        inputs["mask"][1, total - 3 :] = 0
    for i in range(layers):
        for name in (f"past_key{i}", f"past_value{i}"):
            shape = (batch, groups, cache, size)
            inputs[name] = g.rng.standard_normal(shape).astype(np.float32)
    return g.network(inputs, [x, *presents])


def unet(fused: bool = True) -> Network:
    """A residual block of a diffusion model with attention to a text and a gated layer.

    Args:
        fused: as the optimiser writes it, with operators that ONNX Runtime has on GPUs alone;
            otherwise the same in plain operators.
    """
    g, c, size, heads, text = Maker(), 16, 4, 2, 5
    x = _group_norm(g, "x", c, fused, silu=True)
    x = _conv(g, x, c, fused)
    skip = g.node("Add", x, "x")
    x = _group_norm(g, skip, c, fused, silu=False)
    x = g.node("Reshape", x, g.weight(np.array([0, size * size, c])))
    q, k, v = g.of(c, c), g.of(c, c), g.of(c, c)
    operands = [g.node("MatMul", s, w) for s, w in ((x, q), ("text", k), ("text", v))]
    y = g.fused("MultiHeadAttention", *operands, num_heads=heads)
    y, bias = g.node("MatMul", y, g.of(c, c)), g.of(c)
    if fused:
        x = g.fused("BiasAdd", y, bias, x)
    else:
        x = g.node("Add", g.node("Add", y, bias), x)
    y, bias = g.node("MatMul", x, g.of(c, 8 * c)), g.of(8 * c)
    if fused:
        y = g.fused("BiasSplitGelu", y, bias)
    else:
        y = g.node("Add", y, bias)
        half = [np.array([n]) for n in (0, 4 * c, 8 * c, 2)]
        left, right = (
            g.node("Slice", y, *(g.weight(half[i]) for i in (at, at + 1, 3))) for at in (0, 1)
        )
        y = g.node("Mul", left, g.fused("Gelu", right))
    y = g.node("MatMul", y, g.of(4 * c, c))
    inputs = {
        "x": g.rng.standard_normal((2, size, size, c)).astype(np.float32),
        "text": g.rng.standard_normal((2, text, c)).astype(np.float32),
    }
    return g.network(inputs, [y])


def _group_norm(g: Maker, x: str, c: int, fused: bool, silu: bool) -> str:
    gamma, beta = g.of(c), g.of(c)
    if fused:
        return g.fused("GroupNorm", x, gamma, beta, groups=4, epsilon=1e-5, activation=int(silu))
    y = g.node("Transpose", x, perm=[0, 3, 1, 2])
    flat = g.node("Reshape", y, g.weight(np.array([0, 4, -1])))
    ones = [g.weight(np.full(4, n, np.float32)) for n in (1, 0)]
    flat = g.node("InstanceNormalization", flat, *ones, epsilon=1e-5)
    y = g.node("Transpose", g.node("Reshape", flat, g.node("Shape", y)), perm=[0, 2, 3, 1])
    y = g.node("Add", g.node("Mul", y, gamma), beta)
    return g.node("Mul", y, g.node("Sigmoid", y)) if silu else y


def _conv(g: Maker, x: str, c: int, fused: bool) -> str:
    w, bias, attrs = g.rng.standard_normal((c, 3, 3, c)) / (3 * np.sqrt(c)), g.of(c), {}
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    w = w.astype(np.float32)
    if fused:
        return g.fused("NhwcConv", x, g.weight(w), bias, **attrs)
    y = g.node("Transpose", x, perm=[0, 3, 1, 2])
    y = g.node("Conv", y, g.weight(w.transpose(0, 3, 1, 2)), bias, **attrs)
    return g.node("Transpose", y, perm=[0, 2, 3, 1])


def cnn() -> Network:
    """A residual network in plain operators, for ONNX Runtime to fuse."""
    g = Maker()
    x = g.relu(g.batch_norm(g.conv("x", 3, 8, 3), 8))
    y = g.node("LeakyRelu", g.conv(x, 8, 8, 3, bias=True), alpha=0.2)
    y = g.relu(g.node("Add", g.batch_norm(g.conv(y, 8, 8, 3), 8), x))
    limits = [g.weight(np.float32(n)) for n in (0, 6)]
    y = g.node("Clip", g.conv(y, 8, 8, 1, bias=True), *limits)
    y = g.node("Flatten", g.node("GlobalAveragePool", y))
    y = g.relu(g.gemm(y, 8, 6))
    x0 = g.rng.standard_normal((2, 3, 10, 10)).astype(np.float32)
    return g.network({"x": x0}, [y])
