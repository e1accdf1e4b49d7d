"""A plan with symbols at one point: evaluated call by call, and beside the plan of that point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime

from tilework import te
from tilework.graph import Network, Plan, from_onnx, plan
from tilework.index.extents import shape_at
from tilework.index.symbols import Symbol
from tilework.te.points import at_point

Ranges = Mapping[str, str]


def point_of(net: Network, values: Mapping[str, int]) -> dict[Symbol, int]:
    """Values of a network's symbols, by name."""
    return {s: values[s.name] for s in net.symbols}


def run_at(p: Plan, at: Mapping[Symbol, int], *inputs: np.ndarray) -> list[np.ndarray]:
    """Outputs of a plan at a point, by evaluating every call."""
    values = dict(zip(p.inputs, inputs, strict=True)) | p.constants

    def get(name: str) -> np.ndarray:
        array = values[p.views.get(name, name)]
        return array.reshape(shape_at(p.values[name].shape, at))

    for call in p.calls:
        (out,) = te.evaluate(at_point(call.dag, at), [get(v) for v in call.inputs])
        assert out.shape == shape_at(p.values[call.output].shape, at)
        values[call.output] = out
    return [get(v) for v in p.outputs]


def keys_at(p: Plan, at: Mapping[Symbol, int]) -> list[str]:
    """The workload keys of a plan's calls at a point."""
    return [at_point(c.dag, at).workload_key for c in p.calls]


def feeds_at(net: Network, at: Mapping[Symbol, int], high: int = 40) -> list[np.ndarray]:
    """Random inputs of a network at a point; integers are from 0 to ``high``."""
    rng = np.random.default_rng(7)
    arrays = []
    for kind in net.inputs.values():
        shape = shape_at(kind.shape, at)
        if kind.dtype.startswith("float"):
            arrays.append(rng.standard_normal(shape).astype(kind.dtype))
        else:
            arrays.append(rng.integers(0, high, shape).astype(kind.dtype))
    return arrays


def reference(path: Path, net: Network, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs of the file by ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(net.inputs, feeds, strict=True)))


def check(path: Path, ranges: Ranges, points: list[dict[str, int]], high: int = 40) -> Plan:
    """Check the plan of a file with symbols at some points against ONNX Runtime.

    Returns:
        The plan.
    """
    net = from_onnx(path, ranges)
    p = plan(net)
    for values in points:
        at = point_of(net, values)
        feeds = feeds_at(net, at, high)
        for got, want in zip(run_at(p, at, *feeds), reference(path, net, feeds), strict=True):
            assert got.shape == want.shape, (values, got.shape, want.shape)
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=str(values))
            else:
                np.testing.assert_array_equal(got, want, err_msg=str(values))
    return p


def static_plan(path: Path, net: Network, values: Mapping[str, int]) -> Plan:
    """The plan of the file at a point, imported for it."""
    at = point_of(net, values)
    return plan(from_onnx(path, {n: shape_at(t.shape, at) for n, t in net.inputs.items()}))
