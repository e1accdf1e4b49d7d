"""Is a store sound? Every file and document is read, and what is wrong is said, one line each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from storage.documents import Documents, NotDocument, decode
from storage.files import Location
from storage.maintenance.claim import KIND as CLAIMS
from storage.maintenance.holdings import (
    Damaged,
    Foreign,
    Vanished,
    in_parallel,
    look,
    open_file,
    reading,
)
from storage.maintenance.rows import row_group
from storage.models import CARDS, Models
from storage.names import SUFFIX, RoundName
from storage.operations import KIND as WORKLOADS
from storage.operations import Operations
from storage.plausible import faults
from storage.schema import SCHEMA
from tilework.record import Status

_AT_ONCE = 512


class Fault(StrEnum):
    """What can be wrong with a store."""

    damaged = "damaged"
    """A file that cannot be read."""
    foreign = "foreign"
    """A whole file of rows that this version does not know. It stays as it is."""
    document = "document"
    """A document that cannot be read."""
    duplicate = "duplicate"
    """Records that stand in several files, or twice in one. Readers of the store count them once,
    readers of the folder do not."""
    misnamed = "misnamed"
    """A file whose name says something else than its rows."""
    impossible = "impossible"
    """Rows that no measurement can give."""
    unfinished = "unfinished"
    """Files that a compaction has replaced and not removed yet."""
    champion = "champion"
    """The model in use is not there, or cannot be read: searches begin without it."""
    old = "old"
    """A file of an older schema: readers of the folder may miss columns."""


MENDED = frozenset(
    {Fault.damaged, Fault.document, Fault.duplicate, Fault.misnamed, Fault.unfinished, Fault.old}
)
"""What `repair` mends. The others are for people to look at."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        fault: of which kind.
        name: the file, relative to the store.
        text: what is wrong, in words.
    """

    fault: Fault
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass
class Check:
    """What a check saw.

    Attributes:
        files: files of records that were read.
        rows: rows in them.
        documents: documents that were read.
        findings: what is wrong.
        seconds: how long it took.
    """

    files: int = 0
    rows: int = 0
    documents: int = 0
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def names(self, *faults: Fault) -> list[str]:
        """The files with such faults, each once."""
        return list(dict.fromkeys(f.name for f in self.findings if f.fault in faults))


def check(place: Location) -> Check:
    """Reads all of a store. Nothing is changed; others may write meanwhile.

    Raises:
        StoreError: the store cannot be read now.
    """
    begun = time.monotonic()
    result = Check()
    held = look(place)
    names = [n for n in held.names if n not in held.damaged]
    result.findings += [Finding(Fault.damaged, n, why) for n, why in held.damaged.items()]
    result.findings += [
        Finding(Fault.unfinished, name, "replaced by a compacted file, and not removed yet")
        for name in held.replaced
    ]
    operations = Operations(Documents(place, WORKLOADS)).of
    ids: list[np.ndarray] = []
    sources: list[str] = []
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        for name, seen in in_parallel(place, lambda name: _look_at(place, name, operations), some):
            if isinstance(seen, Vanished):
                continue
            if isinstance(seen, Damaged):
                fault = Fault.foreign if isinstance(seen, Foreign) else Fault.damaged
                result.findings.append(Finding(fault, name, seen.reason))
                continue
            result.files += 1
            result.rows += len(seen.ids)
            result.findings += seen.findings
            ids.append(seen.ids)
            sources.append(name)
    result.findings += _duplicates(ids, sources)
    result.findings += _documents(place, result)
    result.findings += _models(place, {finding.name for finding in result.findings})
    result.seconds = time.monotonic() - begun
    return result


@dataclass(frozen=True)
class _Seen:
    ids: np.ndarray
    findings: list[Finding]


def _look_at(place: Location, name: str, operations: Callable[[str], float | None]) -> _Seen:
    hashes, findings = [], []
    with open_file(place, name) as file:
        columns = set(file.schema_arrow.names)
        missing = [column for column in SCHEMA.names if column not in columns]
        if missing:
            text = f"of an older schema: columns such as {missing[0]!r} are missing"
            findings.append(Finding(Fault.old, name, text))
        odd: Counter[str] = Counter()
        first: dict[str, str] = {}
        for index in range(file.metadata.num_row_groups):
            table = reading(place, name, row_group, file, index)
            ids = table.column("record_id").to_pylist()
            hashes.append(_hashes(ids))
            for why, rows in _impossible(table, operations):
                odd[why] += len(rows)
                first.setdefault(why, ids[rows[0]])
            parsed = RoundName.parse(name)
            if parsed is not None and file.metadata.num_row_groups == 1:
                findings += _misnamed(name, parsed, table)
    for why, count in odd.items():
        text = f"{count} row{'s' if count > 1 else ''} {why}, the first is {first[why]!r}"
        findings.append(Finding(Fault.impossible, name, text))
    return _Seen(np.concatenate(hashes) if hashes else np.zeros(0, np.uint64), findings)


def _misnamed(name: str, parsed: RoundName, table: pa.Table) -> list[Finding]:
    columns = ("run_id", "round", "workload_key", "target")
    values = [pc.unique(table.column(column)).to_pylist() for column in columns]
    if any(len(distinct) != 1 for distinct in values):
        text = "named as one round of one workload, and holds several"
        return [Finding(Fault.misnamed, name, text)]
    run_id, round, workload, target = (distinct[0] for distinct in values)
    right = RoundName.of(run_id, round, workload, target, table.column("record_id").to_pylist())
    if right != parsed:
        return [Finding(Fault.misnamed, name, f"its rows belong to {right}")]
    return []


def _impossible(
    table: pa.Table, operations: Callable[[str], float | None]
) -> Iterator[tuple[str, list[int]]]:
    """What rows say that no measurement can give, and which rows say it."""
    latency = table.column("latency_s")
    timed = pc.is_finite(pc.fill_null(latency, np.nan))
    ok = pc.equal(table.column("status"), Status.ok.value)
    rules = {
        "without an id": pc.equal(table.column("record_id"), ""),
        "with status ok and no latency": pc.and_(ok, pc.invert(timed)),
        "of a round below zero": pc.less(table.column("round"), 0),
        "without a workload or a target": pc.or_(
            pc.equal(table.column("workload_key"), ""), pc.equal(table.column("target"), "")
        ),
    }
    masks = {why: pc.fill_null(mask, False).to_numpy() for why, mask in rules.items()}
    keys = pc.unique(table.column("workload_key")).to_pylist()
    known = {key: count for key in keys if (count := operations(key)) is not None}
    for why, bad in (*masks.items(), *faults(table, known)):
        rows = np.flatnonzero(bad)
        if len(rows):
            yield why, rows.tolist()


def _duplicates(ids: list[np.ndarray], sources: list[str]) -> list[Finding]:
    """Ids that occur twice, by hashes of 64 bits: each file says how many it shares, with whom."""
    if not ids:
        return []
    everything = np.concatenate(ids)
    source = np.repeat(np.arange(len(ids), dtype=np.int32), [len(some) for some in ids])
    order = np.argsort(everything, kind="stable")
    same = everything[order][1:] == everything[order][:-1]
    shared: Counter[tuple[str, str]] = Counter()
    for at in np.flatnonzero(same):
        shared[sources[source[order[at]]], sources[source[order[at + 1]]]] += 1
    findings = {}
    for (one, other), count in sorted(shared.items()):
        records = f"{count} record{'s' if count > 1 else ''}"
        findings[other] = f"{records} of it stand also in {one}"
        findings[one] = f"{records} of it stand {'twice' if one == other else f'also in {other}'}"
    return [Finding(Fault.duplicate, name, text) for name, text in findings.items()]


def _documents(place: Location, result: Check) -> list[Finding]:
    findings = []
    for folder in hidden_folders(place):
        if folder == f"_{CLAIMS}":
            continue
        inner = place.within(folder)
        for name in inner.names():
            if not name.endswith(SUFFIX):
                continue
            result.documents += 1
            try:
                decode(inner.read(name))
            except FileNotFoundError:
                continue
            except NotDocument as error:
                findings.append(Finding(Fault.document, f"{folder}/{name}", str(error)))
    return findings


def _models(place: Location, known: set[str]) -> list[Finding]:
    """What is wrong with the registry of models, but for what is known already."""
    models = Models(lambda kind: Documents(place, kind), place.text)
    findings = [
        Finding(Fault.document, f"_{kind}/{name}{SUFFIX}", text)
        for kind, name, text in models.faults()
        if f"_{kind}/{name}{SUFFIX}" not in known
    ]
    for kind in models.kinds():
        if not models.usable(models.champion_name(kind)):
            name = f"_{CARDS}/{models.champion_name(kind)}{SUFFIX}"
            text = f"the champion of {kind} cannot be used: `tilework model rollback {kind}`"
            findings.append(Finding(Fault.champion, name, text))
    return findings


def hidden_folders(place: Location) -> list[str]:
    """The folders of a store's documents.

    Raises:
        StoreError: the store cannot be listed.
    """
    import pyarrow.fs as pafs

    try:
        infos = place.filesystem.get_file_info(pafs.FileSelector(place.path, allow_not_found=True))
    except OSError as error:
        raise place.error("read", error) from error
    folders = (info.base_name for info in infos if info.type == pafs.FileType.Directory)
    return sorted(name for name in folders if name.startswith("_"))


def _hashes(ids: list[str]) -> np.ndarray:
    return np.asarray(pd.util.hash_array(np.array(ids, dtype=object), categorize=False))
