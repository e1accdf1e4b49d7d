"""Load a network by name or file, and split it into search tasks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilework.errors import NetworkError

if TYPE_CHECKING:
    from tilework.graph import Network
    from tilework.graph.precision import Precision
    from tilework.target import Target
    from tilework.task import SearchTask


@dataclass(frozen=True, eq=False)
class Extracted:
    """A network and its search tasks; ``weights[i]`` counts the calls of ``tasks[i]``.

    ``fingerprint`` identifies the network's content, whatever its file is called, and its
    precision.
    """

    network: Network
    fingerprint: str
    tasks: list[SearchTask]
    weights: list[int]


def is_onnx(network: str) -> bool:
    """Whether the argument NET means a file, not a built-in network."""
    return network.endswith(".onnx") or "/" in network


def network_label(network: str) -> str:
    """A short name for file names and records: ``models/Net.onnx`` gives ``Net``."""
    return Path(network).stem if is_onnx(network) else network


def load_network(network: str, batch: int = 1, layout: str = "NHWC") -> Network:
    """Load a built-in network or an ONNX file.

    Raises:
        NetworkError: the name is unknown, or the file is missing, corrupt or unsupported.
    """
    import tilework as tw

    if not is_onnx(network):
        return tw.zoo.get(network, batch=batch, layout=layout)
    if batch != 1:
        raise NetworkError(
            f"{network}: --batch is for built-in networks; an ONNX file brings its own batch size"
        )
    return tw.from_onnx(network)


def fingerprint(network: str, batch: int, layout: str) -> str:
    """Identity of a network's content: the file's hash, or name and shape of a built-in one."""
    if not is_onnx(network):
        return f"{network}-b{batch}-{layout}"
    return hashlib.sha256(Path(network).read_bytes()).hexdigest()[:16]


def extract(
    network: str,
    target: Target,
    batch: int = 1,
    layout: str = "NHWC",
    precision: Precision = "f32",
) -> Extracted:
    """Load ``network`` and list its distinct tasks, in the order in which they first run.

    Raises:
        NetworkError: see `load_network`.
        TargetError: the target lacks what ``precision`` needs.
    """
    import tilework as tw

    net = load_network(network, batch, layout)
    tasks, weights = tw.extract_tasks(net, target, precision=precision)
    identity = fingerprint(network, batch, layout)
    if precision != "f32":
        identity += f"-{precision}"
    return Extracted(net, identity, tasks, weights)
