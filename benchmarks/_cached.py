"""A decoder with a cache, as exporters write it: random weights, rotary positions, SwiGLU.

``input_ids`` and ``attention_mask``, and ``past_key_values.N.key`` and ``.value`` of every layer;
``logits``, and ``present.N.key`` and ``.value``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from _decoder import FORMS, packed
from onnx import TensorProto, helper, numpy_helper

_LOWEST = float(np.finfo(np.float32).min)
_END = 2**63 - 1


@dataclass(frozen=True)
class Size:
    """What a decoder consists of; by default half of SmolLM2-135M, each head with its own keys.

    Attributes:
        groups: heads of keys and values; queries have ``heads``.
        weights: of products, one of the forms of few bits (`_decoder.FORMS`), whose embedding is
            of float16; else all are float32.
        grouped: attention, its positions and its cache are one node (`GroupQueryAttention`), as
            ONNX Runtime GenAI's builder writes it.
    """

    layers: int = 12
    width: int = 576
    wide: int = 1536
    heads: int = 9
    groups: int = 9
    words: int = 16384
    weights: str = "float32"
    grouped: bool = False

    @property
    def head(self) -> int:
        """Numbers of a head."""
        return self.width // self.heads

    def cache_bytes(self, positions: float) -> float:
        """Bytes of all keys and values of so many positions."""
        return 2 * 4 * self.layers * self.groups * self.head * positions

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights that a token reads whole: not the embedding's."""
        own = 2 * self.width**2 + 2 * self.width * self.groups * self.head
        count = self.layers * (own + 3 * self.width * self.wide) + self.width * self.words
        if self.weights not in FORMS:
            return 4 * count
        block, zeros, _ = FORMS[self.weights]
        return count // 2 + (4 * count + zeros * count // 2) // block

    @property
    def embedding_bytes(self) -> int:
        """Bytes of the table of words."""
        return (2 if self.weights in FORMS else 4) * self.width * self.words


BILLION = {"layers": 22, "width": 2048, "wide": 5632, "heads": 32, "groups": 4, "words": 32000}
"""TinyLlama's: 1.03 billion weights in products."""


def caches(size: Size) -> list[tuple[str, str]]:
    """Names of inputs, and of the outputs that continue them."""
    kinds = [(n, kind) for n in range(size.layers) for kind in ("key", "value")]
    return [(f"past_key_values.{n}.{kind}", f"present.{n}.{kind}") for n, kind in kinds]


def decoder(size: Size) -> onnx.ModelProto:
    """The model, of any batch, past and number of tokens."""
    g = _Graph(size)
    if size.grouped:
        return g.of_groups()
    old, new = g.dim("past_key_values.0.key", 2), g.dim("input_ids", 1)
    total = g.node("Add", old, new)
    cos, sin = g.rotary(old, total)
    seen = g.node("Unsqueeze", g.node("Range", g.whole(0), total, g.whole(1)), g.ints(0))
    own = g.node("Unsqueeze", g.node("Range", old, total, g.whole(1)), g.ints(1))
    causal = g.node("Unsqueeze", g.node("LessOrEqual", seen, own), g.ints(0, 1))
    kept = g.node("Cast", g.node("Unsqueeze", "attention_mask", g.ints(1, 2)), to=TensorProto.BOOL)
    mask = g.node("Where", g.node("And", causal, kept), g.number(0.0), g.number(_LOWEST))
    x = g.embedded("input_ids")
    for n in range(size.layers):
        x = g.layer(x, n, cos, sin, mask)
    g.product(g.norm(x), size.width, size.words, output="logits")
    return g.model()


@dataclass
class _Graph:
    size: Size
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def node(self, op: str, *inputs: str, output: str = "", **attributes: object) -> str:
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def whole(self, number: int) -> str:
        return self.constant(np.array(number, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def weight(self, rows: int, columns: int) -> str:
        drawn = self.rng.standard_normal((rows, columns), np.float32)
        return self.constant(drawn / np.float32(rows**0.5))

    def product(self, x: str, rows: int, columns: int, output: str = "") -> str:
        """``x`` times random weights."""
        if self.size.weights not in FORMS:
            return self.node("MatMul", x, self.weight(rows, columns), output=output)
        given, attrs = packed(self.rng, rows, columns, self.size.weights)
        inputs = map(self.constant, given.values())
        domain = {"domain": "com.microsoft"}
        return self.node("MatMulNBits", x, *inputs, output=output, **domain, **attrs)

    def embedded(self, words: str) -> str:
        size = self.size
        if size.weights not in FORMS:
            return self.node("Gather", self.weight(size.words, size.width), words)
        drawn = self.rng.random((size.words, size.width), np.float32) - np.float32(0.5)
        table = self.constant(drawn.astype(np.float16))
        return self.node("Cast", self.node("Gather", table, words), to=TensorProto.FLOAT)

    def dim(self, x: str, d: int) -> str:
        return self.node("Gather", self.node("Shape", x), self.whole(d), axis=0)

    def norm(self, x: str) -> str:
        mean = self.node("ReduceMean", self.node("Mul", x, x), self.ints(-1), keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.number(1e-5)))
        scaled = self.node("Mul", x, self.node("Reciprocal", root))
        return self.node("Mul", scaled, self.constant(np.ones(self.size.width, np.float32)))

    def rotary(self, first: str, end: str) -> tuple[str, str]:
        places = self.node("Range", first, end, self.whole(1))
        places = self.node(
            "Unsqueeze", self.node("Cast", places, to=TensorProto.FLOAT), self.ints(1)
        )
        half = np.arange(0, self.size.head, 2) / self.size.head
        steps = self.constant((10000.0**-half).astype(np.float32)[None])
        angles = self.node("Mul", places, steps)
        both = self.node("Concat", angles, angles, axis=1)
        return self.node("Cos", both), self.node("Sin", both)

    def turned(self, x: str, cos: str, sin: str) -> str:
        half, last = self.ints(self.size.head // 2), self.ints(3)
        front = self.node("Slice", x, self.ints(0), half, last)
        back = self.node("Slice", x, half, self.ints(_END), last)
        other = self.node("Concat", self.node("Neg", back), front, axis=-1)
        return self.node("Add", self.node("Mul", x, cos), self.node("Mul", other, sin))

    def heads(self, x: str, heads: int) -> str:
        y = self.product(x, self.size.width, heads * self.size.head)
        cut = self.node("Reshape", y, self.ints(0, 0, heads, -1))
        return self.node("Transpose", cut, perm=[0, 2, 1, 3])

    def repeated(self, x: str) -> str:
        """Keys or values of each group for all of its heads."""
        size = self.size
        if size.groups == size.heads:
            return x
        each = size.heads // size.groups
        wide = self.node("Unsqueeze", x, self.ints(2))
        length = self.node("Unsqueeze", self.dim(x, 2), self.ints(0))
        batch = self.node("Unsqueeze", self.dim(x, 0), self.ints(0))
        shape = self.node(
            "Concat", batch, self.ints(size.groups, each), length, self.ints(size.head), axis=0
        )
        wide = self.node("Expand", wide, shape)
        return self.node("Reshape", wide, self.ints(0, size.heads, -1, size.head))

    def layer(self, x: str, n: int, cos: str, sin: str, mask: str) -> str:
        size, y = self.size, self.norm(x)
        q = self.turned(self.heads(y, size.heads), cos, sin)
        k, v = self.turned(self.heads(y, size.groups), cos, sin), self.heads(y, size.groups)
        k, v = (
            self.node("Concat", f"past_key_values.{n}.{kind}", new, axis=2,
                      output=f"present.{n}.{kind}")
            for kind, new in (("key", k), ("value", v))
        )  # fmt: skip
        keys = self.node("Transpose", self.repeated(k), perm=[0, 1, 3, 2])
        scores = self.node(
            "Mul", self.node("MatMul", q, keys), self.number(float(size.head) ** -0.5)
        )
        seen = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        mixed = self.node(
            "Transpose", self.node("MatMul", seen, self.repeated(v)), perm=[0, 2, 1, 3]
        )
        return self.behind(x, self.node("Reshape", mixed, self.ints(0, 0, -1)))

    def behind(self, x: str, mixed: str) -> str:
        """The rest of a layer: what heads have mixed, projected, and the gated layer."""
        size = self.size
        x = self.node("Add", x, self.product(mixed, size.width, size.width))
        y = self.norm(x)
        gate = self.product(y, size.width, size.wide)
        gate = self.node("Mul", gate, self.node("Sigmoid", gate))
        y = self.node("Mul", gate, self.product(y, size.width, size.wide))
        return self.node("Add", x, self.product(y, size.wide, size.width))

    def of_groups(self) -> onnx.ModelProto:
        """The model with a node for each layer's attention."""
        size, domain = self.size, {"domain": "com.microsoft"}
        many = self.node("ReduceSum", "attention_mask", self.ints(1), keepdims=1)
        last = self.node("Cast", self.node("Sub", many, self.ints(1)), to=TensorProto.INT32)
        total = self.node("Cast", self.dim("attention_mask", 1), to=TensorProto.INT32)
        half = np.arange(0, size.head, 2) / size.head
        angles = np.arange(4096)[:, None] * 10000.0**-half
        turns = [self.constant(turn(angles).astype(np.float32)) for turn in (np.cos, np.sin)]
        x = self.embedded("input_ids")
        for n in range(size.layers):
            y, kv = self.norm(x), size.groups * size.head
            given = [self.product(y, size.width, wide) for wide in (size.width, kv, kv)]
            past, present = (
                [f"{what}.{n}.{kind}" for kind in ("key", "value")]
                for what in ("past_key_values", "present")
            )
            counts = {"num_heads": size.heads, "kv_num_heads": size.groups, "do_rotary": 1}
            inputs, outputs = [*given, *past, last, total, *turns], [f"mixed{n}", *present]
            self.nodes.append(
                helper.make_node("GroupQueryAttention", inputs, outputs, **domain, **counts)
            )
            x = self.behind(x, outputs[0])
        self.product(self.norm(x), size.width, size.words, output="logits")
        return self.model()

    def model(self) -> onnx.ModelProto:
        size, kinds = self.size, (TensorProto.INT64, TensorProto.FLOAT)
        info = helper.make_tensor_value_info
        inputs = [
            info("input_ids", kinds[0], ["batch", "sequence"]),
            info("attention_mask", kinds[0], ["batch", "past + sequence"]),
        ]
        outputs = [info("logits", kinds[1], ["batch", "sequence", size.words])]
        for past, present in caches(size):
            inputs.append(info(past, kinds[1], ["batch", size.groups, "past", size.head]))
            shape = ["batch", size.groups, "past + sequence", size.head]
            outputs.append(info(present, kinds[1], shape))
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.tensors)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)
