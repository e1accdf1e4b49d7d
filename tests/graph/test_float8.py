"""Numbers of 8 bits with an exponent: rounded as ONNX Runtime and ml_dtypes round them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.quantized_models import by_onnx_runtime
from tests.graph.run_plan import run_plan
from tilework.errors import NetworkError
from tilework.graph import from_onnx
from tilework.graph.onnx.convert.float8 import FLOAT8

Array = np.ndarray


def model(kind: str, size: int, scale: Array, zero: float = 0.0, **attrs: int) -> onnx.ModelProto:
    """Numbers that are quantised and dequantised."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], **attrs),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    zeros = np.full(scale.shape, zero).astype(getattr(ml_dtypes, kind))
    kept = [numpy_helper.from_array(a, n) for n, a in (("scale", scale), ("zero", zeros))]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size]) for n in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("kind", FLOAT8)
def test_numbers_are_rounded_to_the_nearest(kind):
    """All numbers of the type, what is in the middle between two, beside that, and beyond all."""
    of = np.dtype(getattr(ml_dtypes, kind))
    every = np.arange(256, dtype=np.uint8).view(of).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    middle = (every[1:] + every[:-1]) / 2
    beside = [np.nextafter(middle, to) for to in np.float32([-np.inf, np.inf])]
    odd = np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30, -0.0])
    x = np.concatenate([every, middle, *beside, odd]).astype(np.float32)
    made = model(kind, x.size, np.asarray(1.0, np.float32))
    (got,) = run_plan(from_onnx(made), x)
    most = float(ml_dtypes.finfo(of).max)
    np.testing.assert_array_equal(got, x.clip(-most, most).astype(of).astype(np.float32))
    (want,) = by_onnx_runtime(made, {"x": x}).values()
    np.testing.assert_array_equal(got, want)


def test_scales_are_divided_by_and_multiplied_with():
    x = np.random.default_rng(0).standard_normal(400).astype(np.float32) * 100
    made = model("float8_e4m3fn", x.size, np.asarray(0.3, np.float32))
    (got,), (want,) = run_plan(from_onnx(made), x), by_onnx_runtime(made, {"x": x}).values()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("more", "why"),
    [({"saturate": 0}, "saturate = 0 are not supported"), ({"zero": 1.0}, "float8_e5m2 is not 0")],
)
def test_what_is_refused(more, why):
    with pytest.raises(NetworkError, match=why):
        from_onnx(model("float8_e5m2", 3, np.asarray(1.0, np.float32), **more))
