"""Record the replay dataset: measure programs of a few layers, some drawn, some searched for.

    python benchmarks/record_replay.py --work DIR [--rows 640] [--seconds 80] [--out DIR]

Half of a layer's rows are random samples of its space, a quarter is proposed by the search and a
quarter by the plain Ansor policy, so that a replay can follow either. Rounds go to the record
store ``--work``; the command ends after ``--seconds`` and goes on where it stopped when it is
given again. Once all rows are measured they are written to ``--out`` (default: tests/data/replay)
as one file without timing samples. One thread by default: a machine's other work disturbs several
much more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from _tasks import replay_tasks

from storage import RecordStore
from tilework.measure import Measurer
from tilework.measure.candidates import Candidate
from tilework.measure.records import to_records
from tilework.model import XGBModel
from tilework.model.plain import PlainModel
from tilework.record import Record
from tilework.search import PolicyParams, SketchPolicy
from tilework.search.corpus import keep_workloads
from tilework.search.known import observations
from tilework.search.options import PLAIN_POLICY
from tilework.search.seeding import generator
from tilework.space import SearchSpace, space_of
from tilework.target import Target
from tilework.target.identity import identity_of
from tilework.task import SearchTask

BATCH = 32
SAMPLED = "sample"
"""Model id of candidates that were drawn at random."""
DISTURBED = 1.2
"""A round is thrown away, and measured again by new processes, when the best program known then
takes so many times its recorded latency: something else disturbs the machine."""
OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "replay"


class TaskRecording:
    """The rounds of one task: samples, then what the search and the plain policy propose."""

    def __init__(self, task: SearchTask, store: RecordStore, rows: int, number: int) -> None:
        self.task, self._store, self._rows, self._number = task, store, rows, number
        self._version = space_of(task.target).version
        self._policies = {
            "search": SketchPolicy(task, XGBModel(), params=PolicyParams(population=1024)),
            "plain": SketchPolicy(task, PlainModel(), params=replace(PLAIN_POLICY)),
        }

    @property
    def records(self) -> list[Record]:
        """What is measured so far, under the present rules."""
        found = self._store.of(self.task.workload_key, str(self.task.target))
        return [r for r in found if r.rules_version == self._version]

    def proposal(self) -> list[Candidate]:
        """The next round's candidates; empty when the task is done."""
        records = self.records
        left = self._rows - len(records)
        if left <= 0:
            return []
        sampled = sum(r.model_id == SAMPLED for r in records)
        if sampled < self._rows // 2:
            return self._samples(records, min(BATCH, self._rows // 2 - sampled))
        policy = self._policies["search" if left > self._rows // 4 else "plain"]
        known = policy.known(self._store)
        policy.model.update(observations(known, self.task.workload_key, self.task.flops))
        return policy.propose(self._store, min(BATCH, left))

    def _samples(self, records: Sequence[Record], count: int) -> list[Candidate]:
        """Distinct programs drawn from all sketches evenly."""
        policy = self._policies["search"]
        rng = generator(0, self.task.workload_key, "sample", len(records))
        drawn = policy.space.sample(rng, 4 * count).without(policy.known(self._store).keys)
        drawn = drawn.take(rng.permutation(len(drawn))[:count])
        found = []
        for index, row in zip(drawn.sketch, drawn.rows, strict=True):
            sketch = policy.space.sketches[index]
            decisions = tuple(int(v) for v in row[: sketch.num_decisions])
            found.append(Candidate(sketch.id, decisions, 0.0, SAMPLED))
        return found

    def _disturbed(self, measurer: Measurer, best: Record | None) -> bool:
        """Whether the best program known is much slower now than when it was measured."""
        if best is None or best.latency_s is None:
            return False
        known = Candidate(best.sketch_id, best.decisions, 0.0, "")
        (now,) = measurer.finals(self.task, [known])
        return now.latency_s is None or now.latency_s > DISTURBED * best.latency_s

    def round(self, measurer: Measurer) -> int:
        """Measure one round; how many candidates it had, -1 if it was thrown away."""
        candidates = self.proposal()
        if candidates:
            here = identity_of(self.task.target)
            best = self._store.best(self.task.workload_key, str(self.task.target), here)
            measured = measurer.measure(self.task, candidates, best.latency_s if best else None)
            if self._disturbed(measurer, best):
                return -1
            run = f"replay-{self._number}-rules-{self._version}"
            number = len(self.records) // BATCH
            while self._store.has_round(run, number):
                number += 1
            records = to_records(self.task, measured, run_id=run, round=number, network="replay")
            keep_workloads(self._store, [self.task])
            self._store.append(records)
        return len(candidates)


def write(recordings: Sequence[TaskRecording], out: Path) -> None:
    """The dataset: one file of records, and what the workloads compute."""
    for old in [*out.glob("*.parquet"), *out.glob("_workloads/*.json")]:
        old.unlink()
    dataset = RecordStore(out)
    records = [
        replace(r, run_id="replay", round=0, latency_samples=(), host="", error=r.error[:80])
        for recording in recordings
        for r in recording.records
    ]
    dataset.append(records)
    keep_workloads(dataset, [recording.task for recording in recordings])
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{len(records)} records of {len(recordings)} tasks in {out}: {size / 1e6:.2f} MB")


def main() -> None:
    """Measure until the time is up, or all rows are there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="record store of the recording")
    parser.add_argument("--out", type=Path, default=OUT, help="where the dataset goes")
    parser.add_argument("--rows", type=int, default=640, help="records of each task")
    parser.add_argument("--seconds", type=float, default=80, help="time of this slice")
    parser.add_argument("--threads", type=int, default=1, help="threads of a kernel")
    parser.add_argument("--tasks", type=int, default=None, help="only the first so many tasks")
    args = parser.parse_args()
    began = time.monotonic()
    target = Target(f"llvm -num-cores={args.threads}")
    store = RecordStore(args.work)
    tasks = replay_tasks(target)[: args.tasks]
    recordings = [TaskRecording(t, store, args.rows, i) for i, t in enumerate(tasks)]
    for recording in recordings:
        sketches = SearchSpace.of(recording.task).sketches
        print(f"{recording.task.desc}: {len(sketches)} sketches, {len(recording.records)} records")
    measured = discarded = 0
    todo = list(recordings)
    while todo and time.monotonic() - began < args.seconds:
        with Measurer(target) as measurer:
            count = 0
            while todo and count >= 0 and time.monotonic() - began < args.seconds:
                recording = min(todo, key=lambda r: len(r.records))
                count = recording.round(measurer)
                measured += max(count, 0)
                discarded += count < 0
                if not count:
                    todo.remove(recording)
    spent = time.monotonic() - began
    done = sum(len(r.records) for r in recordings)
    valid = sum(x.usable for r in recordings for x in r.records)
    print(
        f"{discarded} rounds thrown away; {measured} measured in {spent:.0f} s, "
        f"{done} in all, {valid} of them valid"
    )
    if not todo:
        write(recordings, args.out)


if __name__ == "__main__":
    main()
