"""A network in the form that is asked for, split into search tasks."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.network import NetworkSpec, Precision, fingerprint, is_onnx, left_of, load_network
from tasks.quantise import quantise
from tasks.quantiser import QuantiseRequest
from tasks.report import Loss
from tilework.errors import NetworkError
from tilework.stages import stage

if TYPE_CHECKING:
    from tilework import dtypes
    from tilework.graph import Network, Parts
    from tilework.target import Target
    from tilework.task import SearchTask


@dataclass(frozen=True, eq=False)
class Extracted:
    """A network and its search tasks; ``weights[i]`` counts the calls of ``tasks[i]``.

    ``fingerprint`` identifies the network's content, whatever its file is called, and its
    precision. ``loss`` is of a network that was quantised for it.
    """

    spec: NetworkSpec
    network: Network | Parts
    fingerprint: str
    tasks: list[SearchTask]
    weights: list[int]
    loss: Loss | None = None

    @property
    def left(self) -> str:
        """What another engine runs of it, in one line; empty if nothing."""
        return left_of(self.network)

    @property
    def precision(self) -> dtypes.Precision:
        """How the engine stores values."""
        return stored_precision(self.spec.precision)

    @property
    def notes(self) -> list[str]:
        """What people are to know of it: what another engine runs, and what 8 bits cost."""
        return [line for line in (self.left, str(self.loss or "")) if line]


def extract(spec: NetworkSpec, target: Target) -> Extracted:
    """Load a network and list its distinct tasks, in the order in which they first run.

    Raises:
        NetworkError: see `load_network`.
        TargetError: the target lacks what the precision needs.
    """
    import tilework as tw

    with stage("read"):
        net, loss = load(spec)
    with stage("passes"):
        stored = stored_precision(spec.precision)
        tasks, weights = tw.extract_tasks(net, target, precision=stored)
    return Extracted(spec, net, spec_fingerprint(spec), tasks, weights, loss)


def load(spec: NetworkSpec) -> tuple[Network | Parts, Loss | None]:
    """A network in the form that is asked for, and what it lost if it was quantised for it.

    Raises:
        NetworkError: see `load_network` and `tasks.quantise.quantise`.
        ModuleError: it is to be quantised, and ONNX Runtime is not installed.
    """
    if spec.precision != "int8":
        if spec.calibrate:
            raise NetworkError(f"--calibrate {spec.calibrate}: it belongs to --precision int8")
        net = load_network(
            spec.network, spec.batch, spec.layout, spec.shapes, spec.sparse, spec.strict
        )
        return net, None
    if spec.sparse is not None:
        raise NetworkError(f"{spec.network}: --sparse and --precision int8 exclude each other")
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / f"{spec.label}.onnx")
        quantised = quantise(
            QuantiseRequest(
                spec.network, place, spec.calibrate, batch=spec.batch, layout=spec.layout,
                shapes=spec.shapes,
            )
        )  # fmt: skip
        net = load_network(place, shapes=spec.shapes, strict=spec.strict)
    return net, quantised.loss


def stored_precision(precision: Precision) -> dtypes.Precision:
    """How the engine stores values: those of 8 bits are in the network, the others in float32."""
    return "f32" if precision == "int8" else precision


def spec_fingerprint(spec: NetworkSpec) -> str:
    """Identity of a network's content, precision and sparsity; nothing is loaded for it.

    Raises:
        NetworkError: there is no such network or file any more.
    """
    import tilework as tw

    if not is_onnx(spec.network):
        tw.zoo.outline(spec.network, spec.batch, spec.layout)
    try:
        identity = fingerprint(spec.network, spec.batch, spec.layout, spec.shapes)
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
