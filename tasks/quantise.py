"""Make a network of 8 bits from one of float32, and measure what it lost.

ONNX Runtime's quantiser does the work. What its numbers mean, and that ours are the same, is said
in docs/quantised.md.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tasks.engines import points_of, random_inputs
from tasks.network import is_onnx, load_network, write_onnx
from tasks.report import Loss
from tasks.samples import Sample, ends_of, read_samples
from tilework.errors import NetworkError
from tilework.runtime.other import engine

Scheme = Literal["static", "dynamic"]
Method = Literal["minmax", "entropy", "percentile"]

RANDOM_SAMPLES = 8
_OLDEST_OPSET = 13  # the first with a scale for each channel
_MOST_SHAPES = 4
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


@dataclass(frozen=True)
class Quantised:
    """What came of it.

    Attributes:
        output: the file.
        samples: how many the ranges are from.
        random: whether nobody gave them.
        before, after: bytes of both models.
        narrow, products: convolutions and matrix products in 8 bits, and all.
        loss: between ONNX Runtime in float32 and us in 8 bits.
    """

    output: str
    samples: int
    random: bool
    before: int
    after: int
    narrow: int
    products: int
    loss: Loss


def quantise(request: QuantiseRequest) -> Quantised:
    """Quantise a network, write it, and compare both on the samples.

    Raises:
        NetworkError: there is no such network; the samples do not fit it; the quantiser refuses
            it; or it cannot be written.
        ModuleError: ONNX Runtime is not installed.
    """
    runtime = engine()
    place = Path(request.output)
    if place.suffix != ".onnx":
        raise NetworkError(f"{request.output}: a quantised network is written as an .onnx file")
    if not place.parent.is_dir():
        raise NetworkError(f"{request.output}: there is no folder '{place.parent}'")
    with _beside(place) as folder:
        source = _source(request, folder)
        peer = _quiet_session(runtime, source)
        samples = _samples(request, peer)
        made = folder / "made" / place.name
        made.parent.mkdir()
        _quantised(request, source, made, samples, folder)
        compared = _compared(samples)
        loss = _loss(peer, made, compared, request.shapes)
        sizes = (_bytes(source), _bytes(made))
        narrow, products = _products(made)
        _moved(made.parent, place)
    random = not request.calibrate
    return Quantised(str(place), len(samples), random, *sizes, narrow, products, loss)


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """A folder on the disk of the file to write, which goes away.

    Raises:
        NetworkError: nothing can be written there.
    """
    try:
        folder = tempfile.TemporaryDirectory(dir=place.parent, prefix=".quantise-")
    except OSError as e:
        raise NetworkError(f"cannot write '{place}': {e.strerror or e}") from e
    with folder as path:
        yield Path(path)


def _source(request: QuantiseRequest, folder: Path) -> Path:
    """The network in float32 as a file."""
    if is_onnx(request.network):
        if not Path(request.network).is_file():
            raise NetworkError(f"{request.network}: there is no such file")
        return Path(request.network)
    from tilework.graph import zoo
    from tilework.graph.passes import optimize

    path = folder / "float.onnx"
    net = zoo.get(request.network, request.batch, request.layout)
    write_onnx(optimize(net), str(path))  # batch normalisations are in the weights by then
    return path


def _samples(request: QuantiseRequest, peer: Any) -> list[Sample]:
    if request.calibrate:
        return read_samples(request.calibrate, ends_of(peer))
    net = load_network(request.network, request.batch, request.layout, request.shapes)
    points = points_of(net)
    return [
        random_inputs(net, seed, points[seed % len(points)] or None)
        for seed in range(RANDOM_SAMPLES)
    ]


def _quiet_session(runtime: Any, path: Path) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    with _refusals(f"{path}: ONNX Runtime does not open it"):
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


# --- the quantiser -------------------------------------------------------------------------------


def _quantised(
    request: QuantiseRequest, source: Path, made: Path, samples: Sequence[Sample], folder: Path
) -> None:
    """Let ONNX Runtime's quantiser write the file ``made``."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = folder / "prepared.onnx"
    large = _bytes(source) > _LARGE
    with _refusals(f"{request.network}: ONNX Runtime's quantiser refuses it"), _silent():
        _check_kept(request, source)
        quant_pre_process(
            _recent(source, folder),
            prepared,
            skip_symbolic_shape=True,
            skip_optimization=large,
            save_as_external_data=large,
        )
        kept = list(request.keep)
        if request.scheme == "dynamic":
            quantization.quantize_dynamic(
                prepared,
                made,
                op_types_to_quantize=["MatMul", "Gemm"],
                per_channel=True,
                weight_type=quantization.QuantType.QInt8,
                nodes_to_exclude=kept,
                use_external_data_format=large,
            )
            return
        methods = {
            "minmax": quantization.CalibrationMethod.MinMax,
            "entropy": quantization.CalibrationMethod.Entropy,
            "percentile": quantization.CalibrationMethod.Percentile,
        }
        quantization.quantize_static(
            prepared,
            made,
            _reader(samples),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=kept,
            use_external_data_format=large,
            calibrate_method=methods[request.method],
        )


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


def _check_kept(request: QuantiseRequest, source: Path) -> None:
    import onnx

    names = {node.name for node in onnx.load(source, load_external_data=False).graph.node}
    unknown = [name for name in request.keep if name not in names]
    if unknown:
        raise NetworkError(
            f"--keep {unknown[0]}: {request.network} has no node of this name; "
            "netron or onnx.load show them"
        )


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Whatever another package raises, as one line."""
    try:
        yield
    except NetworkError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise NetworkError(f"{what}: {said or type(error).__name__}") from error


@contextmanager
def _silent() -> Iterator[None]:
    """Without the quantiser's advice on the log."""
    log = logging.getLogger()
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


# --- what it lost, and what it won ---------------------------------------------------------------


def _compared(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the first few shapes: each other one would have to be compiled for."""
    shapes: dict[Any, list[Sample]] = {}
    for sample in samples:
        shapes.setdefault(tuple(array.shape for array in sample.values()), []).append(sample)
    return [sample for each in list(shapes.values())[:_MOST_SHAPES] for sample in each]


def _loss(peer: Any, made: Path, samples: Sequence[Sample], shapes: Sequence[str]) -> Loss:
    """Both networks on the samples: in float32 by ONNX Runtime, in 8 bits by us."""
    from tilework.session import Session

    ranges = dict(text.split("=", 1) for text in shapes if ".." in text)
    ours = Session(made, cache=False, shapes=ranges or None)
    with _refusals("ONNX Runtime does not run a sample in float32"):
        expected = [peer.run(None, sample) for sample in samples]
    found = [ours.run(None, sample) for sample in samples]
    return loss_of(list(zip(found, expected, strict=True)))


def loss_of(pairs: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> Loss:
    """The loss of outputs, each beside what was expected of it."""
    largest = mean = 0.0
    agreeing = classified = 0
    outputs = zip(*[list(zip(*pair, strict=True)) for pair in pairs], strict=True)
    for each in outputs:
        each = [(a, b) for a, b in each if getattr(b, "size", 0) and b.dtype.kind == "f"]
        if not each:
            continue
        scale = max(max(float(np.abs(b).max()) for _, b in each), 1e-30)
        off = [np.abs(a.astype(np.float64) - b) for a, b in each]
        largest = max(largest, max(float(o.max()) for o in off) / scale)
        mean = max(mean, float(np.mean([o.mean() for o in off])) / scale)
        for a, b in each:
            if b.ndim == 2 and b.shape[1] > 1:
                agreeing += int(np.sum(a.argmax(axis=1) == b.argmax(axis=1)))
                classified += len(b)
    return Loss(largest, mean, len(pairs), agreeing, classified)


def _products(path: Path) -> tuple[int, int]:
    """Convolutions and matrix products in 8 bits, and all, of a quantised file."""
    import onnx

    nodes = onnx.load(path, load_external_data=False).graph.node
    wide = {o for n in nodes if n.op_type == "DequantizeLinear" for o in n.output}
    integer = sum(n.op_type in ("ConvInteger", "MatMulInteger") for n in nodes)
    others = [n for n in nodes if n.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")]
    return integer + sum(wide.issuperset(n.input[:2]) for n in others), integer + len(others)


def _bytes(path: Path) -> int:
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


def _moved(folder: Path, place: Path) -> None:
    """Put what was made in its place, the model last: it names the files beside it."""
    try:
        for file in sorted(folder.iterdir(), key=lambda f: f.name == place.name):
            os.replace(file, place.parent / file.name)
    except OSError as e:
        raise NetworkError(f"cannot write '{place}': {e.strerror or e}") from e
