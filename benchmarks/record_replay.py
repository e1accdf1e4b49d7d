"""Record the dataset of transfer: measure programs that nobody searched for, on several targets.

    python benchmarks/record_replay.py --work DIR [--targets v4,bf16] [--threads 1] [--rows 96]
        [--part 0/2] [--seconds 600]
    python benchmarks/record_replay.py --write --work DIR [DIR ...] [--name sapphire-rapids]

What is measured stands in `_dataset.py`: tasks of seven networks on eight targets, random and grid
rows in turn. Rounds go to the record store ``--work``: a round of every task, then the next, so
that half a recording is a smaller dataset. The command ends after ``--seconds`` and goes on where
it stopped when it is given again. Several may record parts of the tasks (``--part 0/2`` and
``--part 1/2``) into stores of their own, each on a core of its own for targets of one thread.

``--write`` makes one small file of the stores' records, without timing samples and names of hosts,
in ``--out`` (default: tests/data/replay), with what the workloads compute and which networks call
them how often. Files there that were recorded on other CPUs stay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from _dataset import CALLS, DATASET, TARGETS, calls_of, dataset_tasks, rows_of

from storage import RecordStore
from storage.schema import to_table
from storage.tables import encode
from tilework.measure import Measurer
from tilework.measure.candidates import Candidate
from tilework.measure.records import to_records
from tilework.record import Record
from tilework.search.corpus import keep_workloads
from tilework.space import space_of
from tilework.target import Target
from tilework.target.identity import identity_of
from tilework.task import SearchTask

BATCH = 32
DISTURBED = 1.2
"""A round is thrown away, and measured again by new processes, when the best program known then
takes so many times its recorded latency: something else disturbs the machine."""


FEW, DOUBT = 3, 4.0
"""A program that was given up after fewer samples, at more than so many times the median of its
task, may be a fast one whose first sample a busy core stretched: it is measured again, at
length."""


WILD = 16.0
"""A row of so few samples and so many times the median is not written: it says nothing."""
BRIEF, APART = 6, 1.5
"""Nor is one of fewer samples of which the slowest is so many times the fastest."""


class TaskRecording:
    """The rounds of one task on one target.

    Args:
        task: what is measured.
        store: where its records go.
        rows: how many programs.
    """

    def __init__(self, task: SearchTask, store: RecordStore, rows: int) -> None:
        self.task, self._store = task, store
        self._version = space_of(task.target).version
        self._candidates = rows_of(task, rows)
        name = hashlib.sha256(f"{task.target} {task.workload_key}".encode()).hexdigest()[:12]
        self._run = f"dataset-{name}-rules-{self._version}"  # a run of its own: ids never clash

    @property
    def records(self) -> list[Record]:
        """What is measured so far, under the present rules."""
        found = self._store.of(self.task.workload_key, str(self.task.target))
        return [r for r in found if r.rules_version == self._version]

    @property
    def todo(self) -> list[Candidate]:
        """What is not measured yet."""
        done = {(r.sketch_id, r.decisions) for r in self.records}
        return [c for c in self._candidates if (c.sketch_id, c.row) not in done]

    @property
    def doubtful(self) -> list[Candidate]:
        """What has been looked at too shortly for what was seen; see `DOUBT`."""
        records = self.records
        if not records:
            return []
        rows, looks = best_measured(records), Counter((r.sketch_id, r.decisions) for r in records)
        median = float(np.median([math.inf if r.latency_s is None else r.latency_s for r in rows]))
        return [
            Candidate(r.sketch_id, r.decisions, 0.0, r.model_id)
            for r in rows
            if r.latency_s
            and r.latency_s > DOUBT * median
            and len(r.latency_samples) < FEW
            and looks[r.sketch_id, r.decisions] == 1
        ]

    def _disturbed(self, measurer: Measurer, best: Record | None) -> bool:
        """Whether the best program known is much slower now than when it was measured."""
        if best is None or best.latency_s is None:
            return False
        known = Candidate(best.sketch_id, best.decisions, 0.0, "")
        (now,) = measurer.finals(self.task, [known])
        return now.latency_s is None or now.latency_s > DISTURBED * best.latency_s

    def round(self, measurer: Measurer) -> int:
        """Measure one round; how many candidates it had, -1 if it was thrown away."""
        candidates = self.todo[:BATCH]
        again = not candidates
        candidates = candidates or self.doubtful[:BATCH]
        if candidates:
            here = identity_of(self.task.target)
            best = self._store.best(self.task.workload_key, str(self.task.target), here)
            hopeless = None if again or best is None else best.latency_s
            measured = measurer.measure(self.task, candidates, hopeless)
            if self._disturbed(measurer, best):
                return -1
            number = 0
            while self._store.has_round(self._run, number):
                number += 1
            records = to_records(
                self.task, measured, run_id=self._run, round=number, network="dataset"
            )
            keep_workloads(self._store, [self.task])
            self._store.append(records)
        return len(candidates)


def record(
    store: RecordStore,
    targets: Iterable[tuple[str, str]],
    rows: int,
    part: tuple[int, int],
    seconds: float,
) -> bool:
    """Measure until the time is up, or every row is there.

    Args:
        store: where records go.
        targets: text and precision of each.
        rows: programs of a task.
        part: which of how many parts of the tasks: every n-th, beginning with this one.
        seconds: after which no round begins.

    Returns:
        Whether every row is there.
    """
    began = time.monotonic()
    work: list[tuple[Target, list[TaskRecording]]] = []
    for text, precision in targets:
        target = Target(text)
        tasks = dataset_tasks(target, precision)[part[0] :: part[1]]
        work.append((target, [TaskRecording(task, store, rows) for task in tasks]))
    measured = discarded = 0
    for number in range(-(-rows // BATCH)):
        for target, recordings in work:
            most = max(0, rows - (number + 1) * BATCH)
            wanted = [r for r in recordings if len(r.todo) > most or (not most and r.doubtful)]
            while wanted and time.monotonic() - began < seconds:
                with Measurer(target) as measurer:  # new processes after a disturbed round
                    while wanted and time.monotonic() - began < seconds:
                        count = wanted[0].round(measurer)
                        if count < 0:
                            discarded += 1
                            break
                        measured += count
                        if not wanted[0].doubtful or wanted[0].todo:
                            wanted.pop(0)
    left = sum(len(r.todo or r.doubtful) for _, recordings in work for r in recordings)
    spent = time.monotonic() - began
    print(f"{discarded} rounds thrown away; {measured} rows in {spent:.0f} s, {left} left")
    return left == 0


def write(stores: Sequence[RecordStore], name: str, out: Path) -> None:
    """One file of all records that nobody searched for, and the documents of their workloads.

    Numbers are rounded to what a measurement can tell.
    """
    found: dict[tuple[str, str], list[Record]] = {}
    documents: dict[str, str] = {}
    for store in stores:
        pairs = store.keys()
        for target, key in pairs:
            drawn = [r for r in store.of(key, target) if r.model_id in ("sample", "grid")]
            found.setdefault((target, key), []).extend(drawn)
            document = store.workload(key)
            if document is not None:
                documents[key] = document
    records = [r for of in sorted(found) for r in _shortened(found[of])]
    out.mkdir(parents=True, exist_ok=True)
    _write(out / f"{name}.parquet", encode(to_table(records)))
    dataset = RecordStore(out)
    for key, document in documents.items():
        dataset.keep_workload(key, document)
    _write(out / CALLS, json.dumps(calls_of(dataset.keys()), indent=1).encode())
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{len(records)} records of {len(found)} tasks in {out}: {size / 1e6:.2f} MB")


def best_measured(records: Iterable[Record]) -> list[Record]:
    """One record of each program: that of the most samples, of such the fastest."""

    def worth(r: Record) -> tuple[int, float]:
        return len(r.latency_samples), -math.inf if r.latency_s is None else -r.latency_s

    found: dict[tuple[int, tuple[int, ...]], Record] = {}
    for r in records:
        known = found.setdefault((r.sketch_id, r.decisions), r)
        if worth(r) > worth(known):
            found[r.sketch_id, r.decisions] = r
    return list(found.values())


def _shortened(records: Iterable[Record]) -> list[Record]:
    """The records of one task on one target, as one round without what only its host knows."""
    measured = best_measured(records)
    ran = [r.latency_s for r in measured if r.latency_s is not None]
    wild = WILD * float(np.median(ran)) if ran else math.inf
    rows = sorted(
        filter(lambda r: _settled(r, wild), measured), key=lambda r: (r.created_at, r.record_id)
    )
    name = hashlib.sha256(f"{rows[0].target} {rows[0].workload_key}".encode()).hexdigest()[:12]
    return [
        replace(
            r,
            record_id=f"dataset-{name}-{number:04d}", run_id=f"dataset-{name}", round=0,
            created_at=rows[0].created_at, host="", latency_samples=(), error=r.error[:80],
            latency_s=_digits(r.latency_s, 5), latency_spread=_digits(r.latency_spread, 2),
            calibration_s=_digits(r.calibration_s, 4), build_s=None, max_rel_error=None,
        )
        for number, r in enumerate(rows)
    ]  # fmt: skip


def _settled(record: Record, wild: float) -> bool:
    """Whether the samples of a record tell how fast its program is."""
    samples = record.latency_samples
    if len(samples) < FEW and (record.latency_s or 0.0) > wild:
        return False
    return len(samples) >= BRIEF or not samples or max(samples) <= APART * min(samples)


def _digits(number: float | None, count: int) -> float | None:
    return None if number is None else float(f"{number:.{count}g}")


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def chosen(targets: Collection[str], threads: Collection[int]) -> list[tuple[str, str]]:
    """Those of the dataset's targets that are asked for: by a part of the CPU's name, by threads.

    ``bf16`` is the target of that precision, ``v4`` that of float32.
    """

    def fits(text: str, precision: str) -> bool:
        short = precision if precision != "f32" else text.split()[1].rpartition("-")[2]
        of = int(text.rpartition("=")[2])
        return (not targets or short in targets) and (not threads or of in threads)

    return [(text, precision) for text, precision in TARGETS if fits(text, precision)]


def main() -> None:
    """Record, or write what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, nargs="+", required=True, help="stores of records")
    parser.add_argument("--targets", default="", help="v2, v3, v4, bf16: some, with commas")
    parser.add_argument("--threads", default="", help="1, 2: only targets of so many threads")
    parser.add_argument("--rows", type=int, default=96, help="programs of each task")
    parser.add_argument("--part", default="0/1", help="which part of the tasks, of how many")
    parser.add_argument("--seconds", type=float, default=600, help="time of this slice")
    parser.add_argument("--write", action="store_true", help="write the dataset's file")
    parser.add_argument("--out", type=Path, default=DATASET, help="where the dataset goes")
    parser.add_argument("--name", default="sapphire-rapids", help="of the file: the CPU's")
    args = parser.parse_args()
    if args.write:
        write([RecordStore(path, must_exist=True) for path in args.work], args.name, args.out)
        return
    if len(args.work) > 1:
        parser.error("records go to one store: give --work one folder")
    try:
        part, parts = (int(word) for word in args.part.split("/"))
        threads = [int(word) for word in args.threads.split(",") if word]
    except ValueError:
        parser.error(f"--part {args.part} --threads {args.threads}: write 0/2 and 1,2")
    targets = chosen([word for word in args.targets.split(",") if word], threads)
    if not targets or not 0 <= part < parts:
        parser.error(f"nothing to record: part {args.part} of {len(targets)} targets")
    if record(RecordStore(args.work[0]), targets, args.rows, (part, parts), args.seconds):
        print("every row is there; the file is made with --write")


if __name__ == "__main__":
    main()
