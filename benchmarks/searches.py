"""One search of a family over eight points against eight searches, each of one of the points.

    python benchmarks/searches.py [--cases dense,scores,softmax] [--trials 32] [--seed 0]

Each of the eight searches makes ``--trials`` trials; that of the family as many as four of them
together, at most. A trial is one program measured at one point. What each would be compiled with
after some trials (of the family: one row, or two with a hand-over) is timed again at the end, all
of them in turns. A line says the geometric mean over the points of that time over the best of all
at the point, and after how many trials it is near (1.10 and 1.05): the fewest of each arm.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import open_extents

from tilework import te
from tilework.compiler.families import recorded
from tilework.index.extents import Extent
from tilework.index.symbols import symbol
from tilework.measure import Measurer
from tilework.measure.candidates import Candidate
from tilework.model.family import Member, family_of, members_of
from tilework.record import MemoryHistory, Purpose, Record, best_of
from tilework.search import TuningOptions, TuningRun, TuningSession
from tilework.search.family import FamilySpace
from tilework.search.tune import run_round
from tilework.target import Target
from tilework.target.identity import device_here
from tilework.task import SearchTask

LENGTHS = (16, 32, 64, 100, 128, 256, 384, 512)
CASES: dict[str, tuple[Callable[[Extent], te.ComputeDAG], tuple[int, ...]]] = {
    "dense": (lambda s: open_extents.dense(768, s), LENGTHS),
    "scores": (open_extents.scores, LENGTHS),
    "softmax": (lambda s: open_extents.softmax(s, s), tuple(range(64, 513, 64))),
}
"""A computation of a length, and the points; softmax where all of its cuts are whole ones, for
programs are timed as static ones."""
NEAR = (1.10, 1.05)
BATCHES = 4, 2
"""Candidates of a round: of a static task, and of a family."""

Program = tuple[int, tuple[int, ...]]
"""A static sketch's id and a row."""


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mcpu", default="native")
    args = parser.parse_args()
    target = Target(f"llvm -mcpu={args.mcpu} -num-cores=1")
    with Measurer(target) as measurer:
        for name in args.cases.split(","):
            declared, points = CASES[name]
            task = SearchTask(declared(symbol("S", 1, 521, points)), target, name)
            compare(name, task, measurer, args.trials, args.seed)


def compare(name: str, task: SearchTask, measurer: Measurer, trials: int, seed: int) -> None:
    """Search a task both ways, and print how near each is after how many trials."""
    members = members_of(task, family_of(task))
    count, (few, many) = len(members), BATCHES
    each = len(FamilySpace(task).members)
    alone = [searched(member.task, measurer, trials, few, seed) for member in members]
    together = searched(task, measurer, trials * count // 2, many, seed)
    steps = [2**i for i in range(20)]
    arms = {
        "eight": {
            n * count: [best_alone(records[:n]) for records in alone] for n in steps if n <= trials
        },
        "one": {
            n * each: best_together(task, members, together, n)
            for n in steps
            if n * each <= len(together)
        },
    }
    proved = [
        prove(member, {chosen[i] for arm in arms.values() for chosen in arm.values()}, measurer)
        for i, member in enumerate(members)
    ]
    best = [min(seconds.values()) for seconds in proved]
    for arm, courses in arms.items():
        over = {
            count: math.exp(
                np.mean([math.log(proved[i][p] / best[i]) for i, p in enumerate(chosen)])
            )
            for count, chosen in courses.items()
        }
        text = ", ".join(f"{count}: {ratio:.3f}" for count, ratio in over.items())
        near = ", ".join(
            f"{limit:.2f} after {min((n for n, r in over.items() if r <= limit), default='-')}"
            for limit in NEAR
        )
        print(f"{name}, {arm}: {text}; {near}", flush=True)
        last = list(courses)[-1]
        ratios = (proved[i][p] / best[i] for i, p in enumerate(courses[last]))
        print(f"    after {last}, by point: {' '.join(f'{r:.2f}' for r in ratios)}", flush=True)


def searched(
    task: SearchTask, measurer: Measurer, trials: int, batch: int, seed: int
) -> list[Record]:
    """The trials of a search, in their order."""
    history = MemoryHistory()
    options = TuningOptions(
        num_measure_trials=trials, num_measures_per_round=batch, warmup_measures=batch, finalists=0
    )
    session = TuningSession(TuningRun([task], options, "run", seed=seed), history)
    while (index := session.next_task()) is not None:
        run_round(session, index, measurer)
    records = [r for r in history.read() if r.purpose == Purpose.search]
    return sorted(records, key=lambda r: r.round)


def best_alone(records: Sequence[Record]) -> Program:
    """What a static task is compiled with by some records."""
    best = best_of(records)
    assert best is not None
    return best.sketch_id, best.decisions


def best_together(
    task: SearchTask, members: Sequence[Member], records: Sequence[Record], count: int
) -> list[Program]:
    """What runs at each point of a family that is compiled with the first candidates."""
    keys = {member.task.workload_key: [] for member in members}
    for record in records:
        keys[record.workload_key].append(record)
    history = MemoryHistory(r for own in keys.values() for r in own[:count])
    choice = recorded(task, history, None, device=device_here(task.target))
    assert choice is not None
    out = []
    for member in members:
        (length,) = member.at.values()
        number, row = choice.schedules[0]
        if choice.small is not None and length <= choice.small.most:
            number, row = choice.schedules[1]
        twin = member.twins[number]
        placed = twin.placed(np.array([row], np.int32))[0][0]
        out.append((twin.static.id, tuple(int(n) for n in placed)))
    return out


def prove(member: Member, programs: Iterable[Program], measurer: Measurer) -> dict[Program, float]:
    """Seconds of programs at a point, timed in turns."""
    ordered = sorted(programs)
    candidates = [Candidate(number, row, 0.0, "draft") for number, row in ordered]
    measured = measurer.finals(member.task, candidates)
    return {p: one.latency_s or math.inf for p, one in zip(ordered, measured, strict=True)}


if __name__ == "__main__":
    main()
