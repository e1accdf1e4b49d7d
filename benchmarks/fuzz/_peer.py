"""ONNX Runtime, as the one to compare with; and the same model in double precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

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


def run_evaluator(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs by the evaluator of the ``onnx`` package, in the model's own types.

    Raises:
        PeerError: it does not run the model.
    """
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(o) for o in _evaluator(model).run(None, dict(inputs))]
    except Exception as e:
        raise PeerError(str(e).splitlines()[0][:300] if str(e) else type(e).__name__) from e


class _Borrowed(OpRun):
    """An operator that the evaluator does not know, run alone by ONNX Runtime in float32."""

    def _run(self, *inputs: Array | None, **_: Any) -> tuple[Array, ...]:
        node = self.onnx_node
        pairs = zip(node.input, inputs, strict=True)
        given = {name: array for name, array in pairs if array is not None}
        double = any(a.dtype == np.float64 for a in given.values())
        if double:
            given = {n: a.astype(_narrow(a.dtype)) for n, a in given.items()}
        graph = helper.make_graph(
            [node],
            "borrowed",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in given.items()
            ],
            [onnx.ValueInfoProto(name=n) for n in node.output],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(node.domain, 1)]
        found = run_peer(helper.make_model(graph, opset_imports=opsets, ir_version=8), given)
        wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in found]
        return tuple(wide if double else found)


def _narrow(kind: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if kind == np.float64 else kind


def _evaluator(model: onnx.ModelProto) -> ReferenceEvaluator:
    used = sorted({(n.domain, n.op_type) for n in model.graph.node if n.domain})
    return ReferenceEvaluator(
        model, new_ops=[type(name, (_Borrowed,), {"op_domain": domain}) for domain, name in used]
    )


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float64 in the place of float32."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == _FLOAT:
            value.type.tensor_type.elem_type = _DOUBLE
    kept = _scales(model)
    for tensor in graph.initializer:
        if tensor.name not in kept:
            _widen(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _TYPES and attribute.i == _FLOAT:
                attribute.i = _DOUBLE
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen(attribute.t)
    return wide


def _scales(model: onnx.ModelProto) -> set[str]:
    """Constants that decide shapes: always float32, and exact."""
    nodes = [n for n in model.graph.node if n.op_type in ("Resize", "Upsample")]
    return {name for n in nodes for name in n.input[1:]}


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == _FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def run_double(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs in double precision by the evaluator of the ``onnx`` package, written in NumPy."""
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in inputs.items()}
    with np.errstate(all="ignore"):
        return [np.asarray(o) for o in _evaluator(in_double(model)).run(None, wide)]


NOISE = {"float32": 5e-7, "float16": 1e-3, "bfloat16": 8e-3}
"""Relative errors that a value of such a type may have from rounding, a few of its last places."""


def perturbed(
    model: onnx.ModelProto, inputs: Mapping[str, Array], within: Mapping[str, Array], seed: int
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model with a little noise on every value, as rounding leaves it; and its inputs.

    Args:
        within: all values of the model by name, for their types and shapes.
    """
    rng = np.random.default_rng(seed)

    def noise(array: Array) -> Array:
        by = NOISE[array.dtype.name]
        return np.asarray(1 + by * rng.uniform(-1, 1, array.shape), array.dtype)

    other = onnx.ModelProto()
    other.CopyFrom(model)
    graph = other.graph
    kept = _scales(model)
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.name in NOISE and tensor.name not in kept:
            tensor.CopyFrom(numpy_helper.from_array(array * noise(array), tensor.name))
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        graph.node.append(node)
        mine = graph.node[-1]
        for i, name in enumerate(node.output):
            if name in within and within[name].dtype.name in NOISE and node.op_type != "Constant":
                mine.output[i] = f"{name}/exact"
                factor = numpy_helper.from_array(noise(within[name]), f"{name}/noise")
                graph.initializer.append(factor)
                graph.node.append(
                    helper.make_node("Mul", [f"{name}/exact", f"{name}/noise"], [name])
                )
    moved = {n: a * noise(a) if a.dtype.name in NOISE else a for n, a in inputs.items()}
    return other, moved
