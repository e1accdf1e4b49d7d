"""Selection regret: how much slower than the true best is what a search on a busy machine chooses?

    python benchmarks/regret.py [--json FILE]

Finalists of a few layers (candidates that the search proposes, close to each other) are measured
under a second busy process, as a search does: each on its own, then in turns. Their true
latencies are then measured in many more turns without that process. Regret is the true latency of
the one that was chosen over that of the true best.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from _tasks import conv2d_task

from tilework.measure import Candidate, Measured, Measurer
from tilework.record import MemoryHistory
from tilework.search import SketchPolicy
from tilework.target import Target
from tilework.task import SearchTask

BUSY = "while True: sum(range(10000))"
LAYERS = ((56, 64, 64, 1, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (14, 256, 1024, 1, 1))


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    """A second process that never rests, of normal priority, within the block."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as other:
        try:
            yield
        finally:
            other.kill()


def regret(chosen: Sequence[Measured], true: Sequence[Measured]) -> float:
    """True latency of the lowest of ``chosen`` over the lowest true latency."""
    valid = [i for i, m in enumerate(true) if m.latency_s and chosen[i].latency_s]
    pick = min(valid, key=lambda i: chosen[i].latency_s or 0.0)
    least = min(true[i].latency_s or 0.0 for i in valid)
    return (true[pick].latency_s or 0.0) / least


def finalists(task: SearchTask, measurer: Measurer, count: int) -> list[Candidate]:
    """The fastest of one proposal, by a measurement of each on its own."""
    candidates = SketchPolicy(task).propose(MemoryHistory(), 4 * count)
    measured = measurer.measure(task, candidates)
    fast = sorted((m for m in measured if m.latency_s), key=lambda m: m.latency_s or 0.0)
    return [m.candidate for m in fast[:count]]


def one_layer(
    task: SearchTask, finals: int, repeat: int, true_rounds: int
) -> dict[str, list[float]]:
    """Regrets of one layer: chosen by the lowest of single measurements, and by finals."""
    options = {"time_budget_ms": 30.0}
    with Measurer(task.target, **options) as usual:  # type: ignore[arg-type]
        field = finalists(task, usual, finals)
        with busy_process():
            # a measurer remembers code, and would not measure it twice: one for each repetition
            taken = [usual.finals(task, field) for _ in range(repeat)]
    with Measurer(task.target, final_rounds=true_rounds) as patient:
        true = patient.finals(task, field)
    singles = []
    with busy_process():
        for _ in range(repeat):
            with Measurer(task.target) as fresh:
                singles.append(fresh.measure(task, field))
    return {
        "single": [regret(found, true) for found in singles],
        "finals": [regret(found, true) for found in taken],
    }


def selection_regret(
    target: Target, finals: int = 6, repeat: int = 5, true_rounds: int = 200
) -> dict[str, dict[str, float]]:
    """Median and worst regret over all layers, for both ways of choosing."""
    found: dict[str, list[float]] = {"single": [], "finals": []}
    for layer in LAYERS:
        for name, values in one_layer(
            conv2d_task(*layer, target), finals, repeat, true_rounds
        ).items():
            found[name] += values
    return {
        name: {"median": statistics.median(values), "worst": max(values), "cases": len(values)}
        for name, values in found.items()
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    found = selection_regret(Target("llvm").with_cores(args.threads))
    print(f"{'chosen by':10s} {'median regret':>14s} {'worst':>7s} {'cases':>6s}")
    for name, row in found.items():
        print(f"{name:10s} {row['median']:14.4f} {row['worst']:7.3f} {row['cases']:6.0f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
