"""How well the analytic model orders programs of a GPU, and with them what it gets wrong.

    python benchmarks/gpu/rank_correlation.py [resnet-18,mobilenet] [--rows 32] [--store rank]

Random valid rows of every task, each built, verified and timed; Spearman's correlation of their
latencies with the model's predictions, a task a line, and the three tasks it ranks worst. Records
go to a store, so that a later call goes on and others can learn from them.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from _common import arguments, begin, finish
from numpy.typing import NDArray

import tilework as tw
from storage import RecordStore
from tilework.measure import Candidate, to_records
from tilework.model.draft import draft_of
from tilework.space import SearchSpace
from tilework.target.runs import mark
from tilework.te.serial import dag_to_json

DRY = "cuda -model=a100 -run=simulated"
LEAST = 8
"""Valid latencies below which a task has no figure."""


def spearman(a: Any, b: Any) -> float:
    """Rank correlation; equal values share the mean of their ranks."""
    return float(np.corrcoef(_ranks(np.asarray(a)), _ranks(np.asarray(b)))[0, 1])


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[which]


def random_rows(task: tw.SearchTask, count: int, seed: int) -> list[Candidate]:
    """Different valid programs of a task, each sketch with as many, at random."""
    rng = np.random.default_rng(seed)
    sketches = SearchSpace.of(task).sketches
    share = -(-count // len(sketches))
    found = [
        Candidate(sketch.id, tuple(int(d) for d in row), 0.0, "")
        for sketch in sketches
        for row in np.unique(sketch.sample(rng, 4 * share), axis=0)[:share]
    ]
    rng.shuffle(found)  # type: ignore[arg-type]
    return found[:count]


def correlation(task: tw.SearchTask, measured: list[Any]) -> tuple[int, float | None]:
    """Valid latencies, and Spearman's correlation of the draft's predictions with them."""
    space = SearchSpace.of(task)
    pairs = []
    for one in measured:
        if one.latency_s is not None:
            sketch = space.sketch(one.candidate.sketch_id)
            rows = np.array([one.candidate.row], np.int32)
            pairs.append((float(draft_of(task.target).seconds(sketch, rows)[0]), one.latency_s))
    if len(pairs) < LEAST:
        return len(pairs), None
    return len(pairs), spearman([p for p, _ in pairs], [t for _, t in pairs])


def main() -> None:
    """Measure tasks until all are done or the time is over."""
    parser = arguments(__doc__)
    parser.add_argument("networks", nargs="?", default="resnet-18,mobilenet")
    parser.add_argument("--rows", type=int, default=32, help="programs of each task")
    parser.add_argument("--seconds", type=float, default=540.0, help="no new task after these")
    parser.add_argument("--store", default="rank", help="folder of the records")
    parser.add_argument("--precision", default="f32", help="f32, tf32, bf16 or f16")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    target = begin(args.target, args.dry_run, DRY)
    if args.dry_run:
        args.networks, args.rows = "mlp", LEAST
    store = RecordStore(args.store)
    began = time.monotonic()
    tasks: dict[str, tw.SearchTask] = {}
    for name in args.networks.split(","):
        for task in tw.extract_tasks(tw.zoo.outline(name), target, precision=args.precision)[0]:
            tasks.setdefault(task.workload_key, task)
    print(f"| task{mark(str(target))} | valid | of | Spearman |\n|---|---|---|---|")
    found: dict[str, dict[str, Any]] = {}
    with tw.Measurer(target) as measurer:
        for number, task in enumerate(tasks.values()):
            if time.monotonic() - began > args.seconds:
                print(f"out of time: {len(tasks) - number} tasks are left out")
                break
            candidates = random_rows(task, args.rows, args.seed)
            measured = measurer.measure(task, candidates)
            run_id = f"rank-{args.seed}-{str(target).replace(' ', '')}"
            store.append(to_records(task, measured, run_id=run_id, round=number))
            store.keep_workload(task.workload_key, dag_to_json(task.compute_dag))
            valid, rho = correlation(task, measured)
            shown = "-" if rho is None else f"{rho:.2f}"
            print(f"| {task.desc} | {valid} | {len(candidates)} | {shown} |", flush=True)
            found[task.desc] = {"valid": valid, "of": len(candidates), "spearman": rho}
    known = {name: one["spearman"] for name, one in found.items() if one["spearman"] is not None}
    if known:
        print(f"median of {len(known)} tasks: {statistics.median(known.values()):.2f}")
        worst = sorted(known, key=lambda name: known[name])[:3]
        print("ranked worst, to be looked at with a profiler: " + "; ".join(worst))
    finish(args.json, target, {"tasks": found})


if __name__ == "__main__":  # worker processes import this file
    main()
