"""ONNX Runtime's quantiser: from a network of float32 and samples to one of 8 or 4 bits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tasks.samples import Sample
from tasks.weights_quantiser import WeightsOnly, pack_weights
from tilework.errors import ModuleError, NetworkError

Scheme = Literal["static", "dynamic"]
Method = Literal["minmax", "entropy", "percentile"]

_QUANTISED = ("QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "QGemm")
"""Operators of 8 bits; names of others have QLinear in them."""
_OLDEST_OPSET = 13  # the first with a scale for each channel
_BEYOND_DATA = 1e6
"""A scale of numbers of 8 bits: masks hold 1e9 and more, activations of large models thousands."""
_LARGE = 1_900_000_000  # bytes: what one file of ONNX may hold, less a tenth of a GB


@dataclass(frozen=True)
class QuantiseRequest:
    """What is quantised, and how.

    Attributes:
        network: a built-in network's name, or an ONNX file.
        output: the ONNX file to write.
        calibrate: an .npz file of samples; empty for random ones.
        scheme: ``static``: the ranges of data are those seen on the samples. ``dynamic``: they
            are computed in each run, and only matrix products with constant weights change.
        method: how ranges follow from what was seen.
        keep: names of nodes that stay in float32.
        batch, layout: of a built-in network.
        shapes: of random samples, see `tasks.network.parse_shapes`; the file keeps its symbols.
        weights: packs weights of matrix products alone, whose data stay float; `scheme` and
            `method` mean nothing then, and samples only show what was lost.
        reduce_range: weights of 8 bits use 7 of them: for CPUs that add two products in 16 bits.
    """

    network: str
    output: str
    calibrate: str = ""
    scheme: Scheme = "static"
    method: Method = "minmax"
    keep: tuple[str, ...] = ()
    batch: int = 1
    layout: str = "NHWC"
    shapes: tuple[str, ...] = ()
    weights: WeightsOnly | None = None
    reduce_range: bool = False


def write_quantised(
    request: QuantiseRequest, source: Path, output: Path, samples: Sequence[Sample], folder: Path
) -> None:
    """Let ONNX Runtime's quantiser write the file ``output``, alone in its folder."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = folder / "prepared.onnx"
    large = model_bytes(source) > _LARGE
    with refusals(f"{request.network}: ONNX Runtime's quantiser refuses it"), _silent():
        _check_source(request, source)
        quant_pre_process(
            _recent(source, folder),
            prepared,
            skip_symbolic_shape=True,
            skip_optimization=large,
            save_as_external_data=large,
        )
        _name_nodes(prepared)
        kept = list(request.keep)
        if request.weights is not None:
            pack_weights(prepared, output, request.weights, kept, large)
            return
        if request.scheme == "dynamic":
            quantization.quantize_dynamic(
                prepared,
                output,
                op_types_to_quantize=["MatMul", "Gemm"],
                per_channel=True,
                reduce_range=request.reduce_range,
                weight_type=quantization.QuantType.QInt8,
                nodes_to_exclude=kept,
                use_external_data_format=large,
            )
            return
        _quantise_static(request, prepared, output, samples, large)


def _quantise_static(
    request: QuantiseRequest,
    prepared: Path,
    output: Path,
    samples: Sequence[Sample],
    large: bool,
) -> None:
    """With ranges as the samples show them.

    What computes or reads a mask's minus infinity, or what stands for it, stays in float: in 8
    bits all else beside it would be 0, and a scale of infinity makes NaN of everything.
    """
    from onnxruntime import quantization

    methods = {
        "minmax": quantization.CalibrationMethod.MinMax,
        "entropy": quantization.CalibrationMethod.Entropy,
        "percentile": quantization.CalibrationMethod.Percentile,
    }
    kept = list(request.keep)
    while True:
        quantization.quantize_static(
            prepared,
            output,
            _reader(samples),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            reduce_range=request.reduce_range,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=kept,
            use_external_data_format=large,
            calibrate_method=methods[request.method],
        )
        more = [name for name in _around_masks(prepared, output) if name not in kept]
        if not more:
            return
        kept += more
        for file in output.parent.iterdir():
            file.unlink()


def _around_masks(prepared: Path, output: Path) -> list[str]:
    """The nodes that compute or read what was quantised by a scale beyond all data."""
    import onnx
    from onnx import numpy_helper

    made = onnx.load(output, load_external_data=False).graph
    scales = {n.input[1] for n in made.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")}
    beyond = {
        t.name
        for t in made.initializer
        if t.name in scales and not (numpy_helper.to_array(t) < _BEYOND_DATA).all()
    }
    values = {
        n.input[0].removesuffix("_quantized")  # of a constant
        for n in made.node
        if len(n.input) > 1 and n.input[1] in beyond
    }
    nodes = onnx.load(prepared, load_external_data=False).graph.node
    return [n.name for n in nodes if not values.isdisjoint((*n.input, *n.output))]


def _name_nodes(path: Path) -> None:
    """Name the nodes of a file that have no name: the quantiser leaves nodes out by name."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    unnamed = [node for node in model.graph.node if not node.name]
    for node in unnamed:
        node.name = next(filter(None, node.output))
    if unnamed:
        onnx.save(model, path)


def _reader(samples: Sequence[Sample]) -> Any:
    """Samples as the quantiser takes them."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> Sample | None:
            return next(self._left, None)

    return Reader()


def _recent(source: Path, folder: Path) -> Path:
    """The model in a version of ONNX's operators that has a scale for each channel."""
    import onnx
    from onnx import version_converter

    model = onnx.load(source, load_external_data=False)
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version >= _OLDEST_OPSET:
        return source
    path = folder / "recent.onnx"
    onnx.save(version_converter.convert_version(onnx.load(source), _OLDEST_OPSET), path)
    return path


def _check_source(request: QuantiseRequest, source: Path) -> None:
    """Complain of nodes to keep that there are not, and of a file that has 8 bits already."""
    import onnx

    nodes = onnx.load(source, load_external_data=False).graph.node
    names = {node.name for node in nodes}
    unknown = [name for name in request.keep if name not in names]
    if unknown:
        raise NetworkError(
            f"--keep {unknown[0]}: {request.network} has no node of this name; "
            "netron or onnx.load show them"
        )
    narrow = [n.op_type for n in nodes if n.op_type in _QUANTISED or "QLinear" in n.op_type]
    if narrow and request.weights is None:
        raise NetworkError(
            f"{request.network} is quantised already ({narrow[0]}): open it as it is, without "
            "--precision"
        )


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Whatever another package raises, as one line."""
    try:
        yield
    except (NetworkError, ModuleError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise NetworkError(f"{what}: {said or type(error).__name__}") from error


@contextmanager
def _silent() -> Iterator[None]:
    """Without the quantiser's advice on the log, and NumPy's on what masks hold."""
    log = logging.getLogger()
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        log.setLevel(before)


def model_bytes(path: Path) -> int:
    """Of a model, with the files beside it that it names."""
    import onnx
    from onnx.external_data_helper import uses_external_data

    model = onnx.load(path, load_external_data=False)
    beside = {
        entry.value
        for tensor in model.graph.initializer
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    files = [path, *(path.parent / name for name in beside)]
    return sum(file.stat().st_size for file in files if file.is_file())
