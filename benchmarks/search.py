"""Speed of the search on one core: scoring candidates and compiling them.

    python benchmarks/search.py [--json FILE]

Scoring is features, draft model and XGBoost prediction of a population of a 3x3 convolution with
a fused epilogue; proposing is one whole step of the search; compiling is lowering, code generation
and assembly of the candidates it proposes. CPU time of this process is counted, so that other work
on the machine disturbs little; medians are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _tasks import conv2d_task

from tilework.codegen import build
from tilework.model import Batch, Observation, XGBModel
from tilework.record import MemoryHistory
from tilework.search import SketchPolicy
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


def median_seconds(run: Callable[[], object], repeat: int) -> float:
    """Median CPU seconds of ``repeat`` calls, after one that is not counted."""
    run()
    samples = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        samples.append(time.process_time() - start)
    return statistics.median(samples)


def scoring(task: SearchTask, population: int = 8192, repeat: int = 9) -> dict[str, float]:
    """Candidates per second through features alone, and through features and prediction."""
    space, rng = SearchSpace.of(task), np.random.default_rng(0)
    sketch = space.sketches[0]
    model = XGBModel(seed=0)
    known = sketch.sample(rng, 512)
    batch = Batch(task.workload_key, task.flops, sketch, known)
    noise = rng.lognormal(sigma=0.2, size=len(known))
    model.update([Observation(batch, sketch.draft(known) * noise)])
    rows = [sketch.sample(rng, population) for _ in range(2)]
    turn = [0]

    def fresh() -> np.ndarray:
        turn[0] ^= 1  # two populations in turn: nothing kept from the last call helps
        return rows[turn[0]]

    features = median_seconds(lambda: sketch.features(fresh()), repeat)
    both = median_seconds(
        lambda: model.predict(Batch(task.workload_key, task.flops, sketch, fresh())), repeat
    )
    return {
        "features_per_s": population / features,
        "features_and_prediction_per_s": population / both,
    }


def compiling(task: SearchTask, count: int = 64) -> dict[str, float]:
    """Milliseconds of one core for each candidate of a batch that the search proposes."""
    times = []
    for candidate in SketchPolicy(task, seed=0).propose(MemoryHistory(), count):
        start = time.process_time()
        build(task, candidate.sketch_id, candidate.row)
        times.append(1e3 * (time.process_time() - start))
    return {"compile_median_ms": statistics.median(times), "compile_max_ms": max(times)}


def proposing(task: SearchTask) -> dict[str, float]:
    """Seconds of one core for a whole proposal step: sample, evolve, pick 64."""
    policy = SketchPolicy(task, seed=0)
    start = time.process_time()
    policy.propose(MemoryHistory(), 64)
    return {"propose_s": time.process_time() - start}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    target = Target("llvm")
    out = {}
    for size, channels, kernel in ((56, 64, 3), (14, 256, 3), (56, 64, 1)):
        task = conv2d_task(size, channels, channels, kernel, 1, target)
        out[task.desc] = scoring(task) | proposing(task) | compiling(task)
    print(
        f"{'task':28s} {'features/s':>11s} {'+ XGBoost/s':>11s} {'propose s':>9s} "
        f"{'compile ms':>10s} {'max':>5s}"
    )
    for desc, row in out.items():
        print(
            f"{desc:28s} {row['features_per_s']:11,.0f} "
            f"{row['features_and_prediction_per_s']:11,.0f} {row['propose_s']:9.2f} "
            f"{row['compile_median_ms']:10.1f} {row['compile_max_ms']:5.0f}"
        )
    if args.json:
        args.json.write_text(json.dumps({"target": str(target), "tasks": out}, indent=1))


if __name__ == "__main__":
    main()
