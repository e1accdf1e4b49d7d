"""Rows of tables of few bits, as ONNX Runtime's tools write embeddings; held to its CPU kernel."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.cut_models import whole
from tests.graph.run_plan import run_plan
from tilework.errors import NetworkError
from tilework.graph import from_onnx

_RANGES = {"int4": (-8, 8), "uint4": (0, 16), "uint8": (0, 256)}
_BLOCK = 16


def model(
    dtype: str,
    zeros: bool,
    scale: str = "float32",
    size: int = 40,
    bits: int = 4,
    axis: int = 1,
    along_blocks: bool = False,
) -> onnx.ModelProto:
    """``size`` numbers in each of ten rows, or columns; taken across blocks, or along them."""
    r, blocks = np.random.default_rng(0), -(-size // _BLOCK)
    per = 8 // bits if dtype == "uint8" else 1

    def numbers(count: int) -> np.ndarray:
        array = r.integers(*_RANGES[dtype], (10, -(-count // per)))
        array = array.astype(getattr(ml_dtypes, dtype, dtype))
        return array if axis else array.T

    scales = r.uniform(0.1, 1, (10, blocks)).astype(scale)
    arrays = {"data": numbers(size), "scales": scales if axis else scales.T}
    arrays |= {"zeros": numbers(blocks)} if zeros else {}
    given = ["data", "indices", *list(arrays)[1:]]
    about = {"block_size": _BLOCK, "quantize_axis": axis, "bits": bits}
    about["gather_axis"] = axis if along_blocks else 1 - axis
    node = helper.make_node("GatherBlockQuantized", given, ["y"], domain="com.microsoft", **about)
    kind = TensorProto.FLOAT if scale == "float32" else TensorProto.FLOAT16
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("indices", TensorProto.INT64, [2, 3])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("dtype", "more"),
    [
        ("uint8", {}),
        ("uint8", {"bits": 8, "scale": "float16"}),
        ("int4", {"size": 48}),
        ("uint4", {"scale": "float16"}),
        ("int4", {"axis": 0}),
        ("int4", {"axis": 0, "along_blocks": True}),
        ("uint4", {"axis": 1, "along_blocks": True}),
    ],
)
def test_rows_of_few_bits(dtype: str, more: dict[str, Any], zeros: bool) -> None:
    m = model(dtype, zeros, **more)
    indices = np.array([[0, 3, 9], [-1, 5, 5]])
    (want,) = whole(m, {"indices": indices})
    (got,) = run_plan(from_onnx(m), indices)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_scales_that_do_not_fit() -> None:
    m = model("int4", False)
    next(a for a in m.graph.node[0].attribute if a.name == "block_size").i = 32
    with pytest.raises(NetworkError, match=r"scales \[10, 3\] for a table \[10, 40\]"):
        from_onnx(m)
