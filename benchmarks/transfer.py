"""How well a model ranks programs of a target and of networks that it has not seen.

    python benchmarks/transfer.py [--seeds 5] [--jobs 2] [--ablations] [--cpus] [--json FILE]

Reads the recorded dataset (`record_replay.py`): random and grid rows, which nobody searched for.
One target and a third of the networks are held out in turn (with every workload of their shapes,
on all targets), so that each of the eight targets is judged on all seven networks. Printed are, by
target, mean and spread over the seeds:

- top-1 and top-5: time of the networks' fastest programs over that of the best of the first one or
  five by the ranker's word (`tilework.model.judge.top_k`);
- pairs: share of pairs ordered rightly, mean over workloads.

First nothing is known of the target; then 64 rows of each workload of the networks not judged.
``--ablations`` takes parts of the model away, ``--cpus`` holds a kind of CPU out. The draft's
numbers of machines are those of its table, whatever was measured on this host.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, pstdev

from _dataset import DATASET, read_calls
from _judged import (
    OWN_ROWS,
    Judged,
    Ranker,
    Subject,
    across,
    called,
    judge,
    network_folds,
    read_subjects,
    without_this_machine,
)

from tilework.model import MANY, XGBParams
from tilework.model.judge import Case, Fold, by_target, interval, pairs, top_k

GROUPS = (
    ("resnet-18", "mobilenet", "mlp"),
    ("resnet-50", "squeezenet_v1.1"),
    ("inception_v3", "encoder"),
)
"""Networks that are held out together."""
MODEL = replace(MANY, members=0)  # nobody asks here how sure it is
PLAIN = XGBParams(objective="throughput", draft=False, machine=False, members=0, max_records=10**6)
"""The published objective: throughput relative to the best, no draft, nothing of the machine."""
METRICS: dict[str, Callable[[Sequence[Case], str], float]] = {
    "top-1": lambda cases, ranker: top_k(cases, ranker, 1),
    "top-5": lambda cases, ranker: top_k(cases, ranker, 5),
    "pairs": pairs,
}
SHARED = replace(MODEL, own_least=10**9)
"""The same where the held-out target has no record: other targets' own trees have no say in it."""
RANKERS = (
    Ranker("draft"),
    Ranker("transfer", others=True, params=SHARED),
    Ranker("own, 64", own=OWN_ROWS, params=MODEL),
    Ranker("transfer, own 64", others=True, own=OWN_ROWS, params=MODEL),
)
ABLATIONS = (
    Ranker("transfer, no machine inputs", others=True, params=replace(SHARED, machine=False)),
    Ranker("transfer, no draft", others=True, params=replace(SHARED, draft=False)),
    Ranker("transfer, published objective", others=True, params=PLAIN),
    Ranker("own 64, no draft", own=OWN_ROWS, params=replace(MODEL, draft=False)),
    Ranker("own 64, published objective", own=OWN_ROWS, params=PLAIN),
    Ranker("transfer, then own 64", own=OWN_ROWS, params=MODEL, onward="transfer"),
)
"""Parts of the model alone; the last goes on from the stored model, as a session does."""


def short(target: str) -> str:
    """A column's head: the CPU, its precision where it is not float32, and threads."""
    words = target.split()
    name = words[1].rpartition("-")[2].rpartition("=")[2]
    return f"{name}{' bf16' if 'bf16' in target else ''} x{words[-1].rpartition('=')[2]}"


_WORK: list[tuple[Sequence[Subject], Sequence[Fold], Sequence[Ranker], Callable[..., float]]] = []


def _seed(seed: int) -> Judged:
    return judge(*_WORK[0], seed)


def judged(
    subjects: Sequence[Subject],
    planned: Sequence[Fold],
    rankers: Sequence[Ranker],
    weight: Callable[[Fold, str], float],
    seeds: int,
    jobs: int,
) -> list[Judged]:
    """`judge` with each seed, in processes of their own; features are shared with them."""
    if jobs < 2 or seeds < 2:
        return [judge(subjects, planned, rankers, weight, seed) for seed in range(seeds)]
    _WORK[:] = [(subjects, planned, rankers, weight)]
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        return list(pool.map(_seed, range(seeds)))


def tables(found: Sequence[Judged]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """By metric, ranker and target one number a seed; ``mean`` is over targets."""
    out: dict[str, dict[str, dict[str, list[float]]]] = {}
    for metric, measure in METRICS.items():
        for ranker in found[0].cases[0].scores:
            row: dict[str, list[float]] = {}
            for one in found:
                values = {
                    short(target): measure(cases, ranker)
                    for target, cases in by_target(one.cases).items()
                }
                for name, value in (values | {"mean": fmean(values.values())}).items():
                    row.setdefault(name, []).append(value)
            out.setdefault(metric, {})[ranker] = row
    return out


def show(title: str, table: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> None:
    """Print a table in Markdown: means over the seeds, and the spread of the last column."""
    print(f"\n{title}\n")
    for metric, rankers in table.items():
        columns = list(next(iter(rankers.values())))
        print(f"| {metric} | " + " | ".join(columns) + " | spread |")
        print("|---|" + "---|" * (len(columns) + 1))
        for ranker, row in rankers.items():
            cells = [f"{fmean(row[c]):.3f}" for c in columns]
            print(f"| {ranker} | " + " | ".join(cells) + f" | {pstdev(row['mean']):.3f} |")
        print()


def compared(found: Sequence[Judged], ranker: str, others: Sequence[str]) -> dict[str, object]:
    """Differences of a ranker to others with their 90 % intervals, of the first seed; printed."""
    out: dict[str, object] = {}
    for other in others:
        for k in (1, 5):
            low, middle, high = interval(found[0].cases, ranker, other, k)
            print(f"top-{k}, {ranker} - {other}: {middle:+.3f} ({low:+.3f} to {high:+.3f})")
            out[f"{ranker} - {other}, top-{k}"] = [low, middle, high]
    return out


def training(found: Sequence[Judged]) -> dict[str, tuple[float, float]]:
    """By ranker, mean records and seconds of one core of a training; printed."""
    out = {}
    for name, runs in found[0].training.items():
        records, seconds = (fmean(r[i] for r in runs) for i in (0, 1))
        if records:
            print(f"training, {name}: {records:,.0f} records, {seconds:.2f} s of one core")
            out[name] = (records, seconds)
    return out


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATASET, help="the dataset")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of models and draws")
    parser.add_argument("--jobs", type=int, default=1, help="seeds that run at once")
    parser.add_argument("--ablations", action="store_true", help="also parts of the model alone")
    parser.add_argument("--cpus", action="store_true", help="also hold out a kind of CPU")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    calls = read_calls(args.data)
    with tempfile.TemporaryDirectory() as folder:
        without_this_machine(Path(folder))
        subjects = read_subjects(args.data)
        targets = {s.pair[1] for s in subjects}
        second = {target for target in targets if "x86-64-v" not in target}
        eight = targets - second
        rows = sum(len(s.latency_s) for s in subjects)
        print(f"{len(subjects)} workloads on {len(targets)} targets, {rows} rows")
        rankers = [*RANKERS, *(ABLATIONS if args.ablations else ())]
        planned = network_folds(subjects, calls, GROUPS, eight)
        found = judged(subjects, planned, rankers, called(calls), args.seeds, args.jobs)
        document: dict[str, object] = {"targets": tables(found)}
        show("One target and a third of the networks held out in turn", tables(found))
        document["intervals"] = compared(found, "transfer", ["draft", "own, 64"]) | compared(
            found, "transfer, own 64", ["draft", "own, 64"]
        )
        document["training"] = training(found)
        if args.cpus:
            for title, here, there in (
                ("Zen 4, learnt from the other CPU", second, eight),
                ("The eight targets, learnt from Zen 4", eight, second),
            ):
                planned = across(subjects, calls, GROUPS, here, there)
                weight = called(calls) if here is eight else _once
                found = judged(subjects, planned, rankers, weight, args.seeds, args.jobs)
                show(title, tables(found))
                document[title] = tables(found)
    if args.json:
        args.json.write_text(json.dumps(document, indent=1))


def _once(fold: Fold, key: str) -> float:
    return 1.0


if __name__ == "__main__":
    main()
