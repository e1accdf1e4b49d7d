"""Run a network's plan through the reference evaluator, call by call; and through ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from tilework import te
from tilework.dtypes import numpy_dtype
from tilework.graph import Network, plan
from tilework.graph.declare import declare_nodes
from tilework.graph.unrolled import unrolled
from tilework.target import Target


def run_plan(
    net: Network, *inputs: np.ndarray, dtype: str | None = None, target: Target | None = None
) -> list[np.ndarray]:
    """Outputs of ``net`` by evaluating every call of its plan."""
    p = plan(unrolled(net), target=target)
    values = dict(zip(p.inputs, inputs, strict=True)) | p.constants

    def get(name: str) -> np.ndarray:
        if name in p.views:
            kind = p.values[name]
            return values[p.views[name]].view(numpy_dtype(kind.dtype)).reshape(kind.shape)
        return values[name]

    for call in p.calls:
        args = [get(v) for v in call.inputs]
        (values[call.output],) = te.evaluate(call.dag, args, dtype)
        assert values[call.output].shape == p.values[call.output].shape
    return [get(v) for v in p.outputs]


def run_onnxruntime(path: Path, *inputs: np.ndarray) -> list[np.ndarray]:
    """Outputs of the ONNX file at ``path``."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Largest error relative to the largest element."""
    assert got.shape == want.shape
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))


def run_nodes(net: Network, *inputs: np.ndarray) -> list[np.ndarray]:
    """Outputs of ``net`` with no pass applied, node by node; convolutions must have channels last.

    Constants are passed as inputs, so nothing is folded.
    """
    values = dict(zip(net.inputs, inputs, strict=True)) | dict(net.constants)
    for node in net.nodes:
        args = {v: values[v] for v in node.inputs}
        if node.op == "reshape":
            values[node.name] = args[node.inputs[0]].reshape(node.attrs["shape"])
            continue
        types = {v: net.types[v] for v in args}
        dag, names = declare_nodes([node], types, frozenset(), net.types[node.name].dtype)
        (values[node.name],) = te.evaluate(dag, [args[n] for n in names])
    return [values[v] for v in net.outputs]
