"""Real searches side by side: ours and Ansor's, and with knowledge of another target and without.

    taskset -c 1 python benchmarks/live.py baseline --work DIR
    python benchmarks/live.py teach --work DIR --source STORE ... [--to TARGET]
    taskset -c 1 python benchmarks/live.py transfer --work DIR --source STORE ... [--to TARGET]
    python benchmarks/live.py report --work DIR

``baseline``: eight layers that set no constant of the search, a few seeds each. A layer's searches
take turns, round by round. In the end all programs that were the best so far of a search are timed
again, in turns (`_proved.py`), and trials count until the best so far takes at most 1.05 times as
long as the best of all.

``transfer``: a search from scratch of 1,000 trials for ``--to``, and one whose store begins with
the records of ``--target`` of the stores given with ``--source``, and with a model. The model is
what ``teach`` has made before of all targets of these stores but ``--to``; of the layers that are
searched here it has seen what the searches are given: the records of ``--target``. Trials count
until the best so far takes at most 1.05 times as long as the best from scratch.

All of it is kept in the folder ``--work``: killed and started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from _dataset import tasks_of
from _live import Search, ansor, file_name, ours, take_turns
from _proved import prove, proved_course, trials_within

from storage import RecordStore
from storage.cards import Card
from tasks.learning.trees import trained
from tilework.measure import Measurer
from tilework.model import Observation
from tilework.record import Record
from tilework.search.corpus import lessons
from tilework.space import space_of
from tilework.target import Target
from tilework.task import SearchTask
from tilework.version import __version__

NEAR = 1.05
"""A program that takes at most so many times as long as the best is near it."""
TARGET = "llvm -mcpu=x86-64-v4 -num-cores=1"
LAYERS = {
    "3x3 28x28x128": ("resnet-50", "conv2d+add+relu 1x28x28x128 k3 s1 -> 128"),
    "3x3 s2 14x14x256": ("resnet-18", "conv2d+add+relu 1x14x14x256 k3 s2 -> 512"),
    "1x1 s2 56x56x256": ("resnet-50", "conv2d+add+relu 1x56x56x256 k1 s2 -> 128"),
    "1x1 14x14x512": ("mobilenet", "conv2d+add+relu 1x14x14x512 k1 s1 -> 512"),
    "depthwise s2 14x14x512": ("mobilenet", "conv2d+add+relu 1x14x14x512 k3 s2 g512 -> 512"),
    "dense 1024->1000": ("mobilenet", "dense+add 1x1024 -> 1000"),
    "3x3 55x55x16": ("squeezenet_v1.1", "conv2d+add+relu 1x55x55x16 k3 s1 -> 64"),
    "7x1 17x17x192": ("inception_v3", "conv2d+add+relu 1x17x17x192 k7x1 s1 -> 192"),
}
"""Layers by network and description: none is like one of the replayed layers."""
ARMS = {"tilework": ours, "ansor": ansor}
SCRATCH, WITH = "scratch", "transfer"


def layers(target: str, names: Iterable[str]) -> dict[str, SearchTask]:
    """The tasks of the layers for a target."""
    where, found = Target(target), {}
    for name in names:
        network, desc = LAYERS[name]
        tasks = [t for t, _ in tasks_of(network, where, "f32") if t.desc == desc]
        if not tasks:
            raise SystemExit(f"{network} has no task {desc!r} for {target}")
        found[name] = tasks[0]
    return found


# --- ours and the original ---------------------------------------------------------------------


def baseline_searches(args: argparse.Namespace, name: str, task: SearchTask) -> list[Search]:
    """Every arm's searches of a layer."""
    return [
        ARMS[arm](arm, name, task, seed, args.limit, args.work)
        for seed in range(args.seeds)
        for arm in args.arms
    ]


def baseline(args: argparse.Namespace, until: float) -> None:
    """Search, layer by layer; time again what was found."""
    target = Target(args.target)
    for name, task in layers(args.target, args.layers).items():
        searches = baseline_searches(args, name, task)
        began = time.monotonic()
        with Measurer(target) as measurer:
            done = take_turns(searches, measurer, lambda _: 0.0, until)
            if done:
                for arm in args.arms:
                    own = [s for s in searches if s.arm == arm]
                    prove(own, measurer, _proved_file(args.work / arm, name))
        spent = time.monotonic() - began
        print(f"{name}: {spent:.0f} s{'' if done else ', not at its end'}", flush=True)
        if not done:
            return


def report_baseline(args: argparse.Namespace) -> dict[str, object]:
    """Trials of every arm; a search that did not get there counts as all of its trials."""
    print(
        f"trials until within 5 % of the best of all arms and seeds, {args.target}; "
        f"median (least-most) of {args.seeds} seeds"
    )
    head = f"{'layer':24s} {'best us':>8s}" + "".join(f"{a + ':':>28s}" for a in args.arms)
    print(head + f" {'to reach what ansor ends at':>28s}")
    table: dict[str, object] = {}
    for name, task in layers(args.target, args.layers).items():
        found = baseline_searches(args, name, task)
        told = {arm: _told(args.work / arm, name) for arm in args.arms}
        if not all(told.values()):
            continue
        courses = {
            arm: [proved_course(s, told[arm]) for s in found if s.arm == arm and s.course()]
            for arm in args.arms
        }
        best = min(s for each in courses.values() for c in each for _, s in c)
        row: dict[str, object] = {"best_us": 1e6 * best}
        line = f"{name:24s} {1e6 * best:8.1f}"
        for arm in args.arms:
            lengths = [len(s.course()) for s in found if s.arm == arm and s.course()]
            needed = [trials_within(c, NEAR * best) for c in courses[arm]]
            counted = [n or most for n, most in zip(needed, lengths, strict=True)]
            ends = [min(s for _, s in c) for c in courses[arm]]
            row[arm] = {
                "needed": counted, "not_reached": needed.count(None),
                "best_us": [1e6 * end for end in ends],
            }  # fmt: skip
            line += f"{_spread(counted, needed.count(None)):>28s}"
        if {"ansor", "tilework"} <= set(args.arms):
            theirs = statistics.median(min(s for _, s in c) for c in courses["ansor"])
            equal = [trials_within(c, theirs) for c in courses["tilework"]]
            row["to_their_end"] = equal
            text = _spread([e or args.limit for e in equal], equal.count(None))
            line += f" {text:>16s} ({1e6 * theirs:.1f} us)"
        table[name] = row
        print(line)
    return table


def _told(folder: Path, name: str) -> dict[str, float]:
    path = _proved_file(folder, name)
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _spread(values: Sequence[float], short: int) -> str:
    text = f"{statistics.median(values):.0f} ({min(values):.0f}-{max(values):.0f})"
    return text + (f", {short} not" if short else "")


# --- with and without knowledge of another target ------------------------------------------------


def transfer_searches(args: argparse.Namespace, name: str, task: SearchTask) -> list[Search]:
    """Searches of a layer from scratch, and with records of another target and a model."""
    work = args.work / _folder(task.target)
    limits = [args.trials if s else args.scratch for s in range(args.scratch_seeds)]
    scratch = [ours(SCRATCH, name, task, s, most, work) for s, most in enumerate(limits)]
    return scratch + [ours(WITH, name, task, s, args.trials, work) for s in range(args.seeds)]


def transfer(args: argparse.Namespace, until: float) -> None:
    """Search from scratch first, then with what is known of other targets; time the best again."""
    sources = [RecordStore(path, must_exist=True) for path in args.source]
    knowledge = Knowledge(sources, args.target, taught_store(args))
    target = Target(args.to)
    for name, task in layers(args.to, args.layers).items():
        searches = transfer_searches(args, name, task)
        own = [s for s in searches if s.arm == SCRATCH]
        others = [s for s in searches if s.arm == WITH]
        began = time.monotonic()
        with Measurer(target) as measurer:
            done = take_turns(own, measurer, lambda _: 0.0, until)
            if done:
                for search in others:
                    if not search.course():
                        knowledge.give(search.store)
                done = take_turns(others, measurer, lambda _: 0.0, until)
            if done:
                prove(searches, measurer, _proved_file(args.work / _folder(target), name))
        spent = time.monotonic() - began
        print(f"{name}: {spent:.0f} s{'' if done else ', not at its end'}", flush=True)
        if not done:
            return


def _proved_file(folder: Path, name: str) -> Path:
    return folder / "proved" / f"{file_name(name)}.json"


def _folder(target: Target) -> str:
    return str(target).replace(" ", "_")


class Knowledge:
    """What searches with transfer begin with: records of one target, and a model of others.

    Args:
        sources: stores.
        target: whose records count.
        taught: where the model is.
    """

    def __init__(self, sources: Sequence[RecordStore], target: str, taught: RecordStore) -> None:
        self._sources, self._target, self._taught = sources, str(Target(target)), taught
        self._kind = Target(target).kind

    @cached_property
    def _records(self) -> list[Record]:
        found = [r for s in self._sources for r in s.read() if r.target == self._target]
        return list({r.record_id: r for r in found}.values())

    def give(self, store: RecordStore) -> None:
        """Copy it to a store."""
        for key in {r.workload_key for r in self._records}:
            texts = (source.workload(key) for source in self._sources)
            document = next((text for text in texts if text is not None), None)
            if document is not None:
                store.keep_workload(key, document)
        store.append(self._records)
        copy_champion(self._taught, store, self._kind)


def copy_champion(source: RecordStore, store: RecordStore, kind: str) -> None:
    """Make the champion of one store that of another; nothing if there is none."""
    name = source.models.champion_name(kind)
    if name:
        kept = store.models.keep(source.models.card(name), source.models.document(name))
        store.models.promote(kept, by="benchmark")


def taught_store(args: argparse.Namespace) -> RecordStore:
    """Where the model for a target is kept."""
    return RecordStore(args.work / _folder(Target(args.to)) / "taught")


def teach(args: argparse.Namespace, until: float) -> None:
    """Train a model of the sources' other targets, and keep it.

    Of the layers that are searched it learns what the searches begin with, and no more.
    """
    target, kind = str(Target(args.to)), Target(args.to).kind
    known = str(Target(args.target))
    held = {t.workload_key for t in layers(args.to, LAYERS).values()}
    seen: list[Observation] = []
    for path in args.source:
        store = RecordStore(path, must_exist=True)
        others = sorted({text for text, _ in store.keys() if text != target})  # noqa: SIM118
        found = lessons(store, others, keep=lambda key, of: key not in held or of == known)
        seen += [observation for lesson in found for observation in lesson.observations]
    model, store = trained(seen), taught_store(args)
    card = Card(
        kind=kind, created=datetime.now(UTC), engine_version=__version__, code="benchmark",
        rules_version=space_of(Target(args.to)).version, model_id=model.model_id,
        records=sum(len(o.batch) for o in seen), serves=(target,), anywhere=True,
    )  # fmt: skip
    store.models.promote(store.models.keep(card, model.to_json()), by="benchmark")
    print(f"{card.model_id}: {card.records} programs", flush=True)


def report_transfer(args: argparse.Namespace) -> dict[str, object]:
    """Trials with and without transfer, and the ratio, pair by pair."""
    print(f"trials until 95 % of the best of {args.scratch} trials from scratch, {args.to}")
    print(
        f"{'layer':24s} {'from scratch':>18s} {'with transfer':>24s}  share"
        "  best of the first 16, and of all, each search"
    )
    table: dict[str, object] = {}
    shares: list[float] = []
    spent = 0.0, 0.0
    for name, task in layers(args.to, args.layers).items():
        told = _told(args.work / _folder(task.target), name)
        if not told:
            continue
        searches = [s for s in transfer_searches(args, name, task) if s.course()]
        courses = {
            arm: [proved_course(s, told) for s in searches if s.arm == arm]
            for arm in (SCRATCH, WITH)
        }
        best = min(seconds for course in courses[SCRATCH] for _, seconds in course)
        needed = {
            a: [trials_within(c, NEAR * best) for c in found] for a, found in courses.items()
        }
        without = [n or args.scratch for n in needed[SCRATCH]]
        trials = [n or args.trials for n in needed[WITH]]
        missed = needed[WITH].count(None)
        share = [n / statistics.median(without) for n in trials]
        shares += share
        spent = spent[0] + statistics.median(trials), spent[1] + statistics.median(without)
        ends = [
            (min(s for n, s in c if n <= 16) / best, c[-1][1] / best)
            for found in courses.values()
            for c in found
        ]
        table[name] = {
            "scratch": without, "transfer": trials, "missed": missed, "ends": ends, "share": share,
        }  # fmt: skip
        print(
            f"{name:24s} {_spread(without, needed[SCRATCH].count(None)):>18s} "
            f"{_spread(trials, missed):>24s}  {statistics.median(share):.2f}"
            f"  {' '.join(f'{first:.2f}/{last:.2f}' for first, last in ends)}"
        )
    if shares:
        print(
            f"share: median {statistics.median(shares):.3f}, worst {max(shares):.3f}; "
            f"of the sum of all layers' medians {spent[0] / spent[1]:.3f}"
        )
        table["share"] = {"median": statistics.median(shares), "worst": max(shares)}
    return table


def main() -> None:
    """Search, or print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["baseline", "teach", "transfer", "report"])
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps everything")
    parser.add_argument("--layers", default=",".join(LAYERS), help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--target", default=TARGET, help="searched, or known")
    parser.add_argument("--limit", type=int, default=400, help="trials of each search of these")
    parser.add_argument("--to", default="llvm -mcpu=x86-64-v3 -num-cores=1")
    parser.add_argument("--source", nargs="*", type=Path, default=[], help="stores to learn from")
    parser.add_argument(
        "--scratch-seeds",
        type=int,
        default=1,
        help="from scratch; those behind the first have as many trials as those with transfer",
    )
    parser.add_argument("--scratch", type=int, default=1000, help="trials from scratch")
    parser.add_argument("--trials", type=int, default=128, help="trials with transfer")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="then stop, to go on later"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.layers, args.arms = args.layers.split(","), args.arms.split(",")
    unknown = [n for n in args.layers if n not in LAYERS] + [a for a in args.arms if a not in ARMS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; layers: {', '.join(LAYERS)}")
    until = time.monotonic() + 60 * args.minutes
    if args.what == "report":
        found = {"baseline": report_baseline(args), "transfer": report_transfer(args)}
        if args.json:
            args.json.write_text(json.dumps(found, indent=1))
    else:
        {"baseline": baseline, "teach": teach, "transfer": transfer}[args.what](args, until)


if __name__ == "__main__":
    main()
