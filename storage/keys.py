"""Keys of records: a target and the key of a workload."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

Key = tuple[str, str]
"""Target and workload key, in the order by which rows are sorted."""
KEY_COLUMNS = ("target", "workload_key")


def of_keys(table: pa.Table, keys: Iterable[Key]) -> pa.Table:
    """The rows of these keys."""
    wanted = set(keys)
    targets = pa.array(sorted({target for target, _ in wanted}), pa.string())
    workloads = pa.array(sorted({workload for _, workload in wanted}), pa.string())
    may = pc.and_(
        pc.is_in(table.column("target"), targets),
        pc.is_in(table.column("workload_key"), workloads),
    )
    table = table.filter(may)
    if len(targets) == 1 or len(workloads) == 1:
        return table
    pairs = zip(
        table.column("target").to_pylist(), table.column("workload_key").to_pylist(), strict=True
    )
    return table.filter(pa.array([pair in wanted for pair in pairs], pa.bool_()))


def keys_in(table: pa.Table) -> frozenset[Key]:
    """The keys of the rows."""
    pairs = table.group_by(list(KEY_COLUMNS)).aggregate([]).to_pydict()
    return frozenset(zip(pairs["target"], pairs["workload_key"], strict=True))
