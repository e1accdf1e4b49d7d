"""Measurements as arrays, from the columns of a store: `tilework.trials.Trials`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.plausible import believable
from tilework.record import Status
from tilework.trials import TEACHING, Trials

COLUMNS = (
    "target", "workload_key", "rules_version", "sketch_id", "decisions", "latency_s", "status",
    "purpose", "device_id", "device", "device_calibration_s", "calibration_s", "created_at",
    "record_id", "flops", "workload",
)  # fmt: skip
"""Columns of which `split` makes trials."""


def split(table: pa.Table) -> Iterator[Trials]:
    """The trials of a table of `COLUMNS`, key by key; rows of a key in the order of making."""
    purposes = pa.array([purpose.value for purpose in TEACHING])
    taught = pc.and_(
        pc.is_in(table.column("purpose"), purposes),
        pc.not_equal(table.column("status"), Status.worker_lost.value),
    )
    order = ("target", "workload_key", "created_at", "record_id")
    taught = pc.and_(taught, pa.array(believable(table)))
    table = table.filter(taught).sort_by([(name, "ascending") for name in order])
    table = table.combine_chunks()
    keys = [table.column(name).to_numpy(zero_copy_only=False) for name in order[:2]]
    if not len(table):
        return
    change = np.zeros(len(table), np.bool_)
    for key in keys:
        change[1:] |= key[1:] != key[:-1]
    starts = [0, *np.flatnonzero(change).tolist(), len(table)]
    for first, end in itertools.pairwise(starts):
        yield _trials(table.slice(first, end - first), str(keys[0][first]), str(keys[1][first]))


def _trials(rows: pa.Table, target: str, workload_key: str) -> Trials:
    columns = {name: rows.column(name).combine_chunks() for name in COLUMNS}
    decisions = columns["decisions"]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(pc.list_value_length(decisions).to_numpy(zero_copy_only=False), out=offsets[1:])
    latency = _numbers(columns["latency_s"], np.inf)
    ok = pc.equal(columns["status"], Status.ok.value).to_numpy(zero_copy_only=False)
    latency[~ok | ~(latency > 0)] = np.inf
    ids = columns["device_id"].to_numpy(zero_copy_only=False).astype(np.str_)
    texts = columns["device"].to_numpy(zero_copy_only=False).astype(np.str_)
    names, device = np.unique(np.stack([ids, texts], axis=1), axis=0, return_inverse=True)
    own = _numbers(columns["device_calibration_s"], np.nan)
    speed = np.where(ids != "", own, _numbers(columns["calibration_s"], np.nan))
    return Trials(
        target,
        workload_key,
        columns["rules_version"].to_numpy(),
        columns["sketch_id"].to_numpy(),
        pc.list_flatten(decisions).to_numpy(),
        offsets,
        latency,
        pc.equal(columns["purpose"], "final").to_numpy(zero_copy_only=False),
        device.reshape(-1).astype(np.int32),
        tuple((str(one), str(name)) for one, name in names),
        speed,
    )


def _numbers(column: pa.Array, missing: float) -> np.ndarray:
    return np.array(pc.fill_null(column, missing).to_numpy(zero_copy_only=False), np.float64)
