"""Columns of a store as a pandas table, and what counts as the best, without record objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from storage import plausible

if TYPE_CHECKING:
    import pandas as pd

    from storage import RecordStore

GROUP = ["workload_key", "target", "machine"]
"""Columns within which latencies compare: see `tilework.record.best_of`."""

_DISTINCT = frozenset(("record_id", "code_hash"))
_APART = (*sorted(_DISTINCT), "decisions")

NEEDED_BY_BEST = (
    "record_id", "run_id", "round", "created_at", "workload_key", "target", "device", "device_id",
    "host", "status", "purpose", "latency_s", "flops", "workload",
)  # fmt: skip
"""Columns that `best_rows` needs."""


def load(store: RecordStore, columns: Sequence[str]) -> pd.DataFrame:
    """The columns of all records, in no particular order; texts are categories.

    Beside them stand ``machine`` and ``speaker``, if the three columns that tell devices apart are
    among them. The machine is the device's id. Records from before devices had one are of the
    device that has the same name and host, if it is the only one, else of that name and host. The
    speaker is whose finals have the last word, as in `best_of`: the id, or the host of those.
    ``usable`` stands there, if there are status and latency: whether the latency may be chosen as
    the best. In the place of ``decisions`` stands ``program``, a number that is equal for equal
    rows.
    """
    import pandas as pd

    from storage.schema import to_table

    wanted = list(dict.fromkeys(columns))
    parts = [_part(to_table([]).select(wanted)), *map(_part, store.scan(wanted))]
    names = [name for name in wanted if name != "decisions"]
    names += ["program"] if "decisions" in wanted else []
    names += ["believable"] if set(wanted) >= set(plausible.COLUMNS) else []
    frame = pd.DataFrame(
        {name: _joined([part.pop(name) for part in parts]) for name in names}, copy=False
    )
    if {"device", "device_id", "host"} <= set(names):
        frame["machine"], frame["speaker"] = _machines(frame)
    if {"status", "latency_s"} <= set(names):
        latency = frame["latency_s"]
        frame["usable"] = (frame["status"] == "ok") & (latency > 0) & np.isfinite(latency)
        if "believable" in frame:
            frame["usable"] &= frame.pop("believable") & ~_miscounted(frame, store)
    return frame


def _part(table: Any) -> dict[str, Any]:
    """Columns of a part of the records as pandas keeps them; texts take little room at once."""
    import pandas as pd

    apart = {name: table.column(name) for name in _APART if name in table.column_names}
    frame = table.drop_columns(list(apart)).to_pandas(strings_to_categorical=True)
    columns: dict[str, Any] = {name: frame[name] for name in frame.columns}
    for name in _DISTINCT & apart.keys():  # no two are equal: as categories they would be slow
        columns[name] = pd.Series(apart[name], dtype="string[pyarrow]")
    if set(table.column_names) >= set(plausible.COLUMNS):
        columns["believable"] = pd.Series(plausible.believable(table))
    if "decisions" in apart:
        columns["program"] = pd.Series(_numbers(apart["decisions"]))
    return columns


def _miscounted(frame: pd.DataFrame, store: RecordStore) -> Any:
    """Of which rows the operations are not the workload's; asked only where rows disagree."""
    counts = frame["flops"].groupby(frame["workload_key"], observed=True).agg(["min", "max"])
    odd = counts.index[counts["max"] > plausible.OTHER_COUNT * counts["min"]]
    known = {key: count for key in odd if (count := store.operations(str(key))) is not None}
    right = frame["workload_key"].astype(object).map(known)
    low, high = np.minimum(right, frame["flops"]), np.maximum(right, frame["flops"])
    return high > plausible.OTHER_COUNT * low


def _joined(parts: list[Any]) -> Any:
    import pandas as pd
    from pandas.api.types import union_categoricals

    full = [part for part in parts if len(part)] or parts[:1]  # of none the type is not known
    if isinstance(full[0].dtype, pd.CategoricalDtype):
        return union_categoricals(full)
    return pd.concat(full, ignore_index=True)


def _machines(frame: pd.DataFrame) -> tuple[pd.Categorical, pd.Categorical]:
    """The columns ``machine`` and ``speaker``."""
    import pandas as pd

    parts = [frame[name].cat for name in ("device_id", "device", "host")]
    code = np.zeros(len(frame), np.int64)
    for part in parts:
        code = code * (len(part.categories) + 1) + part.codes.to_numpy()
    _, first, places = np.unique(code, return_index=True, return_inverse=True)
    kinds = [tuple(part.categories[part.codes.iloc[at]] for part in parts) for at in first]
    known: dict[tuple[str, str], set[str]] = {}
    for device_id, device, host in kinds:
        known.setdefault((device, host), set()).update({device_id} - {""})
    machines, speakers = [], []
    for device_id, device, host in kinds:
        ids = known[device, host]
        named = f"{device} ({host})" if host else device
        machines.append(device_id or (next(iter(ids)) if len(ids) == 1 else named))
        speakers.append(device_id or host)

    def column(names: list[str]) -> pd.Categorical:
        distinct = list(dict.fromkeys(names))
        codes = np.array([distinct.index(name) for name in names], np.int64)
        return pd.Categorical.from_codes(codes[places], distinct)

    return column(machines), column(speakers)


def _numbers(decisions: Any) -> np.ndarray:
    """A 64-bit number for each row of an Arrow column of lists, by its values and their places."""
    chunks = [chunk for chunk in decisions.chunks if len(chunk)]  # a part at a time: they are long
    offsets = [chunk.offsets.to_numpy() - chunk.offsets[0].as_py() for chunk in chunks]
    longest = max((int(np.diff(part).max()) for part in offsets), default=0)
    factors = np.random.default_rng(0).integers(0, 2**63, longest, np.uint64) * 2 + 1
    parts = [
        _number_lists(chunk.flatten().to_numpy(), part, factors)
        for chunk, part in zip(chunks, offsets, strict=True)
    ]
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _number_lists(values: np.ndarray, offsets: np.ndarray, factors: np.ndarray) -> np.ndarray:
    place = np.arange(len(values)) - np.repeat(offsets[:-1], np.diff(offsets))
    with np.errstate(over="ignore"):
        terms = (values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * factors[place]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return np.asarray(sums[offsets[1:]] - sums[offsets[:-1]])


def wanted(
    frame: pd.DataFrame, *, network: str | None = None, target: str | None = None
) -> pd.DataFrame:
    """Only the rows of this network, and of targets whose text contains ``target``."""
    if network is not None:
        frame = frame[frame["network"] == network]
    if target is not None:
        texts = frame["target"].astype(object).drop_duplicates()
        frame = frame[frame["target"].isin([text for text in texts if target in text])]
    return frame


def _overruling(
    frame: pd.DataFrame, rows: np.ndarray, created: np.ndarray, final: np.ndarray
) -> np.ndarray:
    """When devices with an id held finals that speak for rows without one; else long ago."""
    name = _numbers_of(frame, [*GROUP, "device"])[rows]
    known = (frame["device_id"] != "").to_numpy()[rows]
    latest = np.full(name.max(initial=-1) + 1, -(2**62))
    speak = final & known
    np.maximum.at(latest, name[speak], created[speak])
    return np.where(known, -(2**62), latest[name])


def best_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The row of each workload, target and machine that counts as its best.

    The same rule as `tilework.record.best_of`: the winner of the last finals, unless a later
    record is faster. Sorted by target, machine and workload.
    """
    search, final = ((frame["purpose"] == name).to_numpy() for name in ("search", "final"))
    rows = np.flatnonzero(frame["usable"].to_numpy() & (search | final))
    group = group_numbers(frame)[rows]
    created = frame["created_at"].astype("int64").to_numpy()[rows]
    final = final[rows]
    batch = _numbers_of(frame, ["run_id", "round"])[rows]
    voice = _numbers_of(frame, [*GROUP, "speaker"])[rows]
    verdict, speaks = (np.full(voice.max(initial=-1) + 1, least) for least in (-(2**62), -1))
    order = np.flatnonzero(final)
    order = order[np.argsort(created[order], kind="stable")]
    verdict[voice[order]] = created[order]  # the last one stays
    speaks[voice[order]] = batch[order]
    same = final & (created == verdict[voice]) & (batch == speaks[voice])
    named = _overruling(frame, rows, created, final)
    kept = ((created > verdict[voice]) | same) & ((created > named) | (same & (created == named)))
    rows, group = rows[kept], group[kept]
    latency = frame["latency_s"].to_numpy()[rows]
    least = np.full(group.max(initial=-1) + 1, np.inf)
    np.minimum.at(least, group, latency)
    fastest = latency == least[group]
    bests = frame.iloc[rows[fastest]].assign(_group=group[fastest])
    bests = bests.sort_values("record_id", key=lambda ids: ids.astype(str), kind="stable")
    bests = bests.drop_duplicates("_group").drop(columns="_group")
    places = ["target", "machine", "workload_key"]  # the store's files do not decide the order
    return bests.sort_values(places, key=lambda column: column.astype(str), ignore_index=True)


def group_numbers(frame: pd.DataFrame) -> np.ndarray:
    """A number for each row that is equal for rows whose latencies compare, from 0."""
    return _numbers_of(frame, GROUP)


def program_numbers(frame: pd.DataFrame) -> np.ndarray:
    """A number for each row that is equal for equal schedules of one group, from 0."""
    return _numbers_of(frame, [*GROUP, "sketch_id", "rules_version", "program"])


def _numbers_of(frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    code = np.zeros(len(frame), np.int64)
    for name in columns:
        column = frame[name]
        if hasattr(column, "cat"):
            values, size = column.cat.codes.to_numpy(), len(column.cat.categories)
        else:
            distinct, values = np.unique(column.to_numpy(), return_inverse=True)
            size = len(distinct)
        code = code * max(size, 1) + values
        code = np.unique(code, return_inverse=True)[1]  # dense again: it cannot overflow
    return code


def seconds(value: Any) -> float | None:
    """A latency of a table as a plain value; None where there is none."""
    return None if value is None or not np.isfinite(value) else float(value)
