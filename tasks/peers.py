"""Other inference engines, behind one small interface, for comparison in the same process."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tilework.errors import TileworkError

if TYPE_CHECKING:
    import numpy as np

PEERS = ("onnxruntime", "openvino")
Shapes = Mapping[str, tuple[int, ...]]
"""Of inputs, by name."""


class Engine(Protocol):
    """Something that runs one network on a fixed number of threads."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs of the network, in its order."""

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
        """A run on these arrays, to be repeated, by the cheapest way that the engine offers."""


@dataclass(frozen=True, eq=False)
class Peer:
    """Another engine with a network loaded; ``name`` has its version, for tables.

    ``bind`` keeps inputs and outputs in fixed arrays, so that a call of what it returns copies
    nothing that the engine can avoid.
    """

    name: str
    run: Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
    bind: Callable[[Mapping[str, np.ndarray]], Callable[[], object]]


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


def load_peer(
    engine: str,
    path: str,
    threads: int,
    precision: str = "f32",
    shapes: Shapes | None = None,
    exact: bool = False,
) -> Peer:
    """Load an ONNX file into ``engine``, tuned for the latency of single requests.

    Args:
        engine: one of `PEERS`.
        path: the ONNX file.
        threads: that it may use.
        precision: ``"bf16"`` and ``"f16"`` have OpenVINO compute so; ONNX Runtime stays in
            float32, as its name then says.
        shapes: of the inputs, for a file that leaves some open; each engine makes of it what it
            makes of a file of these shapes.
        exact: sums of bytes are whole; on CPUs without VNNI, ONNX Runtime saturates those of pairs
            else, which is faster.

    Raises:
        TileworkError: the engine is unknown, not installed, or refuses the file.
    """
    require_peers([engine])
    try:
        return _LOADERS[engine](path, threads, precision, shapes or {}, exact)
    except Exception as e:  # each has its own kinds of errors
        from tilework.graph.onnx.messages import one_line

        raise TileworkError(f"{engine} does not open '{path}': {one_line(e)}") from e


def _onnxruntime(path: str, threads: int, precision: str, shapes: Shapes, exact: bool) -> Peer:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if exact:
        options.log_severity_level = 4
    for symbol, extent in _symbols(path, shapes).items():
        options.add_free_dimension_override_by_name(symbol, extent)

    def opened() -> Any:
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    session = _of_whole_sums(opened, options) if exact else opened()

    def bound(inputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
        binding = session.io_binding()
        values = {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in inputs.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for out in session.get_outputs():
            binding.bind_output(out.name)
        session.run_with_iobinding(binding)
        outputs = binding.get_outputs()
        for out, value in zip(session.get_outputs(), outputs, strict=True):
            binding.bind_ortvalue_output(out.name, value)  # the same memory at every call
        return lambda: session.run_with_iobinding(binding)

    name = f"onnxruntime {ort.__version__}" + " f32" * (precision != "f32")
    return Peer(name, lambda x: session.run(None, dict(x)), bound)


def _of_whole_sums(opened: Callable[[], Any], options: Any) -> Any:
    """A session that does not saturate sums of bytes.

    The mode for it ONNX Runtime refuses where products share weights or zero points, as those of
    Brevitas do; without any fusion it computes them in float32.
    """
    key = "session.x64quantprecision"
    options.add_session_config_entry(key, "1")
    try:
        return opened()
    except Exception:  # of a kind of its own
        options.add_session_config_entry(key, "0")
        options.graph_optimization_level = type(options.graph_optimization_level).ORT_DISABLE_ALL
        return opened()


def _symbols(path: str, shapes: Shapes) -> dict[str, int]:
    """Values of the names that inputs' dimensions have in a file."""
    import onnx

    inputs = onnx.load(path, load_external_data=False).graph.input if shapes else ()
    return {
        dim.dim_param: extent
        for x in inputs
        if x.name in shapes
        for dim, extent in zip(x.type.tensor_type.shape.dim, shapes[x.name], strict=False)
        if dim.dim_param
    }


def _openvino(path: str, threads: int, precision: str, shapes: Shapes, _: bool) -> Peer:
    import openvino as ov

    hint = "f32" if precision == "tf32" else precision  # CPUs have no such factors
    core = ov.Core()
    model = core.read_model(path)
    if shapes:
        model.reshape({x: shapes[x.any_name] for x in model.inputs})
    compiled = core.compile_model(
        model,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": hint,
        },
    )
    request = compiled.create_infer_request()

    def call(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        request.infer(dict(inputs), share_inputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    def bound(inputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
        own = compiled.create_infer_request()
        for name, array in inputs.items():
            own.set_tensor(name, ov.Tensor(array, shared_memory=True))
        return lambda: own.infer(share_outputs=True)

    name = f"openvino {ov.__version__.split('-')[0]}"
    return Peer(name + f" {hint}" * (precision != "f32"), call, bound)


_LOADERS = {"onnxruntime": _onnxruntime, "openvino": _openvino}
