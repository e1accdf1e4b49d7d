"""Many uses of operators in one ONNX model, compiled once and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import tilework as tw
from tests.graph.run_plan import run_plan
from tilework.graph import from_onnx

TARGET = "llvm -mcpu=native"


class Cases:
    """Nodes that read arrays of their own; every node's output is an output of the model."""

    def __init__(self, opset: int = 17) -> None:
        self.opset = opset
        self.inputs: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.outputs: list[str] = []
        self.constants: list[onnx.TensorProto] = []

    def input(self, array: np.ndarray) -> str:
        """An array known when the network runs."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(array)
        return name

    def constant(self, array: Any, dtype: str = "float32") -> str:
        """An array known at import."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> str:
        """Append a node; returns its first output."""
        names = [f"y{len(self.outputs) + i}_{op}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        self.outputs += names
        return names[0]

    def model(self) -> onnx.ModelProto:
        """The model, with its inputs typed by their arrays."""
        kind = helper.np_dtype_to_tensor_dtype
        infos = [
            helper.make_tensor_value_info(n, kind(a.dtype), a.shape)
            for n, a in self.inputs.items()
        ]
        outs = [onnx.ValueInfoProto(name=n) for n in self.outputs]
        graph = helper.make_graph(self.nodes, "cases", infos, outs, self.constants)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def check(
        self, tmp_path: Path, *, rtol: float = 1e-5, export: bool = True, reference: bool = True
    ) -> None:
        """Compare the compiled network, the reference evaluator and the exported file.

        Args:
            tmp_path: where to write the model.
            rtol: allowed difference from ONNX Runtime, relative to the largest finite element.
            export: whether to write the network as a file again and compare that as well.
            reference: whether to run the plan through `te.evaluate`, too.
        """
        path = tmp_path / "cases.onnx"
        onnx.save(self.model(), path)
        want = run(path, self.inputs)
        net = from_onnx(path)
        module = tw.compile(net, TARGET)
        arrays = [self.inputs[n] for n in net.inputs]
        self._compare(
            "compiled", module.run(dict(zip(net.inputs, arrays, strict=True))), want, rtol
        )
        if reference:
            self._compare("evaluated", run_plan(net, *arrays), want, rtol)
        if export:
            again = tmp_path / "again.onnx"
            net.to_onnx(again)
            self._compare("exported", run(again, self.inputs), want, rtol)

    def _compare(
        self, how: str, got: Sequence[np.ndarray], want: Sequence[np.ndarray], rtol: float
    ) -> None:
        for name, g, w in zip(self.outputs, got, want, strict=True):
            where = f"{name} {how}"
            assert (g.shape, g.dtype) == (w.shape, w.dtype), where
            if w.dtype.kind != "f":
                np.testing.assert_array_equal(g, w, where)
                continue
            finite = np.isfinite(w)
            np.testing.assert_array_equal(np.where(finite, 0, g), np.where(finite, 0, w), where)
            scale = float(np.abs(w[finite]).max(initial=1e-30))
            limit = max(rtol, 2e-3 if w.dtype == np.float16 else 0.0) * scale
            np.testing.assert_allclose(g[finite], w[finite], rtol=0, atol=limit, err_msg=where)


def run(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of an ONNX file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: inputs[i.name] for i in session.get_inputs()})
