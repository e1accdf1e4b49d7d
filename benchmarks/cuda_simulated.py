"""The search for a GPU without one: what it finds, learns and survives on a simulated device.

    python benchmarks/cuda_simulated.py [--trials 480] [--target "cuda -model=a100 -run=simulated"]

1. ResNet-18 is tuned by the command line; the process is killed (kill -9) on its way, and the same
   command goes on. The table of its 24 tasks, and how the estimated latency fell.
2. The same without a kill, in a store of its own: the same programs with the same latencies?
3. The network for batch 4, whose workloads are all new, with and without what was learned in 1.
4. Peak-score@5 of the draft, and of a model that has seen other tasks, on tasks it has not seen.

Latencies are invented (see `tilework.kinds.cuda.simulate`): this measures the search, no GPU.
Records stay in the folder of the stores, so that a second call goes on. Ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tilework as tw
from flows.convergence import convergence
from storage import RecordStore
from tilework.kinds.cuda.draft import terms
from tilework.kinds.cuda.features.terms import TERMS
from tilework.kinds.cuda.simulate import NOISE, bias
from tilework.model import Batch, Observation, XGBModel
from tilework.model.draft import draft_of
from tilework.model.metrics import pairwise_accuracy, peak_score
from tilework.record import Record
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.target.runs import caveat

DEVICES = ("a100", "h100", "rtx4090", "a6000", "t4", "l4")
ROWS = 192
PARTS = ("killed", "whole", "unseen", "warm")


def command(args: argparse.Namespace, store: Path, *more: str) -> list[str]:
    """The tuning command of a part."""
    return [
        sys.executable, "-m", "flows.cli", "tune", args.network, "--target", args.target,
        "--trials", str(args.trials), "--store", str(store), "--no-prefect", "--json", *more,
    ]  # fmt: skip


def run(words: list[str]) -> dict[str, Any]:
    """What a command reports."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def killed(args: argparse.Namespace, store: Path) -> dict[str, Any]:
    """Tune, die after a third of the rounds, tune on."""
    rounds = max(2, args.trials // 24 // 3)
    began = time.monotonic()
    process = subprocess.Popen(
        command(args, store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and len(list(store.glob("round-*.parquet"))) < rounds:
        time.sleep(0.02)
    died = process.poll() is None
    if died:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(list(store.glob("round-*.parquet")))
    report = run(command(args, store))
    print_table(report)
    print(
        f"killed after {kept} rounds: {died}; found again: {report['resumed_rounds']}; "
        f"{report['rounds']} rounds, {report['trials']} trials, "
        f"{time.monotonic() - began:.0f} s in all; failures {report['failures'] or 'none'}"
    )
    found = RecordStore(store).read()
    rows = [r for r in found if r.purpose == "search"]
    assert len({(r.workload_key, r.sketch_id, r.decisions) for r in rows}) == len(rows)
    print_convergence(found, len(report["tasks"]))
    return {"kept": kept, "resumed": report["resumed_rounds"], "seconds": report["elapsed_s"]}


def print_table(report: dict[str, Any]) -> None:
    """The task table of a report."""
    print("| ID | task | weight | latency (ms) | GFLOP/s | trials |\n|---|---|---|---|---|---|")
    for row in report["tasks"]:
        print(
            f"| {row['id']} | {row['desc']} | {row['weight']:g} | {row['latency_ms']:.4f} "
            f"| {row['gflops']:.0f} | {row['trials']} |"
        )
    print(f"estimated total: {report['estimated_total_ms']:.4f} ms")


def print_convergence(records: list[Record], tasks: int) -> list[tuple[int, float]]:
    """The sum of best latencies after doublings of the trials."""
    weights = dict.fromkeys((r.workload_key for r in records), 1.0)
    curve = convergence(records, weights)
    out: list[tuple[int, float]] = []
    measured = slice(curve.assumed, None)  # from here on, every task is
    after = dict(zip(curve.trials[measured], curve.total_s[measured], strict=True))
    for trials, total in after.items():
        if not out or trials >= 1.4 * out[-1][0] or trials == curve.trials[-1]:
            out.append((trials, 1e3 * total))
    shown = ", ".join(f"{total:.4f} ms after {trials}" for trials, total in out)
    print(f"sum of the {tasks} tasks' best latencies: {shown}")
    return out


def same_programs(one: Path, other: Path) -> dict[str, Any]:
    """Whether two stores hold the same programs with the same latencies, round by round."""

    def content(path: Path) -> list[Any]:
        rows = RecordStore(path).read()
        return sorted((r.round, r.workload_key, r.sketch_id, r.decisions, r.latency_s or 0.0)
                      for r in rows)  # fmt: skip

    first, second = content(one), content(other)
    equal = first == second
    print(f"the run that was killed and the one that was not hold the same records: {equal}")
    return {"equal": equal, "records": [len(first), len(second)]}


def warm(args: argparse.Namespace, store: Path, cold: Path) -> dict[str, Any]:
    """The network with another batch size, in the store with records and in an empty one."""
    found = {}
    for name, where in (("warm", store), ("cold", cold)):
        report = run(command(args, where, "--batch", "4", "--seed", "1"))
        rows = [r for r in RecordStore(where).read() if r.run_id == report["run_id"]]
        print(f"batch 4, {name}: {report['estimated_total_ms']:.4f} ms")
        found[name] = {
            "total_ms": report["estimated_total_ms"],
            "curve": print_convergence(rows, len(report["tasks"])),
        }
    return found


def unseen(args: argparse.Namespace) -> dict[str, Any]:
    """How well the draft, and a model of other tasks, rank programs of a task, by device."""
    print("| device | draft: peak-score@5 | pairs | learned: peak-score@5 | pairs |")
    print("|---|---|---|---|---|")
    found = {}
    for device in DEVICES:
        table = np.array(list(rankings(args.network, device)))
        found[device] = dict(zip(("draft", "draft_pairs", "learned", "learned_pairs"),
                                 table.mean(axis=0).tolist(), strict=True))  # fmt: skip
        shown = " | ".join(f"{value:.3f}" for value in found[device].values())
        print(f"| {device}, {len(table)} convolutions | {shown} |")
    return found


def rankings(network: str, device: str) -> Iterator[list[float]]:
    """Of each convolution: peak-score@5 and pairs in order, by the draft, by a model of others.

    Programs are those that a search looks at: of random ones the better tenth by the draft. Their
    latencies are the simulated device's with the registers that are predicted, so that none of
    them is built. A model has seen two thirds of the other convolutions.
    """
    target = Target(f"cuda -model={device} -run=simulated")
    tasks = [t for t in tw.extract_tasks(tw.zoo.outline(network), target)[0] if "conv" in t.desc]
    observed = [_looked_at(task, seed) for seed, task in enumerate(tasks)]
    for third in range(3):
        model = XGBModel()
        for number, observation in enumerate(observed):
            if number % 3 != third:
                model.observe(observation)
        model.fit()
        for observation in observed[third::3]:
            batch, latency = observation.batch, observation.latency_s
            scores = -batch.draft_s, model.predict(batch)
            yield [f(score, latency) for score in scores for f in (peak_score, pairwise_accuracy)]


def _looked_at(task: tw.SearchTask, seed: int) -> Observation:
    target: Any = task.target
    rng, draft = np.random.default_rng(seed), draft_of(target)
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(rng, 10 * ROWS)
    rows = rows[np.argsort(draft.seconds(sketch, rows), kind="stable")[:ROWS]]
    rows = rows[rng.permutation(len(rows))]
    factors = {term: bias(target.device.name, term) for term in TERMS}
    seconds = terms(sketch, rows).total(factors) * rng.lognormal(sigma=NOISE, size=len(rows))
    return Observation(Batch(task.workload_key, task.flops, sketch, rows, draft), seconds)


def main() -> None:
    """The parts, in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="resnet-18")
    parser.add_argument("--target", default="cuda -model=a100 -run=simulated")
    parser.add_argument("--trials", type=int, default=480, help="of each run")
    parser.add_argument("--folder", type=Path, default=Path("simulated"), help="of the stores")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    print(f"{args.target}: {caveat(args.target)}")
    one, whole, cold = (args.folder / name for name in ("killed", "whole", "cold"))
    found: dict[str, Any] = {}
    for part in args.parts.split(","):
        if part == "killed":
            found[part] = killed(args, one)
        elif part == "whole":
            run(command(args, whole))
            found[part] = same_programs(one, whole)
        elif part == "unseen":
            found[part] = unseen(args)
        elif part == "warm":
            found[part] = warm(args, one, cold)
        else:
            sys.exit(f"--parts {part}: write some of {', '.join(PARTS)}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":  # worker processes import this file
    main()
