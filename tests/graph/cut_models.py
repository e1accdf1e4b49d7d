"""Models of which some operators are left, as texts; and whole models by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
from onnx import parser

WEIGHTS = "{" + ", ".join(f"{v:.2f}" for v in np.linspace(-1, 1, 16)) + "}"
"""Of a tensor ``float[4, 4]``."""
KERNEL = "{" + ", ".join(str(n * n % 5 - 2) for n in range(54)) + "}"
"""Of a tensor ``float[3, 2, 3, 3]``."""
HEAD = '<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'

TWICE = f"""
g (float[N, 4] x) => (float[N, 4] y, float[N, 4] s)
<float[4, 4] W = {WEIGHTS}>
{{
    a = MatMul(x, W)
    b = Relu(a)
    c = ai.onnx.ml.Binarizer <threshold = 0.123> (b)
    d = MatMul(c, W)
    e = ai.onnx.ml.Binarizer <threshold = 0.123> (d)
    s = Softmax(a)
    f = MatMul(e, W)
    y = Add(f, s)
}}"""
"""Two times from our engine to the other and back, and a value that goes past it."""

DETECTION = """
g (float[1, 6, 4] boxes, float[1, 6, 8] h) => (float[K, 4] chosen, int64[K, 3] picked)
<float[8, 2] W = {1, -1, 2, 0.5, -0.5, 1, 1, 1, -2, 1, 0.3, 0.7, 1, 2, -1, 0.1},
 int64[1] most = {5}, float[1] overlap = {0.5}, int64[1] second = {2}>
{
    raw = MatMul(h, W)
    probability = Sigmoid(raw)
    scores = Transpose <perm = [0, 2, 1]> (probability)
    picked = NonMaxSuppression(boxes, scores, most, overlap)
    index = Gather <axis = 1> (picked, second)
    rows = Squeeze(boxes)
    chosen = GatherND(rows, index)
}"""
"""What follows has an extent that data decide."""

SCALED = f"""
g (float[1, 2, H, W] x) => (float[1, 3, P, Q] y, int64[4, K] z)
<float[3, 2, 3, 3] k = {KERNEL},
 int64[1] none = {{0}}, int64[1] two = {{2}}, int64[1] four = {{4}}, float long = {{24}}>
{{
    shape = Shape(x)
    image = Slice(shape, two, four)
    sizes = Cast <to = 1> (image)
    longest = ReduceMax <keepdims = 0> (sizes)
    scale = Div(long, longest)
    scaled = Mul(sizes, scale)
    whole = Floor(scaled)
    wanted = Cast <to = 7> (whole)
    front = Slice(shape, none, two)
    all = Concat <axis = 0> (front, wanted)
    resized = Resize <mode = "nearest", nearest_mode = "floor",
        coordinate_transformation_mode = "asymmetric"> (x, , , all)
    y = Conv <pads = [1, 1, 1, 1]> (resized, k)
    high = Relu(y)
    z = NonZero(high)
}}"""
"""Sizes that follow from those of the image by other than whole polynomials."""

FOLLOWED = f"""
g (float[N, 4] x) => (int64[2, K] z, float[N, 4] y)
<float[4, 4] W = {WEIGHTS}, float[1] least = {{0.5}}>
{{
    a = MatMul(x, W)
    shape = Shape(a)
    ones = ConstantOfShape <value = float[1] {{1}}> (shape)
    z = NonZero(a)
    c = ai.onnx.ml.Binarizer <threshold = 0.123> (a)
    d = Add(c, ones)
    y = MatMul(d, W)
}}"""
"""Extents that a run brings, known to both engines."""

LOOP = f"""
g (float[4, 4] x, int64 times) => (float[4, 4] y)
<float[4, 4] W = {WEIGHTS}>
{{
    a = MatMul(x, W)
    go = Constant <value = bool {{1}}> ()
    last = Loop <body = body (int64 i, bool keep, float[4, 4] v)
        => (bool on, float[4, 4] next)
        {{ on = Identity(keep) p = MatMul(v, a) next = Tanh(p) }}> (times, go, x)
    sum = Add(last, a)
    y = MatMul(sum, W)
}}"""
"""A loop that reads a value from around it."""

BRANCH = f"""
g (float[4, 4] x) => (float[4, 4] y)
<float[4, 4] W = {WEIGHTS}>
{{
    a = MatMul(x, W)
    m = ReduceSum <keepdims = 0> (a)
    zero = Constant <value = float {{0}}> ()
    c = Greater(m, zero)
    b = If <then_branch = then () => (float[4, 4] t) {{ t = Mul(a, x) }},
            else_branch = other () => (float[4, 4] f) {{ f = Sub(a, x) }}> (c)
    y = MatMul(b, W)
}}"""
"""A branch that data decide."""

SEQUENCE = f"""
g (float[N, 4] x) => (seq(float[N, 4]) parts, float[N, 4] y)
<float[4, 4] W = {WEIGHTS}>
{{
    a = MatMul(x, W)
    both = SequenceConstruct(a, x)
    parts = SequenceMap <body = body (float[N, 4] v) => (float[N, 4] w) {{ w = Neg(v) }}> (both)
    y = MatMul(a, W)
}}"""
"""An output that is no tensor."""

FUNCTION = f"""<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml" : 3, "own" : 1]>
g (float[N, 4] x) => (float[N, 4] y)
<float[4, 4] W = {WEIGHTS}>
{{
    a = own.scaled(x, W)
    y = own.scaled(a, W)
}}
<domain: "own", opset_import: ["" : 17, "ai.onnx.ml" : 3]>
scaled (v, w) => (r)
{{
    p = MatMul(v, w)
    r = ai.onnx.ml.Binarizer <threshold = 0.123> (p)
}}"""
"""Functions of the model, in which something is left."""


def model(text: str) -> onnx.ModelProto:
    """A model from its text; with a usual head where it has none."""
    return parser.parse_model(text if text.startswith("<") else HEAD + text)


def whole(m: onnx.ModelProto, feeds: dict[str, object]) -> list[object]:
    """The outputs of a model by ONNX Runtime alone."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        m.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def feeds_of(m: onnx.ModelProto, batch: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs; whole numbers are 2."""
    r = np.random.default_rng(seed)
    out = {}
    for i in m.graph.input:
        shape = [d.dim_value or batch for d in i.type.tensor_type.shape.dim]
        if i.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            out[i.name] = np.full(shape, 2, np.int64)
        else:
            out[i.name] = r.standard_normal(shape).astype(np.float32)
    return out


def same(found: list[object], expected: list[object]) -> bool:
    """Whether outputs are equal but for rounding."""
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, list):
            if not same(a, b):
                return False
        elif a.shape != b.shape or a.dtype != b.dtype or not np.allclose(a, b, 1e-4, 1e-5):
            return False
    return True
