"""The ladder of float32 matrix products: what each step gains here, and what the model expects.

    python benchmarks/gpu/sgemm_ladder.py [--size 4096]

Six schedules, each a step better than the one before; the best of the analytic model; and, where
PyTorch is installed, cuBLAS without and with TF32. The pairs that the model orders rightly are
counted. A minute.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from _common import arguments, begin, finish
from _ladder import RUNGS, product, row_of

import tilework as tw
from tilework.measure import Candidate
from tilework.model.draft import draft_of
from tilework.model.drafted import draft_schedule
from tilework.space import SearchSpace

DRY = "cuda -model=a6000 -run=emulated"


def cublas(size: int) -> dict[str, float]:
    """Seconds of PyTorch's product on the device; nothing where there is no such PyTorch."""
    try:
        import torch
    except ImportError:
        print("cuBLAS is left out: PyTorch is not installed (pip install torch)")
        return {}
    if not torch.cuda.is_available():
        print("cuBLAS is left out: this PyTorch finds no CUDA device")
        return {}
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    found = {}
    for name, tf32 in (("cuBLAS", False), ("cuBLAS, TF32", True)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        times = []
        for _ in range(12):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            torch.mm(a, b)
            last.record()
            last.synchronize()
            times.append(1e-3 * first.elapsed_time(last))
        found[name] = sorted(times[2:])[5]
    return found


def main() -> None:
    """Measure the rungs together, print, count pairs."""
    parser = arguments(__doc__)
    parser.add_argument("--size", type=int, default=4096)
    args = parser.parse_args()
    target = begin(args.target, args.dry_run, DRY)
    size = 128 if args.dry_run else args.size
    task = product(size, target)
    space = SearchSpace.of(task)
    rows = {rung.name: row_of(task, rung) for rung in RUNGS}
    choice = draft_schedule(task)
    rows["best of the draft"] = (choice.sketch_id, choice.row)
    candidates = [Candidate(sketch, row, 0.0, "") for sketch, row in rows.values()]
    with tw.Measurer(target) as measurer:
        measured = measurer.finals(task, candidates)
    published = {rung.name: rung.published for rung in RUNGS}
    print("| schedule | measured TFLOP/s | draft | published, A6000 |\n|---|---|---|---|")
    found: dict[str, dict[str, Any]] = {}
    for (name, (sketch, row)), one in zip(rows.items(), measured, strict=True):
        rows_of_one = np.array([row], np.int32)
        draft = float(draft_of(target).seconds(space.sketch(sketch), rows_of_one)[0])
        found[name] = {"seconds": one.latency_s, "draft_s": draft, "error": one.error}
        speed = one.error or "-" if one.latency_s is None else _speed(task.flops, one.latency_s)
        print(f"| {name} | {speed} | {_speed(task.flops, draft)} | {published.get(name, '')} |")
    for name, seconds in (cublas(size) if target.run == "device" else {}).items():
        found[name] = {"seconds": seconds}
        print(f"| {name} | {_speed(task.flops, seconds)} | | |")
    right, pairs = _ordered([found[rung.name] for rung in RUNGS])
    print(f"pairs of the six that the draft orders as measured: {right} of {pairs}")
    finish(args.json, target, {"size": size, "rungs": found, "ordered": [right, pairs]})


def _speed(flops: float, seconds: float) -> str:
    return f"{1e-12 * flops / seconds:.3g}"


def _ordered(rungs: list[dict[str, Any]]) -> tuple[int, int]:
    pairs = [(a, b) for a, b in itertools.combinations(rungs, 2) if a["seconds"] and b["seconds"]]
    right = sum((a["seconds"] < b["seconds"]) == (a["draft_s"] < b["draft_s"]) for a, b in pairs)
    return right, len(pairs)


if __name__ == "__main__":  # worker processes import this file
    main()
