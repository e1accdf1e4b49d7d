"""Models of one node of ONNX Runtime's own operators, run there and here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.graph.run_plan import run_plan
from tilework.graph import from_onnx

Arrays = Mapping[str, np.ndarray]


def one_node(
    op: str,
    inputs: Sequence[tuple[str, np.ndarray] | None],
    outputs: Sequence[str],
    constants: Sequence[str] = (),
    domain: str = "com.microsoft",
    **attrs: object,
) -> onnx.ModelProto:
    """The model; inputs are in their places (None: left out), outputs may be empty names."""
    names = [i[0] if i else "" for i in inputs]
    node = helper.make_node(op, names, list(outputs), name="node", domain=domain, **attrs)
    given = dict(i for i in inputs if i)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in given.items()
        if n not in constants
    ]
    weights = [numpy_helper.from_array(given[n], n) for n in constants]
    results = [onnx.ValueInfoProto(name=n) for n in outputs if n]
    for r in results:
        if r.name == "qk":  # ONNX Runtime wants its type declared
            r.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph([node], "g", infos, results, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run_runtime(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """The model's outputs by ONNX Runtime, which runs its nodes as they are."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {i.name: inputs[i.name] for i in session.get_inputs()})


def run_here(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """The model's outputs by its plan."""
    net = from_onnx(model, shapes={i.name: inputs[i.name].shape for i in model.graph.input})
    return run_plan(net, *(inputs[n] for n in net.inputs))


def check(
    op: str,
    inputs: Sequence[tuple[str, np.ndarray] | None],
    outputs: Sequence[str] = ("y",),
    constants: Sequence[str] = (),
    tolerance: float = 2e-6,
    **attrs: object,
) -> None:
    """Compare all outputs of one node; errors are relative to the largest element."""
    model = one_node(op, inputs, outputs, constants, **attrs)
    given = dict(i for i in inputs if i)
    compare(run_here(model, given), run_runtime(model, given), tolerance)


def compare(
    got: Sequence[np.ndarray], want: Sequence[np.ndarray], tolerance: float = 2e-6
) -> None:
    """Compare results; errors are relative to the largest element."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        error = np.abs(g.astype(np.float64) - w).max() / max(np.abs(w).max(), 1e-30)
        assert error < tolerance, f"{error:.1e}"
