"""Convolutions of a network, each compiled alone, beside the machine's multiply-add peak.

Each is compiled with its best record for that number of threads or, without one, with the draft
model's choice (or that among direct forms alone, no Winograd), and timed with packed weights and
warm caches; the best of five samples counts. Operations are those of the direct convolution, also
where a schedule does fewer.
"""

from __future__ import annotations

from typing import Any

import tilework as tw
from tilework.compiler import compile_task
from tilework.kinds.cpu.calibrate.peak import fma_peak_gflops
from tilework.model.drafted import draft_schedule
from tilework.record import History
from tilework.space import SearchSpace


def convolutions(target: tw.Target, network: str) -> list[tw.SearchTask]:
    """The distinct convolutions of a network, one epilogue of each."""
    tasks, _ = tw.extract_tasks(tw.zoo.get(network), target)
    found: dict[str, tw.SearchTask] = {}
    for task in tasks:
        operators, _, extents = task.desc.partition(" ")
        if operators.startswith("conv2d"):
            found.setdefault(extents, task)
    return list(found.values())


def peak_table(
    network: str, threads: int, records: History | None, direct: bool
) -> dict[str, Any]:
    """Peak and layers at one number of threads."""
    target = tw.Target(f"llvm -num-cores={threads}")
    peak = fma_peak_gflops(target, threads=threads)
    print(f"\n{target}: measured peak {peak:.0f} GFLOP/s")
    print(f"{'layer':48s} {'schedule':9s} {'ms':>8s} {'GFLOP/s':>8s} {'of peak':>8s}")
    rows = []
    for task in convolutions(target, network):
        if direct:
            choice = draft_schedule(task, direct=True)
            function = compile_task(task, sketch_id=choice.sketch_id, row=choice.row)
        else:
            function = compile_task(task, records)
        ms = function.benchmark(repeat=5, min_repeat_ms=20).min
        gflops = task.flops / ms * 1e-6
        rows.append({
            "layer": task.desc, "schedule": function.choice.source, "ms": ms, "gflops": gflops,
            "of_peak": gflops / peak, "sketch_id": function.choice.sketch_id,
            "sketch": SearchSpace.of(task).sketch(function.choice.sketch_id).name,
            "decisions": list(function.choice.row),
        })  # fmt: skip
        print(
            f"{task.desc:48s} {function.choice.source:9s} {ms:8.3f} {gflops:8.1f} "
            f"{gflops / peak:8.1%}"
        )
    return {"target": str(target), "threads": threads, "peak_gflops": peak, "layers": rows}
