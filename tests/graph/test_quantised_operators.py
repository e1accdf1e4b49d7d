"""ONNX Runtime's own operators on quantised numbers, and parameters that no file should have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.operator_cases import Cases
from tests.graph.quantized_models import by_onnx_runtime
from tests.graph.run_plan import run_plan
from tests.graph.test_onnx_errors import refused
from tests.graph.test_quantised_networks import run
from tilework.errors import NetworkError
from tilework.graph import from_onnx
from tilework.graph.passes import optimize

KINDS = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16,
    "float32": TensorProto.FLOAT,
}
BITS = {"int8": TensorProto.INT8, "int4": TensorProto.INT4}
Array = np.ndarray


def one_node(
    op: str, data: dict[str, Array], inputs: list[Any], to: str, **attrs: Any
) -> onnx.ModelProto:
    """A model of one node; ``inputs`` are names of ``data``, constants, or None."""
    names, tensors = [], []
    for i, value in enumerate(inputs):
        names.append(value if isinstance(value, str) else "" if value is None else f"c{i}")
        if names[-1] == f"c{i}":
            tensors.append(numpy_helper.from_array(np.asarray(value), names[-1]))
    node = helper.make_node(op, names, ["y"], domain="com.microsoft", **attrs)
    infos = [
        helper.make_tensor_value_info(n, KINDS[str(a.dtype)], a.shape) for n, a in data.items()
    ]
    out = helper.make_tensor_value_info("y", KINDS[to], None)
    graph = helper.make_graph([node], "g", infos, [out], tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def scale(x: float) -> Array:
    return np.asarray(x, np.float32)


def whole(dtype: str, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(7).integers(info.min, info.max + 1, shape).astype(dtype)


def of(dtype: str, zero: int) -> Array:
    return np.asarray(zero, dtype)


def cases(t: str) -> dict[str, tuple[onnx.ModelProto, dict[str, Array]]]:
    x, y = whole(t, 1, 4, 5, 6), whole(t, 1, 4, 5, 6)[:, ::-1].copy()
    both, one = {"x": x, "z": y}, {"x": x}
    first, second = ["x", scale(0.031), of(t, 12)], ["z", scale(0.017), of(t, 31)]
    end, condition = [scale(0.043), of(t, 20)], np.arange(30).reshape(1, 1, 5, 6) % 3 == 0
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}
    gemm = {"a": whole(t, 3, 8)}
    w, bias = whole("int8", 5, 8) // 4, np.arange(5, dtype=np.int32) * 100
    sizes = np.linspace(0.001, 0.01, 5, dtype=np.float32)
    of_w = [w, sizes, np.zeros(5, np.int8)]
    made = {
        "QLinearAdd": (both, [*first, *second, *end], {}),
        "QLinearMul": (both, [*first, *second, *end], {}),
        "QLinearAveragePool": (one, [*first, *end], pool),
        "QLinearAveragePool, channels last": (
            {"x": x[0][None].transpose(0, 2, 3, 1).copy()},
            [*first, *end],
            {**pool, "channels_last": 1},
        ),
        "QLinearWhere": (both, [condition, *first, *second, *end], {}),
        "QLinearConcat": (both, [*end, *first, *second], {"axis": 1}),
        "QLinearGlobalAveragePool": (one, [*first, *end], {}),
        "QLinearLeakyRelu": (one, [*first, *end], {"alpha": 0.2}),
        "QLinearSigmoid": (one, [*first, scale(1 / 256), of(t, 0)], {}),
        "QLinearSoftmax": (one, [*first, scale(1 / 256), of(t, 0)], {"axis": -1, "opset": 13}),
        "QGemm": (gemm, ["a", *first[1:], *of_w, bias, scale(0.2), of(t, 3)], {"transB": 1}),
        "QGemm, a bias by row": (
            gemm,
            ["a", *first[1:], *of_w, bias[:3, None], scale(0.2), of(t, 3)],
            {"transB": 1},
        ),
        "QGemm, scaled": (
            {"a": whole(t, 8, 3)},
            ["a", *first[1:], w.T, *of_w[1:], bias[None], scale(0.2), of(t, 3)],
            {"transA": 1, "alpha": 0.5},
        ),
    }
    return {
        name: (one_node(name.partition(",")[0], data, inputs, t, **attrs), data)
        for name, (data, inputs, attrs) in made.items()
    }


ONE_APART = {"QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax", "QLinearAdd"}
"""ONNX Runtime scales sums of integers there, looks exponentials up, adds ratios of scales: it
rounds some numbers, which lie in the middle, the other way."""


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op", list(cases("uint8")))
def test_operators_of_onnx_runtime(op: str, dtype: str, tmp_path: Path) -> None:
    model, feed = cases(dtype)[op]
    (want,) = by_onnx_runtime(model, feed).values()
    (got,) = run(model, feed, tmp_path / "q.onnx")
    assert got.dtype == want.dtype
    apart = np.abs(got.astype(int) - want.astype(int))
    assert apart.max() <= (op.partition(",")[0] in ONE_APART)


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
def test_files_before_opset_21_have_16_bits_in_the_domain_of_onnx_runtime(
    dtype: str, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32) * 3
    data, parts = {"x": x}, [scale(1e-4), of(dtype, 300)]
    model = one_node("QuantizeLinear", data, ["x", *parts], dtype)
    back = helper.make_node("DequantizeLinear", ["y", "c1", "c2"], ["z"], domain="com.microsoft")
    model.graph.node.append(back)
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, x.shape))
    want = by_onnx_runtime(model, data)
    for got, name in zip(run(model, data, tmp_path / "q.onnx"), "yz", strict=True):
        np.testing.assert_array_equal(got, want[name])


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("opset", [21, 23])
def test_from_opset_23_quotients_are_of_the_type_of_the_scale(
    opset: int, dtype: str, tmp_path: Path
) -> None:
    c, kind = Cases(opset), np.iinfo(dtype)
    x = (np.random.default_rng(1).standard_normal(4000) * 3).astype(np.float16)
    step = np.asarray(12 / (kind.max - kind.min), np.float16)
    zero = of(dtype, (kind.max + kind.min) // 2)
    c.node("QuantizeLinear", c.input(x), c.constant(step, "float16"), c.constant(zero, dtype))
    quotient = x / step if opset > 21 else x.astype(np.float32) / step.astype(np.float32)
    want = np.rint(quotient).astype(np.float32) + zero.astype(np.float32)
    (got,) = run(c.model(), c.inputs, tmp_path / "q.onnx")
    np.testing.assert_array_equal(got, want.clip(kind.min, kind.max).astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_weights_that_a_file_holds_as_floats_are_quantised_at_import(
    dtype: str, tmp_path: Path
) -> None:
    """Training with quantised numbers leaves them so."""
    c, rng = Cases(21), np.random.default_rng(2)
    w = rng.standard_normal((16, 8)).astype(np.float32)
    w[0, 0] = np.nan
    most = 127 if dtype == "int8" else 7
    steps = np.linspace(1, 2, 8, dtype=np.float32) / np.float32(most)
    sizes = c.constant(steps)
    zeros = c.constant(np.zeros(8), onnx.helper.tensor_dtype_to_np_dtype(BITS[dtype]))
    whole_numbers = c.node("QuantizeLinear", c.constant(w), sizes, zeros, axis=1)
    c.outputs.clear()
    back = c.node("DequantizeLinear", whole_numbers, sizes, zeros, axis=1)
    x = rng.standard_normal((3, 16)).astype(np.float32)
    c.outputs[:] = [c.node("MatMul", c.input(x), back)]
    want = x @ (np.nan_to_num(np.rint(w / steps), nan=-most - 1).clip(-most - 1, most) * steps)
    (got,) = run(c.model(), c.inputs, tmp_path / "q.onnx")
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)
    net = from_onnx(tmp_path / "q.onnx")
    assert "quantize" not in [n.op for n in net.nodes]


def test_an_infinite_scale_of_a_mask_is_computed_as_it_stands(tmp_path: Path) -> None:
    """So ONNX Runtime's quantiser writes minus infinity; a product of bytes would make NaN."""
    c, inf = Cases(17), np.inf
    x, numbers = np.asarray([[0, 1, -inf, -5]], np.float32), np.asarray([[0, 255, 7, 0]], np.uint8)
    scale, zero = c.constant(inf), c.constant(255, "uint8")
    for given in (c.input(x), c.constant(x)):
        c.node("DequantizeLinear", c.node("QuantizeLinear", given, scale, zero), scale, zero)
    for given in (c.input(numbers), c.constant(numbers, "uint8")):
        y = c.node("DequantizeLinear", given, scale, zero)
        c.node("MatMul", y, c.constant([[1.0], [0.0], [1.0], [1.0]]))
    want = by_onnx_runtime(c.model(), c.inputs)
    for got, name in zip(run(c.model(), c.inputs, tmp_path / "q.onnx"), c.outputs, strict=True):
        np.testing.assert_array_equal(got, want[name])


@pytest.mark.parametrize("given", ["all", "scales"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_products_by_scales_of_the_run(op: str, dtype: str, given: str, tmp_path: Path) -> None:
    w, sizes = whole("int8", 8, 5) // 4, np.linspace(0.001, 0.01, 5, dtype=np.float32)
    ends = [of("int8", 0) + np.zeros(5, np.int8), np.arange(5, dtype=np.float32)]
    if op == "MatMulIntegerToFloat":
        a = whole(dtype, 2, 3, 8)
        inputs = ["a", w, scale(0.02).reshape(1), sizes, of(dtype, 3).reshape(1), *ends]
        inputs[4:] = inputs[4:] if given == "all" else []
    else:
        a = np.random.default_rng(3).standard_normal((2, 3, 8)).astype(np.float32)
        inputs = ["a", w, sizes, *(ends if given == "all" else [])]
    model = one_node(op, {"a": a}, inputs, "float32")
    (want,) = by_onnx_runtime(model, {"a": a}).values()
    (got,) = run(model, {"a": a}, tmp_path / "q.onnx")
    np.testing.assert_allclose(got, want, 1e-6, 1e-6)


def test_a_gemm_without_a_scale_of_its_result_is_float(tmp_path: Path) -> None:
    a, w = whole("uint8", 3, 8), whole("int8", 8, 5)
    parts = ["a", scale(0.5), of("uint8", 3), w, scale(0.25), of("int8", 0)]
    model = one_node("QGemm", {"a": a}, parts, "float32", alpha=1.0)
    (got,) = run(model, {"a": a}, tmp_path / "q.onnx")
    want = ((a.astype(np.int32) - 3) @ w.astype(np.int32)).astype(np.float32) * np.float32(0.125)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("op", "given", "zero", "why"),
    [
        ("QuantizeLinear", [0.0], 0, "the scale 'c0' holds 0.0; scales are positive numbers"),
        ("QuantizeLinear", [np.nan], 0, "holds nan"),
        ("DequantizeLinear", [-0.5], 0, "holds -0.5"),
        ("DequantizeLinear", [-np.inf], 0, "holds -inf"),
        ("QuantizeLinear", [0.5, 0.5], 0, "1 zero points 'c1' for 2 scales 'c0'"),
        ("DequantizeLinear", [0.5] * 3, [0] * 3, "a scale of shape [3] does not fit [2, 4]"),
        (
            "DequantizeLinear",
            [0.5],
            np.int8(0),
            "the zero point 'c1' is int8, and what it belongs",
        ),
    ],
)
def test_parameters_that_are_refused(
    op: str, given: list[float], zero: Any, why: str, tmp_path: Path
) -> None:
    c = Cases(21)
    data = np.zeros((2, 4), np.float32 if op == "QuantizeLinear" else np.uint8)
    array = np.asarray(given, np.float32)
    s = c.constant(array if array.size > 1 else array.reshape(()))
    z = c.constant(zero, str(getattr(zero, "dtype", "uint8")))
    c.node(op, c.input(data), s, z)
    assert why in refused(c.model(), tmp_path)


def test_scales_of_products_are_checked_as_well(tmp_path: Path) -> None:
    model, _ = cases("uint8")["QGemm"]
    broken = numpy_helper.from_array(np.zeros(5, np.float32), "c4")
    model.graph.initializer[3].CopyFrom(broken)
    assert "the scale 'c4' holds 0.0" in refused(model, tmp_path)


@pytest.mark.parametrize("kind", ["int4", "uint4"])
@pytest.mark.parametrize("more", ["a product", "none"])
def test_data_of_4_bits_are_bytes_of_which_few_values_are_used(kind, more):
    numbers = {"zero": (np.asarray(1), kind), "whole": (np.arange(32).reshape(8, 4) % 7, "int8")}
    tensors = [
        numpy_helper.from_array(a.astype(getattr(ml_dtypes, t, t)), n)
        for n, (a, t) in numbers.items()
    ]
    scale = numpy_helper.from_array(np.asarray(0.3, np.float32), "scale")
    of = ("scale", "zero")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *of], ["q"]),
        helper.make_node("DequantizeLinear", ["q", *of], ["x4"]),
    ]
    if more == "a product":
        nodes += [
            helper.make_node("DequantizeLinear", ["whole", "scale"], ["w"]),
            helper.make_node("MatMul", ["x4", "w"], ["y"]),
        ]
    else:
        nodes.append(helper.make_node("Relu", ["x4"], ["y"]))
    ends = (("x", [5, 8]), ("y", None))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ends)
    graph = helper.make_graph(nodes, "net", [x], [y], [*tensors, scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {"x": np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32) * 3}
    (want,), net = by_onnx_runtime(model, feed).values(), from_onnx(model)
    (got,) = run_plan(net, feed["x"])
    np.testing.assert_allclose(got, want, rtol=1e-6)
    if more == "a product":
        assert [n.attrs.get("sums") for n in optimize(net).nodes if n.op == "dense"] == ["int32"]


def test_outputs_of_4_bits_are_refused():
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.UINT4)
    ends = (("x", TensorProto.FLOAT), ("y", TensorProto.UINT4))
    x, y = (helper.make_tensor_value_info(n, t, [3]) for n, t in ends)
    scale = numpy_helper.from_array(np.asarray(0.3, np.float32), "s")
    graph = helper.make_graph([node], "net", [x], [y], [scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(NetworkError, match=r"output 'y' is uint4, .* put DequantizeLinear behind"):
        from_onnx(model)


@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
def test_zero_points_of_floats_are_refused(op):
    """They would be cut off."""
    shape = [3, 8] if op == "MatMulInteger" else [1, 2, 5, 5]
    w = np.ones((8, 4) if op == "MatMulInteger" else (3, 2, 3, 3), np.uint8)
    arrays = {"w": w, "zx": np.asarray(3.5, np.float32)}
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, shape)
    y = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    kept = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph([helper.make_node(op, ["x", "w", "zx"], ["y"])], "n", [x], [y], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(NetworkError, match=r"the zero point 'zx' is float32, .* uint8"):
        from_onnx(model)


@pytest.mark.parametrize("data", ["float", "uint8"])
def test_weights_have_scales_of_any_sign_and_more_dimensions_than_one(data):
    """As NNCF writes filters; ONNX Runtime takes neither with all shapes, NumPy decides."""
    rng, x = np.random.default_rng(0), np.arange(72, dtype=np.float32).reshape(1, 2, 6, 6) - 30
    whole = rng.integers(-128, 128, (5, 2, 3, 3)).astype(np.int8)
    scales = np.array([0.1, -0.2, 0.3, -0.4, 0.5], np.float32).reshape(5, 1, 1)
    arrays = {"whole": whole, "scales": scales, "one": np.asarray(1, np.float32)}
    arrays["zero"] = np.asarray(30, np.uint8)
    nodes = [
        helper.make_node("DequantizeLinear", ["whole", "scales"], ["w"], axis=0),
        helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "one", "zero"], ["wide"]),
        helper.make_node("Conv", ["x" if data == "float" else "wide", "w"], ["y"]),
    ]
    ends = (("x", [1, 2, 6, 6]), ("y", None))
    given, made = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ends)
    kept = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", [given], [made], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (got,) = run_plan(from_onnx(model), x)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    want = np.einsum("nchwij,fcij->nfhw", windows, whole * scales[..., None])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)
