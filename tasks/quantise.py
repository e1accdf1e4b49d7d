"""Make a network of 8 or 4 bits from one of float32, and measure what it lost.

ONNX Runtime's quantiser does the work (`tasks.quantiser`). What its numbers mean, and that ours
are the same, is said in docs/quantised.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tasks.engines import points_of, random_inputs
from tasks.network import is_onnx, load_network, write_onnx
from tasks.quantiser import QuantiseRequest, model_bytes, refusals, write_quantised
from tasks.report import Loss
from tasks.samples import Sample, ends_of, read_samples
from tilework.errors import NetworkError
from tilework.runtime.other import engine
from tilework.whole import folder_beside

RANDOM_SAMPLES = 8
_MOST_SHAPES = 4


@dataclass(frozen=True)
class Quantised:
    """What came of it.

    Attributes:
        output: the file.
        samples: how many the ranges are from.
        random: whether nobody gave them.
        before, after: bytes of both models.
        narrow, products: convolutions and matrix products of few bits, and all.
        loss: between ONNX Runtime in float32 and us in few bits.
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
    if request.weights is not None:
        request.weights.check()
    place = Path(request.output)
    if place.suffix != ".onnx":
        raise NetworkError(f"{request.output}: a quantised network is written as an .onnx file")
    if not place.parent.is_dir():
        raise NetworkError(f"{request.output}: there is no folder '{place.parent}'")
    with ExitStack() as stack:
        with _writing(place):
            folder = stack.enter_context(folder_beside(place))
        source = _source(request, folder)
        peer = _quiet_session(runtime, source)
        samples = _samples(request, peer)
        narrow_file = folder / "made" / place.name
        narrow_file.parent.mkdir()
        write_quantised(request, source, narrow_file, samples, folder)
        compared = _compared(samples)
        loss = _loss(peer, narrow_file, compared, request.shapes)
        if request.weights is not None:
            loss = replace(loss, what=f"weights of {request.weights.bits} bits")
        sizes = (model_bytes(source), model_bytes(narrow_file))
        narrow, products = _products(narrow_file)
        _moved(narrow_file.parent, place)
    random = not request.calibrate
    return Quantised(str(place), len(samples), random, *sizes, narrow, products, loss)


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """What cannot be written is told of the file that was to be."""
    try:
        yield
    except OSError as e:
        raise NetworkError(f"cannot write '{place}': {e.strerror or e}") from e


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
    with refusals(f"{path}: ONNX Runtime does not open it"):
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _compared(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the first few shapes: each other one would have to be compiled for."""
    shapes: dict[Any, list[Sample]] = {}
    for sample in samples:
        shapes.setdefault(tuple(array.shape for array in sample.values()), []).append(sample)
    return [sample for each in list(shapes.values())[:_MOST_SHAPES] for sample in each]


def _loss(peer: Any, narrow_file: Path, samples: Sequence[Sample], shapes: Sequence[str]) -> Loss:
    """Both networks on the samples: in float32 by ONNX Runtime, in 8 bits by us."""
    from tilework.session import Session

    ranges = dict(text.split("=", 1) for text in shapes if ".." in text)
    ours = Session(narrow_file, cache=False, shapes=ranges or None)
    with refusals("ONNX Runtime does not run a sample in float32"):
        expected = [peer.run(None, sample) for sample in samples]
    actual = [ours.run(None, sample) for sample in samples]
    return loss_of(list(zip(actual, expected, strict=True)))


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
    """Convolutions and matrix products of few bits, and all, of a quantised file."""
    import onnx

    nodes = onnx.load(path, load_external_data=False).graph.node
    wide = {o for n in nodes if n.op_type == "DequantizeLinear" for o in n.output}
    whole = ("ConvInteger", "MatMulInteger", "MatMulNBits")
    integer = sum(n.op_type in whole for n in nodes)
    others = [n for n in nodes if n.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")]
    return integer + sum(wide.issuperset(n.input[:2]) for n in others), integer + len(others)


def _moved(folder: Path, place: Path) -> None:
    """Put what was made in its place, the model last: it names the files beside it."""
    with _writing(place):
        for file in sorted(folder.iterdir(), key=lambda f: f.name == place.name):
            os.replace(file, place.parent / file.name)
