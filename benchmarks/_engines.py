"""Engines side by side on one ONNX model: ours, and each peer in its better layout."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import tilework as tw
from tasks.engines import max_rel_error, random_inputs
from tasks.peers import load_peer
from tilework.graph import Network
from tilework.graph.precision import Precision
from tilework.record import RecordLog
from tilework.runtime import Module
from tilework.runtime.samples import Samples, interleave, paired_ratio

OURS = "tilework"
Search = Callable[[Network, tw.Target, RecordLog], None]


@dataclass(frozen=True)
class Row:
    """One engine's time; ``ratio`` is ours over its, the median over paired samples."""

    engine: str
    layout: str
    median_us: float
    min_us: float
    ratio: float
    max_rel_error: float | None


@dataclass(frozen=True)
class Result:
    """One model at one number of threads, all engines interleaved."""

    name: str
    threads: int
    flops: float
    rows: tuple[Row, ...]
    schedules: tuple[str, ...]
    kernel_calls: int
    samples: int
    discarded: int
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> Row:
        """Our own row."""
        return self.rows[0]

    @property
    def best_peer(self) -> Row | None:
        """The fastest other engine."""
        return min(self.rows[1:], key=lambda r: r.median_us, default=None)

    @property
    def ratio(self) -> float | None:
        """Ours over the best peer's: the largest of the paired ratios."""
        return max((r.ratio for r in self.rows[1:]), default=None)


def compare(
    name: str,
    models: Mapping[str, onnx.ModelProto],
    target: tw.Target,
    peers: Sequence[str],
    records: RecordLog | None,
    seconds: float,
    tune_trials: int = 0,
    flops: float = 0.0,
    net: Network | None = None,
    search: Search | None = None,
    precision: Precision = "f32",
) -> Result:
    """Time the engines on one network.

    Args:
        models: the network by the layout at its boundary; ours takes the first. The two forms
            have the same weights, and inputs that hold the same numbers.
        target: what ours is compiled for; its ``num_cores`` is every engine's threads.
        records: schedules for ours; a search of ``tune_trials`` adds to them.
        seconds: measured time of each engine.
        flops: operations; by default those of our kernels' calls.
        net: what ours compiles; by default the first model.
        search: adds to the records first.
        precision: of ours, and of peers that can.

    Raises:
        NetworkError: the network cannot be imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = {layout: str(Path(folder) / f"{layout}.onnx") for layout in models}
        for layout, model in models.items():
            onnx.save(model, paths[layout])
        layout, path = next(iter(paths.items()))
        net = net or tw.from_onnx(path)
        if tune_trials and records is not None:
            _tune(net, target, records, tune_trials)
        if search is not None and records is not None:
            search(net, target, records)
        module = tw.compile(net, target, records=records, precision=precision)
        first = random_inputs(net)
        inputs = {
            form: {n: _aligned_turn(x, layout, form) for n, x in first.items()} for form in models
        }
        engines: dict[str, Any] = {OURS: module}
        layouts = {OURS: layout}
        for peer in peers:
            loaded, form = _better_layout(peer, paths, inputs, target.num_cores, precision)
            engines[loaded.name], layouts[loaded.name] = loaded, form
        outputs = {
            n: [_turned(np.array(o), layouts[n], layout) for o in e.run(inputs[layouts[n]])]
            for n, e in engines.items()
        }
        calls = {n: e.bind(inputs[layouts[n]]) for n, e in engines.items()}
        samples = _interleave(calls, target.num_cores, seconds)
    return _result(name, module, layouts, samples, outputs, target.num_cores, flops)


def _interleave(calls: Mapping[str, Any], threads: int, seconds: float) -> dict[str, Samples]:
    """Samples of all calls in turns; each comes after a rest and an untimed call.

    With several threads the rest lets the pools of the engine before go to sleep, and ours has
    tried a single one before it is timed.
    """
    return interleave(
        calls,
        1000,
        min_sample_s=0.01 if threads == 1 else 0.03,
        warmup=3 if threads == 1 else 9,
        settle_s=1e-4 if threads == 1 else 0.02,
        budget_s=(1.1 if threads == 1 else 2.0) * seconds * len(calls),
    )


def _better_layout(
    peer: str,
    paths: Mapping[str, str],
    inputs: Mapping[str, Any],
    threads: int,
    precision: Precision,
) -> tuple[Any, str]:
    """The peer with the model in the layout in which its call is cheaper."""
    loaded = {form: load_peer(peer, path, threads, precision) for form, path in paths.items()}
    if len(loaded) > 1:
        calls = {form: e.bind(inputs[form]) for form, e in loaded.items()}
        short = _interleave(calls, threads, 0.15)
        form = min(short, key=lambda f: short[f].median)
    else:
        form = next(iter(loaded))
    return loaded[form], form


def _result(
    name: str,
    module: Module,
    layouts: Mapping[str, str],
    samples: Mapping[str, Samples],
    outputs: Mapping[str, list[np.ndarray]],
    threads: int,
    flops: float,
) -> Result:
    rows = tuple(
        Row(
            engine,
            layouts[engine],
            1e6 * found.median,
            1e6 * min(found.seconds),
            paired_ratio(samples[OURS], found),
            None if engine == OURS else max_rel_error(outputs[OURS], outputs[engine]),
        )
        for engine, found in samples.items()
    )
    return Result(
        name,
        threads,
        flops or sum(step.flops for step in module.image.steps),
        rows,
        tuple(sorted({r.source for r in module.report})),
        len(module.image.steps),
        len(samples[OURS].seconds),
        samples[OURS].discarded,
    )


def _tune(net: Any, target: tw.Target, records: RecordLog, trials: int) -> None:
    """Search the network's tasks with so many trials for each."""
    from tilework.measure import Measurer
    from tilework.search import TuningOptions
    from tilework.search.tune import tune

    tasks, weights = tw.extract_tasks(net, target)
    options = TuningOptions(num_measure_trials=trials, num_measures_per_round=min(trials, 32))
    for task, weight in zip(tasks, weights, strict=True):
        with Measurer(target) as measurer:
            found = tune([task], [weight], options, records, measurer, network=net.name)
        print(f"    {task.desc}: {found.trials} trials, {found.elapsed_s:.0f} s", flush=True)


def _turned(array: np.ndarray, given: str, wanted: str) -> np.ndarray:
    """An array in another layout; fewer than four dimensions have only one."""
    if array.ndim < 4 or given == wanted:
        return array
    return np.moveaxis(array, -1, 1) if wanted == "NCHW" else np.moveaxis(array, 1, -1)


def _aligned_turn(array: np.ndarray, given: str, wanted: str) -> np.ndarray:
    from tilework.runtime.arrays import aligned_copy

    return aligned_copy(_turned(array, given, wanted))
