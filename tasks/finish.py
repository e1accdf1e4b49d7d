"""What follows the search: compile with the best records, check the output, time it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasks.engines import max_rel_error, random_inputs, time_engines, timing_of
from tasks.peers import Engine, load_peer
from tasks.report import TOLERANCES, CheckResult, Timing
from tasks.stores import open_store
from tilework.errors import TileworkError

if TYPE_CHECKING:
    from tilework.graph import Network
    from tilework.graph.precision import Precision
    from tilework.runtime import Module
    from tilework.target import Target


class Compiled:
    """A network compiled twice: with the best records, and without any (what untuned users get).

    Not a dataclass, see `tasks.run.TuningRun`.
    """

    def __init__(
        self, network: Network, tuned: Module, untuned: Module, precision: Precision = "f32"
    ) -> None:
        self.network = network
        self.precision = precision
        self.tuned = tuned
        self.untuned = untuned


def compile_with_records(
    network: Network, target: Target, store: str, precision: Precision = "f32"
) -> Module:
    """Compile a network with the best records of a store."""
    import tilework as tw

    return tw.compile(network, target, records=open_store(store), precision=precision)


def compile_modules(
    network: Network,
    target: Target,
    store: str,
    output: str = "",
    precision: Precision = "f32",
) -> Compiled:
    """Compile with the best records and without; save the tuned module to ``output`` if given."""
    import tilework as tw

    tuned = compile_with_records(network, target, store, precision)
    if output:
        tuned.save(output)
    untuned = tw.compile(network, target, records=None, precision=precision)
    return Compiled(network, tuned, untuned, precision)


def check(compiled: Compiled) -> CheckResult:
    """Compare the tuned module's output with a reference's; see `check_output`."""
    return check_output(compiled.tuned, compiled.network, compiled.precision)


def check_output(module: Module, network: Network, precision: Precision = "f32") -> CheckResult:
    """Compare a module's output on random input with ONNX Runtime's, or with NumPy's.

    The reference is in float32, whatever the module's precision: what differs is its accuracy.

    ONNX Runtime is used where it is installed; otherwise the network's calls are evaluated one by
    one from their compute definitions, which is slower and shares the graph passes.
    """
    inputs = random_inputs(network)
    outputs = [np.array(o) for o in module.run(inputs)]
    tolerance = TOLERANCES[precision]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "network.onnx")
        network.to_onnx(path)
        try:
            peer = load_peer("onnxruntime", path, threads=1)
        except TileworkError:
            expected = _evaluate(network, inputs)
            return CheckResult("NumPy", max_rel_error(outputs, expected), tolerance)
        return CheckResult(peer.name, max_rel_error(outputs, peer.run(inputs)), tolerance)


def _evaluate(network: Network, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run the network's plan call by call with the NumPy reference of tensor expressions."""
    from tilework.graph import plan
    from tilework.te import evaluate

    planned = plan(network)
    values = {**planned.constants, **inputs}

    def value(name: str) -> np.ndarray:
        if name in planned.views:
            return values[planned.views[name]].reshape(planned.values[name].shape)
        return values[name]

    for call in planned.calls:
        (values[call.output],) = evaluate(call.dag, [value(name) for name in call.inputs])
    return [value(name) for name in planned.outputs]


def benchmark(compiled: Compiled, seconds: float = 1.5) -> tuple[Timing, Timing]:
    """Time the untuned and the tuned network interleaved: (before, after)."""
    inputs = random_inputs(compiled.network)
    engines: dict[str, Engine] = {"untuned": compiled.untuned, "tuned": compiled.tuned}
    samples = time_engines(engines, inputs, seconds)
    return timing_of(samples["untuned"]), timing_of(samples["tuned"])


def gap_lines(module: Module, end_to_end_ms: float | None = None) -> tuple[str, ...]:
    """Where the network loses time against its tasks' records; nothing if it loses little.

    Args:
        end_to_end_ms: the network's time; measured here if it is not given.
    """
    from tilework.runtime import explain_gap

    gap = explain_gap(module, end_to_end_ms)
    return tuple(gap.lines()) if gap is not None and gap.large else ()
