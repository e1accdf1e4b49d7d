"""A network in the form that is asked for, split into search tasks."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.check import check_output
from tasks.model_files import read_briefly
from tasks.network import (
    FEW_BITS,
    NetworkSpec,
    Precision,
    fingerprint,
    given_values,
    is_onnx,
    left_of,
    load_network,
)
from tasks.quantise import quantise
from tasks.quantiser import QuantiseRequest
from tasks.report import CheckResult, Loss
from tasks.weights_quantiser import WeightsOnly
from tilework.errors import NetworkError
from tilework.stages import stage

if TYPE_CHECKING:
    from tilework import dtypes
    from tilework.graph import Network, Parts
    from tilework.runtime.content import Untouched
    from tilework.runtime.parts import AnyModule
    from tilework.target import Target
    from tilework.task import SearchTask

_PACKED = {"int4": WeightsOnly(4)}
"""How weights are packed where they alone are of few bits."""


@dataclass(frozen=True, eq=False)
class Extracted:
    """A network and its search tasks; ``weights[i]`` counts the calls of ``tasks[i]``.

    ``fingerprint`` identifies the network's content, whatever its file is called, and its
    precision. ``loss`` is of a network that was quantised for it. ``files`` are those that hold
    weights of it, and that must not be written to; None if there are none.
    """

    spec: NetworkSpec
    network: Network | Parts
    fingerprint: str
    tasks: list[SearchTask]
    weights: list[int]
    loss: Loss | None = None
    files: Untouched | None = None

    @property
    def left(self) -> str:
        """What another engine runs of it, in one line; empty if nothing."""
        return left_of(self.network)

    @property
    def precision(self) -> dtypes.Precision:
        """How the engine stores values."""
        return stored_precision(self.spec.precision)

    def check(self, module: AnyModule) -> CheckResult:
        """Compare a compiled form of it with a reference: see `tasks.check.check_output`."""
        given = given_values(self.spec)
        return check_output(module, self.network, self.precision, self.spec.source, given)

    @property
    def notes(self) -> list[str]:
        """What people are to know of it: what another engine runs, and what few bits cost."""
        return [line for line in (self.left, str(self.loss or "")) if line]


def extract(spec: NetworkSpec, target: Target, briefly: bool = False) -> Extracted:
    """Load a network and list its distinct tasks, in the order in which they first run.

    Args:
        briefly: large weights stay in the model's files: who asks is done with them soon.

    Raises:
        NetworkError: see `load_network`.
        TargetError: the target lacks what the precision needs.
    """
    import tilework as tw

    with stage("read"), tempfile.TemporaryDirectory() as folder:
        loaded = load(spec, folder, briefly)
    with stage("passes"):
        stored = stored_precision(spec.precision)
        tasks, weights = tw.extract_tasks(loaded.network, target, precision=stored)
    return Extracted(
        spec, loaded.network, spec_fingerprint(spec), tasks, weights, loaded.loss, loaded.files
    )


@dataclass(frozen=True, eq=False)
class Loaded:
    """A network, the ONNX file that it is from (empty: none), and what it lost if quantised.

    ``files`` as of `Extracted`.
    """

    network: Network | Parts
    source: str
    loss: Loss | None
    files: Untouched | None = None


def load(spec: NetworkSpec, folder: str, briefly: bool = False) -> Loaded:
    """A network in the form that is asked for; one that is quantised for it leaves its file.

    Args:
        spec: which network.
        folder: where that file is written.
        briefly: see `extract`.

    Raises:
        NetworkError: see `load_network` and `tasks.quantise.quantise`.
        ModuleError: it is to be quantised, and ONNX Runtime is not installed.
    """
    if spec.precision not in FEW_BITS:
        if spec.calibrate:
            raise NetworkError(
                f"--calibrate {spec.calibrate}: it belongs to --precision {' or '.join(FEW_BITS)}"
            )
        content, files = None, None
        if briefly and is_onnx(spec.network):
            content, files = read_briefly(Path(spec.network))
        net = load_network(
            spec.network, spec.batch, spec.layout, spec.shapes, spec.sparse, spec.strict, content,
            spec.values,
        )  # fmt: skip
        return Loaded(net, spec.source, None, files)
    if spec.sparse is not None or spec.values:
        what = f"--{'sparse' if spec.sparse else 'value'} and --precision {spec.precision}"
        raise NetworkError(f"{spec.network}: {what} exclude each other")
    place = str(Path(folder) / f"{spec.label}.onnx")
    quantised = quantise(
        QuantiseRequest(
            spec.network, place, spec.calibrate, batch=spec.batch, layout=spec.layout,
            shapes=spec.shapes, weights=_PACKED.get(spec.precision),
        )
    )  # fmt: skip
    net = load_network(place, shapes=spec.shapes, strict=spec.strict)
    return Loaded(net, place, quantised.loss)


def stored_precision(precision: Precision) -> dtypes.Precision:
    """How the engine stores values: few bits are in the network, the rest in float32."""
    return "f32" if precision == "int8" or precision == "int4" else precision


def spec_fingerprint(spec: NetworkSpec) -> str:
    """Identity of a network's content, precision and sparsity; nothing is loaded for it.

    Raises:
        NetworkError: there is no such network or file any more.
    """
    import tilework as tw

    if not is_onnx(spec.network):
        tw.zoo.outline(spec.network, spec.batch, spec.layout)
    try:
        identity = fingerprint(spec.network, spec.batch, spec.layout, spec.shapes, spec.values)
    except OSError as error:
        raise NetworkError(f"{spec.network}: {error.strerror or error}") from error
    if spec.precision != "f32":
        identity += f"-{spec.precision}"
    if spec.calibrate:
        identity += f"-{_digest(spec.calibrate)}"
    if spec.sparse is not None:
        identity += f"-sparse-{spec.sparse.identity}"
    return identity


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise NetworkError(f"{path}: {error.strerror or error}") from error
