"""Check what a compiled network computes against another implementation of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.calls import evaluated, straight, wrong_call
from tasks.engines import max_rel_error, random_inputs
from tasks.peers import load_peer
from tasks.report import TOLERANCES, CheckResult
from tilework.errors import ModuleError, NetworkError
from tilework.graph import Network, Parts, plan
from tilework.index.symbols import Point
from tilework.runtime.image import Image
from tilework.runtime.other import OtherModel, OtherPart, version
from tilework.runtime.parts import PartedModule
from tilework.te.points import typical_points

if TYPE_CHECKING:
    from tilework.graph.precision import Precision
    from tilework.runtime.module import Module
    from tilework.runtime.parts import AnyModule


def check_output(
    module: AnyModule,
    network: Network | Parts,
    precision: Precision = "f32",
    source: str = "",
    given: Mapping[str, NDArray[Any]] | None = None,
) -> CheckResult:
    """Compare a module's output on random input with ONNX Runtime's, or with NumPy's.

    The reference is in float32, whatever the module's precision: what differs is its accuracy.

    ONNX Runtime is used where it is installed and opens the file ``source`` that the network is
    from, or what is written of it, and agrees on how a network of 8 bits is rounded; otherwise
    the network's calls are evaluated one by one from their compute definitions, which is slower
    and shares the graph passes.

    What a network of 8 bits rounds to the other side may change all that follows: where it is
    further off than usual, each call is checked by itself, and the whole by how far NumPy is from
    itself.

    Inputs of the file that are constants of the network have the values that are ``given``.

    A network of symbolic shapes is checked at several points: the typical ones, that one below
    the greatest of them, where tiles are not whole, and the least; the largest error counts.

    Of a network in parts, each part is given what ONNX Runtime computes for it, and compared with
    what that makes of it: where a value decides what follows (a threshold, a sort), whole networks
    may differ without being wrong. A part that draws random numbers has others each time; it is
    ONNX Runtime's, and left out.
    """
    if isinstance(network, Parts) and isinstance(module, PartedModule):
        return _check_parts(module, network, precision)
    assert isinstance(network, Network)
    compared = [
        (*_compared(module, network, at, source, given or {}), at) for at in _checked(network)
    ]
    reference, error, at = max(compared, key=lambda one: one[1])
    error = float(np.max([e for _, e, _ in compared]))  # which is NaN if one is
    tolerance = max(TOLERANCES[precision], _ROUNDED * _rounds_data(network))
    if error <= tolerance or not _rounds(network):
        return CheckResult(reference, error, tolerance)
    wrong, most = "", _MOST
    if isinstance(module.image, Image) and not network.symbols:
        wrong = wrong_call(module.image, network, precision, random_inputs(network))
        most = 0.0 if wrong else np.inf
    for seed in range(_DRAWS):
        if error > tolerance:
            tolerance = max(tolerance, min(_SIDES * _sides(network, at, seed), most))
    return CheckResult(reference, error, tolerance, wrong)


def _checked(network: Network) -> list[Point]:
    """The points at which a network is checked; one, of none, of a static one."""
    if not network.symbols:
        return [{}]
    typical = typical_points(network.symbols)
    below = {symbol: max(symbol.low, n - 1) for symbol, n in typical[-1].items()}
    least = {symbol: symbol.low for symbol in network.symbols}
    several = [*typical, below, least]
    return [at for i, at in enumerate(several) if at not in several[:i]]


def _compared(
    module: AnyModule,
    network: Network,
    at: Point,
    source: str,
    given: Mapping[str, NDArray[Any]],
) -> tuple[str, float]:
    """What a module's output is compared with at a point, and the largest error."""
    inputs = random_inputs(network, at=at)
    outputs = [np.array(o) for o in module.run(inputs)]
    answer = _answer(source, {**inputs, **given}) if source else None
    if answer is None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "network.onnx")
            with suppress(NetworkError):  # something has no form in ONNX
                network.at(at).to_onnx(path)
                answer = _answer(path, inputs)
    if answer is not None:
        error = max_rel_error(outputs, answer[1])
        if error <= TOLERANCES["f32"] or not _rounds(network):
            return answer[0], error
    return "NumPy", max_rel_error(outputs, evaluated(plan(straight(network, at)), inputs, at))


def _answer(
    path: str, inputs: Mapping[str, NDArray[Any]]
) -> tuple[str, list[NDArray[Any]]] | None:
    """ONNX Runtime's name and outputs; None where it is not installed or refuses the file."""
    shapes = {name: array.shape for name, array in inputs.items()}
    with suppress(Exception):  # of a kind of its own: another reference decides
        peer = load_peer("onnxruntime", path, threads=1, shapes=shapes, exact=True)
        return peer.name, peer.run(inputs)
    return None


def _rounds(network: Network) -> bool:
    """Whether it has values of 8 bits.

    Other engines round single elements of them to the other side, by a step, and in a deep network
    much may follow from that; the operators' own meaning is exact, but for what float sums and
    functions leave open.
    """
    narrow = any(value.dtype in ("int8", "uint8") for value in network.types.values())
    return narrow or _rounds_data(network)


def _rounds_data(network: Network) -> bool:
    """Whether a run rounds floats to bytes by a scale that it finds.

    Sums of floats in another order put single elements on the other side then, by a step of a
    127th of the largest, in the operators' own meaning as well.
    """
    quantised = (n for n in network.nodes if n.op == "quantize")
    found = any(n.inputs[1] not in network.constants for n in quantised)
    return found or any(n.attrs.get("data") == "int8" for n in network.nodes)


_ROUNDED = 0.02
"""What outputs may differ by where data are rounded in a run; six layers of an encoder: 0.004."""
_SIDES, _DRAWS = 3, 3
"""Times what NumPy differs by from itself in double precision, on one of so many inputs: a small
DeiT with data rounded in a run 0.010 to 0.016, a small DPT of 8 bits 0.005 to 0.047."""
_MOST = 0.15
"""What that allows at most, of networks whose calls cannot be looked at by themselves."""


def _sides(network: Network, at: Point, seed: int) -> float:
    """How far apart outputs are that NumPy computes in single and in double precision.

    Elements that are rounded to the other side make the difference.
    """
    inputs, planned = random_inputs(network, seed, at), plan(straight(network, at))
    return max_rel_error(*(evaluated(planned, inputs, at, kind) for kind in (None, "float64")))


def _check_parts(module: PartedModule, net: Parts, precision: Precision) -> CheckResult:
    """Compare the parts of a network with one model of the whole, which has all their values."""
    names = dict.fromkeys(o for part in module.image.parts for o in part.outputs)
    model = net.whole(tuple(names))
    compared = [part for part in module.image.parts if not _draws(part.runner)]
    errors = []
    for at in typical_points(module.symbols) or [{}]:
        inputs = random_inputs(net, at=at)
        module.run(inputs)
        whole = _run_whole(net, model, inputs)
        values = {**inputs, **dict(zip(model.outputs, whole, strict=True))}
        errors += [
            max_rel_error(module.run_part(part, values), [values[o] for o in part.outputs])
            for part in compared
        ]
    reference = f"{version()}, part by part"
    if len(compared) < len(module.image.parts):
        reference += ", random numbers left out"
    error = float(np.max(errors, initial=0.0))  # which is NaN if one is
    return CheckResult(reference, error, TOLERANCES[precision])


def _run_whole(net: Parts, model: OtherModel, inputs: Mapping[str, NDArray[Any]]) -> list[Any]:
    """All outputs of the whole, by whole sums of bytes.

    ONNX Runtime saturates those of pairs on CPUs without VNNI. Its mode that does not it refuses
    where products share weights or zero points; without any fusion it computes them in float32.
    """
    label = f"{net.name} as a whole"
    try:
        return OtherPart(model, label, 1, _with_whole_sums).run(inputs, {}, 1)
    except ModuleError:
        return OtherPart(model, label, 1, _without_fusion).run(inputs, {}, 1)


def _with_whole_sums(options: Any) -> None:
    options.add_session_config_entry("session.x64quantprecision", "1")


def _without_fusion(options: Any) -> None:
    level = type(options.graph_optimization_level)
    options.graph_optimization_level = level.ORT_DISABLE_ALL


def _draws(runner: Module | OtherPart) -> bool:
    from tilework.graph.onnx.convert.random import CONVERTERS as RANDOM

    return isinstance(runner, OtherPart) and not RANDOM.keys().isdisjoint(runner.model.operators)
