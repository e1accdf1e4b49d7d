"""What every column of a record file means: the one table of them.

`tilework records columns` prints it and docs/records.md holds it; a test keeps them equal, and
complete.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage.schema import SCHEMA


@dataclass(frozen=True)
class Column:
    """A column of the dataset.

    Attributes:
        name: in the file.
        kind: its Arrow type, as text.
        unit: of its numbers; empty where they have none.
        since: the schema version that added it; files of older versions lack it.
        empty: whether a value may be missing.
        meaning: what it says.
    """

    name: str
    kind: str
    unit: str
    since: int
    empty: bool
    meaning: str


_ADDED_BY = {
    "purpose": 2, "registers": 3, "spill_bytes": 3, "stack_bytes": 3, "shared_bytes": 3,
    "blocks_per_sm": 3, "code_bytes": 3, "device_id": 4, "device_calibration_s": 4,
}  # fmt: skip

_UNITS = {
    "flops": "operations", "latency_s": "s", "latency_samples": "s", "calibration_s": "s",
    "build_s": "s", "device_calibration_s": "s", "spill_bytes": "B", "stack_bytes": "B",
    "shared_bytes": "B", "code_bytes": "B",
}  # fmt: skip

_MEANINGS = {
    "schema_version": "Version of the columns. Columns are only ever added.",
    "record_id": "Names the record, in every store that holds a copy: run, round, the session "
    "that wrote it, place in the round.",
    "run_id": "The run: network's content, target, device, effort, seed and rules. The same "
    "command on the same device goes on with the same run.",
    "round": "Counts the run's rounds from 0. All records of a round are of one task.",
    "created_at": "When the round was stored, in UTC; equal for all of a round.",
    "workload_key": "What is computed: a hash of the expressions, and the shapes. Equal keys are "
    "equal tasks, whatever network they come from.",
    "workload": "The same for people, such as `conv2d+add+relu 1x56x56x64 k1 s1 -> 64`.",
    "network": "The network for which it was measured. Other networks use it all the same.",
    "flops": "Operations of the workload: multiplications and additions, zeros of sparse weights "
    "included. `flops / latency_s` is the speed.",
    "target": "For what the code was made, in full: `llvm -mcpu=znver4 -num-cores=2`. Targets "
    "with `-run=simulated` or `-run=emulated` have latencies of no device.",
    "device": "Name of the device, as its maker writes it.",
    "host": "Name of the host. It decides nothing.",
    "num_cores": "Threads that ran the kernel.",
    "engine_version": "Version of the package that measured, its commit or build, and what made "
    "machine code: `0.1.0+g1a2b3c4d5e.llvm22.1.0.5f3a9c12`; last a digest of what that was told "
    "to leave out and to use. It decides nothing.",
    "sketch_id": "Which structure of loops: `tilework explain` shows it.",
    "rules_version": "Version of the rules that made the sketches. `decisions` mean something "
    "only under it; a compile uses the present rules' records.",
    "decisions": "The numbers that fill the sketch in: tile sizes, orders, unrolling.",
    "code_hash": "Of the code that was built. Equal hashes are equal programs; empty if none "
    "was built.",
    "status": "How it ended: `ok`, `rejected`, `compile_error`, `unfit`, `launch_error`, "
    "`run_error`, `timeout`, `wrong_answer`, `crashed`, `worker_lost`.",
    "error": "What went wrong, in words; empty if nothing did.",
    "latency_s": "Time of one call: the median of the samples; of finals, as they compare in "
    "turns. Empty without a valid measurement.",
    "latency_samples": "Times of one call, one for each undisturbed sample.",
    "latency_spread": "How far the samples lie apart: the distance of the quartiles over the "
    "median.",
    "calibration_s": "Time of a fixed piece of work just before the batch: how fast the machine "
    "was then. Latencies are never corrected by it.",
    "build_s": "Time to build the candidate.",
    "max_rel_error": "Largest difference from the reference over the largest output; empty if it "
    "was not checked.",
    "predicted_score": "What the model predicted: higher is faster. Scores compare within one "
    "task and round only.",
    "model_id": "Which model that was: `draft` is the analytic one, `xgb-N-HASH` was trained on N "
    "measurements.",
    "purpose": "Why it was measured: `search` (a trial), `final` (the fastest again, in turns), "
    "`canary` (to watch the machine), `refused` (its code was, before it ran).",
    "registers": "Of a GPU's thread. This and the next five are empty for CPUs.",
    "spill_bytes": "What a GPU's thread keeps in memory for want of registers.",
    "stack_bytes": "Stack of a GPU's thread.",
    "shared_bytes": "Shared memory of a GPU's block.",
    "blocks_per_sm": "Blocks that a multiprocessor holds at a time.",
    "code_bytes": "Size of a GPU's machine code.",
    "device_id": "Which device it was: its name and a hash of what it is (cores, caches, memory, "
    "clocks), never of the host. Latencies compare within it; empty in older records.",
    "device_calibration_s": "What `calibration_s` is on that device at rest. Devices of one id "
    "that differ by a quarter are two.",
}

COLUMNS = tuple(
    Column(
        field.name,
        str(field.type).replace("element: ", "").replace("item: ", ""),
        _UNITS.get(field.name, ""),
        _ADDED_BY.get(field.name, 1),
        field.nullable,
        _MEANINGS[field.name],
    )
    for field in SCHEMA
)
"""In the order of the file."""


def markdown() -> str:
    """The table as it stands in docs/records.md."""
    lines = ["| column | type | unit | since | meaning |", "|---|---|---|---|---|"]
    for column in COLUMNS:
        kind = column.kind + (", may be empty" if column.empty else "")
        cells = (f"`{column.name}`", kind, column.unit, str(column.since), column.meaning)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
