"""Other inference engines, behind one small interface, for comparison in the same process."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tilework.errors import TileworkError

if TYPE_CHECKING:
    import numpy as np

PEERS = ("onnxruntime", "openvino")


class Engine(Protocol):
    """Something that runs one network on a fixed number of threads."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs of the network, in its order."""


@dataclass(frozen=True, eq=False)
class Peer:
    """Another engine with a network loaded; ``name`` has its version, for tables."""

    name: str
    call: Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """See `Engine.run`."""
        return self.call(inputs)


def require_peers(engines: Sequence[str]) -> None:
    """Fail early if an engine is unknown or not installed.

    Raises:
        TileworkError: naming the engine and what to do.
    """
    for engine in engines:
        if engine not in _LOADERS:
            raise TileworkError(f"unknown engine '{engine}'; known: {', '.join(PEERS)}")
        if importlib.util.find_spec(engine) is None:
            raise TileworkError(f"{engine} is not installed: pip install {engine}")


def load_peer(engine: str, path: str, threads: int) -> Peer:
    """Load an ONNX file into ``engine``, float32, tuned for the latency of single requests.

    Raises:
        TileworkError: the engine is unknown or not installed.
    """
    require_peers([engine])
    return _LOADERS[engine](path, threads)


def _onnxruntime(path: str, threads: int) -> Peer:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Peer(f"onnxruntime {ort.__version__}", lambda x: session.run(None, dict(x)))


def _openvino(path: str, threads: int) -> Peer:
    import openvino as ov

    compiled = ov.Core().compile_model(
        path,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        },
    )
    request = compiled.create_infer_request()

    def call(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        request.infer(dict(inputs), share_inputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return Peer(f"openvino {ov.__version__.split('-')[0]}", call)


_LOADERS = {"onnxruntime": _onnxruntime, "openvino": _openvino}
