"""How long retraining on a large store takes, and how much memory.

    taskset -c 0 python benchmarks/retrain.py [--rows 1000000] [--folder DIR] [--json FILE]

Makes a store (once; DIR keeps it) of the tasks and targets of `tests/data/replay`. Rows are drawn
from the tasks' own sketches; latencies are the draft's, times noise of its own for each program
and for each sketch, so that there is something to learn; one row in twenty has failed. Then
`tilework retrain` runs on it in a process of its own. Seconds are of the clock and of the
processor: on a busy machine they differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _dataset import TARGETS
from _synthetic import key_rows

from storage import RecordStore
from storage.files import Location
from storage.maintenance.compact import compact
from storage.names import RoundName
from tilework.model.draft import draft_of
from tilework.search.corpus import keep_workloads
from tilework.space import SearchSpace, space_of
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.serial import dag_from_json

DEVICE = "a-made-up-cpu-0a1b2c3d"
DATASET = Path(__file__).parents[1] / "tests" / "data" / "replay"
DRAFTED = 400
"""Rows of a task whose latency follows the draft's; that of the others is drawn from theirs."""


def tasks_of(known: RecordStore, text: str) -> list[SearchTask]:
    """The tasks that the dataset has of a target."""
    target = Target(text)
    documents = [known.workload(key) for key in known.workload_keys(text)]
    return [SearchTask(dag_from_json(d), target, "") for d in documents if d is not None]


def rows_of(index: int, task: SearchTask, count: int) -> pa.Table:
    """Records of one task: valid rows of its sketches, with latencies around the draft's."""
    rng = np.random.default_rng(index)
    sketches, draft = SearchSpace.of(task).sketches, draft_of(task.target)
    ids, rows, latency = list[int](), list[list[int]](), list[np.ndarray]()
    for number, sketch in enumerate(sketches):
        wanted = count // len(sketches) + (number < count % len(sketches))
        drawn = sketch.sample(rng, wanted) if wanted else np.zeros((0, 1), np.int32)
        if not len(drawn):
            continue
        few = max(1, DRAFTED // len(sketches))
        seconds = draft.seconds(sketch, drawn[:few])
        seconds = np.r_[seconds, rng.choice(seconds, max(0, len(drawn) - few))]
        noise = np.exp(rng.normal(0, 0.15) + rng.normal(0, 0.2, len(drawn)))
        ids += [sketch.id] * len(drawn)
        rows += drawn.tolist()
        latency.append(seconds * noise)
    table = key_rows(index, (task.workload_key, str(task.target)), len(rows), max(len(rows), 1))
    seconds = np.concatenate(latency)
    failed = rng.random(len(rows)) < 0.05
    version = space_of(task.target).version
    for name, values in (
        ("sketch_id", ids),
        ("rules_version", [version] * len(rows)),
        ("decisions", rows),
        ("latency_s", pa.array(seconds, mask=failed)),
        ("status", np.where(failed, "wrong_answer", "ok")),
        ("purpose", ["search"] * len(rows)),
        ("device_id", [DEVICE] * len(rows)),
    ):
        at = table.schema.get_field_index(name)
        column = values if isinstance(values, pa.Array) else pa.array(values)
        table = table.set_column(
            at, table.schema.field(at), column.cast(table.schema.field(at).type)
        )
    return table


def make(folder: Path, rows: int) -> None:
    """Writes the store, compacted as one that is looked after."""
    folder.mkdir(parents=True)
    store = RecordStore(folder)
    known = RecordStore(DATASET, must_exist=True)
    every = [tasks_of(known, text) for text, _ in TARGETS]
    share = -(-rows // sum(map(len, every)))
    index = 0
    for tasks in every:
        keep_workloads(store, tasks)
        for task in tasks:
            table = rows_of(index, task, share)
            index += 1
            if not len(table):
                continue
            run_id = hashlib.sha256(task.workload_key.encode()).hexdigest()[:16]
            at = table.schema.get_field_index("run_id")
            table = table.set_column(at, "run_id", pa.array([run_id] * len(table)))
            table = table.set_column(
                table.schema.get_field_index("round"),
                table.schema.field("round"),
                pa.array(np.zeros(len(table)), table.schema.field("round").type),
            )
            ids = table.column("record_id").to_pylist()
            name = RoundName.of(run_id, 0, task.workload_key, str(task.target), ids)
            pq.write_table(table, folder / str(name), compression="zstd")
        print(f"{tasks[0].target}: {len(tasks)} tasks", file=sys.stderr, flush=True)
    compact(Location.of(folder))


def measure(folder: Path) -> dict[str, Any]:
    """Retrains once, in this process."""
    from tasks.learning.retrain import retrain

    began, cpu = time.perf_counter(), time.process_time()
    steps: list[tuple[str, float]] = []
    (done,) = retrain([str(folder)], lambda text: steps.append((text, time.process_time() - cpu)))
    assert done.card is not None, done.skipped
    return {
        "seconds": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": peak_mb(),
        "held": done.card.held,
        "records": done.card.records,
        "verdict": done.verdict,
        "steps": steps,
    }


def peak_mb() -> float:
    """The most memory that this process has held."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def main() -> None:
    """Make the store if it is not there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(measure(given.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary) / "records"
        if not folder.exists():
            make(folder, given.rows)
        for hidden in ("_models", "_cards", "_moves", "_seen"):  # learnt by an earlier call
            for path in (folder / hidden).glob("*"):
                path.unlink()
        words = [sys.executable, __file__, "--step", "--folder", str(folder)]
        found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    print(
        f"{found['held']} records, learnt from {found['records']}: {found['seconds']:.1f} s "
        f"({found['cpu_s']:.1f} s of the processor), {found['peak_mb'] / 1e3:.2f} GB"
    )
    for text, at in found["steps"]:
        print(f"{at:8.1f} s  {text}")
    print(found["verdict"])
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
