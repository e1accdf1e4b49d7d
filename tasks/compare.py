"""Time a compiled network and other engines side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.check import check_output
from tasks.engines import max_rel_error, random_inputs, time_engines, timing_of
from tasks.finish import gap_lines
from tasks.network import left_of, write_onnx
from tasks.peers import load_peer
from tasks.report import CheckResult, Timing
from tilework.errors import TargetError

if TYPE_CHECKING:
    from tasks.peers import Engine
    from tilework.graph import Network, Parts
    from tilework.graph.precision import Precision
    from tilework.record import History
    from tilework.runtime import KernelTime
    from tilework.target import Target


@dataclass(frozen=True)
class EngineRow:
    """One engine's latency; ``ratio`` is Tilework's time over this engine's, pair by pair.

    ``max_rel_error`` is how far its outputs are from Tilework's, relative to the largest.
    """

    engine: str
    timing: Timing
    ratio: float
    max_rel_error: float | None


@dataclass(frozen=True)
class Comparison:
    """Engines on one network and one number of threads, timed interleaved in one run.

    ``schedules`` says how many of the tasks were tuned; ``profile`` has a row per kernel call, if
    it was asked for, and ``gap`` what adds to the tasks' records, if much does. ``accuracy`` is
    how far the network is from float32, where it is compiled in another precision. ``left`` says
    what of Tilework's network another engine runs, and ``helpers`` what threads beside the
    caller's did during the profile; empty if nothing.
    """

    network: str
    target: str
    threads: int
    tasks: int
    tuned_tasks: int
    rows: tuple[EngineRow, ...]
    schedules: str = ""
    profile: tuple[KernelTime, ...] = ()
    gap: tuple[str, ...] = ()
    precision: str = "f32"
    accuracy: CheckResult | None = None
    left: str = ""
    helpers: str = ""


def compare_engines(
    net: Network | Parts,
    target: Target,
    records: History | None,
    peers: Sequence[str],
    seconds: float = 5.0,
    profile: bool = False,
    precision: Precision = "f32",
    source: str = "",
) -> Comparison:
    """Compile ``net`` with the best records and time it beside other engines.

    Args:
        records: None for none, so that nothing is tuned.
        target: its ``num_cores`` is the number of threads of every engine.
        peers: names from `tasks.peers.PEERS`.
        seconds: measured time per engine.
        profile: also time every kernel call within the network.
        precision: of the compiled network, and of the peers that have it.
        source: the ONNX file that the network is from, which is what peers open; empty: one that
            is written of it.

    Raises:
        TileworkError: a peer is unknown, not installed or refuses the network, or this cannot be
            exported.
    """
    import tilework as tw
    from tilework.graph.precision import require_precision
    from tilework.runtime.samples import paired_ratio

    require_precision(target, precision)
    inputs = random_inputs(net)
    module = tw.compile(net, target, records=records, precision=precision)
    engines: dict[str, Engine] = {"tilework": module}
    with tempfile.TemporaryDirectory() as folder:
        if peers:
            path = source or str(Path(folder) / "network.onnx")
            if not source:
                write_onnx(net, path)
            shapes = {name: array.shape for name, array in inputs.items()}
            for peer in peers:
                loaded = load_peer(peer, path, target.num_cores, precision, shapes)
                engines[loaded.name] = loaded
        outputs = {name: [np.array(o) for o in e.run(inputs)] for name, e in engines.items()}
        samples = time_engines(engines, inputs, seconds)
    ours = samples["tilework"]
    rows = tuple(
        EngineRow(
            name,
            timing_of(times),
            paired_ratio(ours, times),
            None if name == "tilework" else max_rel_error(outputs["tilework"], outputs[name]),
        )
        for name, times in samples.items()
    )
    tuned = [row.tuned for row in module.report]
    from tilework.runtime import tuned_text

    schedules = tuned_text(module.report)
    calls, helpers = _profile(module, target) if profile else ((), "")
    return Comparison(
        net.name,
        str(target),
        target.num_cores,
        len(tuned),
        sum(tuned),
        rows,
        schedules,
        calls,
        gap_lines(module, 1e3 * ours.median) if profile else (),
        precision,
        None if precision == "f32" else check_output(module, net, precision, source),
        left_of(net),
        helpers,
    )


def _profile(module: Any, target: Target) -> tuple[tuple[KernelTime, ...], str]:
    """A row per kernel call, and what helpers did meanwhile, if there were any."""
    from tilework.target.hardware import hardware_of

    try:
        hardware = hardware_of(target)
    except TargetError:  # of its kind nothing is to be said
        return tuple(module.profile(repeat=30)), ""
    rows: list[KernelTime] = []
    helpers = hardware.helpers_during(lambda: rows.extend(module.profile(repeat=30)))
    return tuple(rows), helpers
