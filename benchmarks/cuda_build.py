"""How long does it take to build what a search proposes for a GPU? No GPU is needed.

    python benchmarks/cuda_build.py [--network resnet-18] [--target "cuda -model=a100"]
    python benchmarks/cuda_build.py --random     # random valid rows instead of the search's choice
    python benchmarks/cuda_build.py --archs sm_80,sm_90,sm_100,sm_120 --random --count 96

Candidates of a network's tasks, shared out evenly, are lowered, printed, compiled and read by a
few processes, as a search has it done; what their code says is summed up by form of kernel.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tilework.graph import extract_tasks, zoo
from tilework.kinds.cuda.tiling import form_of
from tilework.lower.protocol import builder_of
from tilework.measure.jobs import build
from tilework.measure.replies import BuildReply
from tilework.measure.settings import Settings
from tilework.record import MemoryHistory
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

ENOUGH_S = 5.0
"""What 64 candidates on two cores may take."""


@dataclass(frozen=True)
class Program:
    """A candidate, and the forms of its kernels."""

    task: bytes
    sketch_id: int
    row: tuple[int, ...]
    forms: str


def programs(tasks: Sequence[SearchTask], count: int, at_random: bool) -> list[Program]:
    """``count`` candidates, of every task about as many, one task after the other."""
    shares = [count // len(tasks) + (i < count % len(tasks)) for i in range(len(tasks))]
    pairs = zip(tasks, shares, strict=True)
    return [p for task, share in pairs for p in _of_task(task, share, at_random)]


def _of_task(task: SearchTask, count: int, at_random: bool) -> list[Program]:
    sketches = {sketch.id: sketch for sketch in SearchSpace.of(task).sketches}
    chosen: list[tuple[int, tuple[int, ...]]] = []
    if at_random:
        rng = np.random.default_rng(0)
        for number in range(count):
            sketch = list(sketches.values())[number % len(sketches)]
            rows = sketch.sample(rng, 1)
            chosen += [(sketch.id, tuple(int(v) for v in row)) for row in rows]
    else:
        from tilework.search import SketchPolicy

        proposed = SketchPolicy(task).propose(MemoryHistory(), count)
        chosen = [(c.sketch_id, c.row) for c in proposed]
    pickled = pickle.dumps(task)
    return [
        Program(pickled, i, row, "+".join(dict.fromkeys(map(form_of, sketches[i].blocks))))
        for i, row in chosen
    ]


def warm_up(target: str) -> None:
    """What a worker does once: load the compiler."""
    from tilework.kinds.cuda.source import nvrtc

    builder_of(Target(target))
    nvrtc.cubin("", Target(target).arch, "empty")  # type: ignore[attr-defined]


def built(settings: Settings, program: Program) -> tuple[BuildReply, float]:
    """One candidate, as a search's worker builds it, and seconds of a processor."""
    began = time.process_time()
    reply = build(program.task, settings, program.sketch_id, program.row)
    return reply, time.process_time() - began


def summary(found: Sequence[Program], replies: Sequence[BuildReply], wall_s: float) -> dict:
    """What came of it, for the file of a report."""
    times = [r.build_s * 1e3 for r in replies if r.build_s is not None]
    by_form: dict[str, Counter[str]] = {}
    for program, reply in zip(found, replies, strict=True):
        by_form.setdefault(program.forms, Counter())[str(reply.status)] += 1
    facts = [r.facts for r in replies if r.facts]
    errors = Counter(r.error[:160] for r in replies if r.error and not r.facts)
    return {
        "candidates": len(found),
        "wall_s": wall_s,
        "median_ms": statistics.median(times) if times else None,
        "slowest_ms": max(times, default=None),
        "by_form": {form: dict(counts) for form, counts in sorted(by_form.items())},
        "registers": sorted(f["registers"] for f in facts),
        "spilled": sum(f["spill_bytes"] > 0 for f in facts),
        "errors": dict(errors.most_common(5)),
    }


def measured(target: str, network: str, count: int, processes: int, at_random: bool) -> dict:
    """Build candidates of a network for a target."""
    tasks, _ = extract_tasks(zoo.get(network), target)
    found = programs(tasks, count, at_random)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, warm_up, (target,)) as pool:
        list(pool.map(abs, range(4 * processes)))  # the processes are there
        began = time.perf_counter()
        pairs = list(pool.map(partial(built, Settings()), found))
        wall_s = time.perf_counter() - began
    replies, seconds = zip(*pairs, strict=True)
    cpu = {"cpu_s": sum(seconds), "target": target, "network": network}
    return {**cpu, **summary(found, replies, wall_s)}


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--network", default="resnet-18")
    parser.add_argument("--target", default="cuda -model=a100")
    parser.add_argument("--archs", default="", help="several architectures instead of the target")
    parser.add_argument("--count", type=int, default=64, help="candidates")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--random", action="store_true", help="random valid rows")
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    args = parser.parse_args()
    archs = filter(None, args.archs.split(","))
    targets = [f"cuda -arch={arch}" for arch in archs] or [args.target]
    results = []
    for target in targets:
        result = measured(target, args.network, args.count, args.processes, args.random)
        results.append(result)
        registers = result["registers"] or [0]
        print(
            f"{target}: {result['candidates']} candidates of {args.network} in "
            f"{result['wall_s']:.2f} s on {args.processes} processes, "
            f"{result['cpu_s']:.1f} s of processors "
            f"(median, most ms: {result['median_ms'] or 0:.0f}, {result['slowest_ms'] or 0:.0f}); "
            f"registers {registers[0]:.0f} to {registers[-1]:.0f}, {result['spilled']} spill"
        )
        for form, counts in result["by_form"].items():
            print(f"  {form:24s} " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
        for error, number in result["errors"].items():
            print(f"  {number} x {error}")
        if args.count == 64 and args.processes == 2:
            verdict = "within" if result["wall_s"] < ENOUGH_S else "OVER"
            print(f"  {verdict} the {ENOUGH_S:g} s that they may take")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
