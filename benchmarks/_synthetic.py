"""Stores of made-up records, as large as one likes and as varied as real ones.

A key (a workload on a target) has some 500 rows in rounds of equal size, the last one finals.
Values have the entropy of measured ones, so that files have the sizes of real files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.names import RoundName
from storage.schema import SCHEMA
from tilework.record import SCHEMA_VERSION

START_US = 1_735_689_600_000_000
"""The beginning of 2025, in microseconds: when the first run began."""
RULES = 1
DEVICES = ("AMD EPYC 9B45", "Intel Xeon 8581C", "Apple M3")
Key = tuple[str, str]
"""Workload key and target."""


def made_up_keys(count: int, first: Sequence[Key] = ()) -> list[Key]:
    """Some keys: those given, and made-up ones."""
    targets = [
        f"llvm -mcpu=znver{4 + i % 2} -num-cores={1 + i} -vector-bits=512 -l1=32K -l2=1M -l3=32M"
        for i in range(4)
    ]
    made = [
        (hashlib.sha256(f"workload {i}".encode()).hexdigest()[:32], targets[i % len(targets)])
        for i in range(count - len(first))
    ]
    return [*first, *made]


def key_rows(index: int, key: Key, rows: int, rows_a_round: int) -> pa.Table:
    """The rows of one key, in rounds; the same for the same arguments."""
    rng = np.random.default_rng(index)
    number = np.arange(rows)
    round_ = number // rows_a_round + 40 * (index % 50)
    run_id = hashlib.sha256(f"run {index // 50}".encode()).hexdigest()[:16]
    device = DEVICES[index // 50 % len(DEVICES)]
    best = 10 ** rng.uniform(-5, -2.5)
    latency = best * (1 + rng.exponential(0.8, rows))
    failed = rng.random(rows) < 0.06
    final = number // rows_a_round == (rows - 1) // rows_a_round
    status = np.where(failed, rng.choice(["wrong_answer", "timeout", "compile_error"], rows), "ok")
    samples = latency[:, None] * (1 + 0.02 * rng.random((rows, 10)))
    lengths = np.full(rows, 22)
    ok_lengths = np.where(failed, 0, 10)
    columns = {
        "schema_version": np.full(rows, SCHEMA_VERSION),
        "record_id": [
            f"{run_id}-{r:06d}-{index:08x}-{i:04d}" for i, r in zip(number, round_, strict=True)
        ],
        "run_id": [run_id] * rows,
        "round": round_,
        "created_at": START_US + (index * rows + number) * 1_000_000 + rng.integers(0, 1000, rows),
        "workload_key": [key[0]] * rows,
        "workload": [f"conv2d {index % 97}x56x{index % 13} stride 1, relu, add"] * rows,
        "network": [f"network-{index // 27}"] * rows,
        "flops": np.full(rows, 1e6 * (1 + index % 977)),
        "target": [key[1]] * rows,
        "device": [device] * rows,
        "host": [f"host-{index // 50 % 7}"] * rows,
        "num_cores": np.full(rows, 2),
        "engine_version": ["0.2.0"] * rows,
        "sketch_id": rng.integers(0, 5, rows),
        "rules_version": np.full(rows, RULES),
        "decisions": _lists(lengths, 2 ** rng.integers(0, 8, lengths.sum()), pa.int32()),
        "code_hash": [rng.bytes(8).hex() for _ in range(rows)],
        "status": status,
        "error": np.where(failed, "the output differs from the reference in 12 places", ""),
        "latency_s": pa.array(latency, mask=failed),
        "latency_samples": _lists(ok_lengths, samples[~failed].reshape(-1), pa.float64()),
        "latency_spread": pa.array(0.01 * rng.random(rows), mask=failed),
        "calibration_s": np.full(rows, 2e-3 * (1 + 0.01 * rng.random())),
        "build_s": rng.random(rows),
        "max_rel_error": pa.array(1e-6 * rng.random(rows), mask=failed),
        "predicted_score": rng.random(rows),
        "model_id": ["xgb-3f2a"] * rows,
        "purpose": np.where(final, "final", "search"),
        "device_id": [f"{device.lower().replace(' ', '-')}-0a1b2c3d"] * rows,
        "device_calibration_s": np.full(rows, 2e-3),
    }
    return pa.table(
        [
            columns[f.name] if isinstance(columns.get(f.name), pa.Array) and f.name in columns
            else pa.array(columns[f.name]).cast(f.type) if f.name in columns
            else pa.nulls(rows, f.type)
            for f in SCHEMA
        ],
        schema=SCHEMA,
    )  # fmt: skip


def write_rounds(folder: Path, index: int, key: Key, rows: int, rows_a_round: int) -> None:
    """Writes the rows of one key, a file a round. Not synced: this is no measurement."""
    table = key_rows(index, key, rows, rows_a_round)
    for start in range(0, rows, rows_a_round):
        part = table.slice(start, rows_a_round)
        ids = part.column("record_id").to_pylist()
        run_id, round_ = part.column("run_id")[0].as_py(), part.column("round")[0].as_py()
        name = RoundName.of(run_id, round_, *key, ids)
        pq.write_table(part, folder / str(name), compression="zstd", write_page_checksum=True)


def write_store(
    folder: Path, keys: Sequence[Key], rows: int, rows_a_round: int, processes: int = 2
) -> None:
    """Writes a store of ``rows`` rows for each key."""
    folder.mkdir(parents=True)
    jobs = [(folder, part, rows, rows_a_round) for part in _parts(list(enumerate(keys)), 256)]
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(_write_some, jobs))


def _write_some(job: tuple[Path, list[tuple[int, Key]], int, int]) -> None:
    folder, keys, rows, rows_a_round = job
    for index, key in keys:
        write_rounds(folder, index, key, rows, rows_a_round)


def _parts(items: list[tuple[int, Key]], size: int) -> Iterator[list[tuple[int, Key]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _lists(lengths: Iterable[int], values: np.ndarray, kind: pa.DataType) -> pa.Array:
    offsets = np.r_[0, np.cumsum(np.asarray(lengths))].astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values).cast(kind))
