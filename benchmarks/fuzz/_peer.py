"""ONNX Runtime, as the one to compare with; and the same model in double precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

Array = NDArray[Any]

ort.set_default_logger_severity(4)
_FLOAT, _DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
_TYPES = ("to", "dtype", "stash_type")


class PeerError(Exception):
    """ONNX Runtime does not run the model."""


def run_peer(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs of ONNX Runtime on one thread, without its graph optimisations.

    Raises:
        PeerError: it refuses the model, or does not return arrays.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        outputs = session.run(None, dict(inputs))
    except Exception as e:  # its errors have no common base
        raise PeerError(str(e).splitlines()[0][:300]) from e
    if not all(isinstance(o, np.ndarray) for o in outputs):
        raise PeerError("an output is no array")
    return list(outputs)


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float64 in the place of float32."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == _FLOAT:
            value.type.tensor_type.elem_type = _DOUBLE
    for tensor in graph.initializer:
        _widen(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _TYPES and attribute.i == _FLOAT:
                attribute.i = _DOUBLE
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen(attribute.t)
    return wide


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == _FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def run_double(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs in double precision by the evaluator of the ``onnx`` package, written in NumPy."""
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in inputs.items()}
    with np.errstate(all="ignore"):
        return [np.asarray(o) for o in ReferenceEvaluator(in_double(model)).run(None, wide)]


def perturbed(
    model: onnx.ModelProto, inputs: Mapping[str, Array], seed: int, by: float = 3e-6
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model and its inputs with every float32 number moved a little, as rounding does."""
    rng = np.random.default_rng(seed)

    def moved(array: Array) -> Array:
        if array.dtype != np.float32:
            return array
        return (array * (1 + by * rng.uniform(-1, 1, array.shape))).astype(np.float32)

    other = onnx.ModelProto()
    other.CopyFrom(model)
    for tensor in other.graph.initializer:
        if tensor.data_type == _FLOAT:
            array = moved(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return other, {n: moved(a) for n, a in inputs.items()}
