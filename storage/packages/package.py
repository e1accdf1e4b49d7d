"""The file of a package: Parquet, one row per record, and all else in its footer.

    tilework.schema_version  which columns to expect
    tilework.package         what it is about (`storage.packages.manifest`)
    tilework.workloads       what its workloads compute: {workload key: document}
    tilework.models          learned models, if any: {kind of machine: document}

Any reader of Parquet reads the records. Equal content gives equal bytes (under one version of
Arrow). Reading one executes nothing, and believes nothing: a file is measured before it is read,
and each row is looked at before it is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.packages.index import Place
from storage.packages.manifest import Manifest, NotPackage, is_plain
from storage.plausible import NO_LATENCY, faults, numbers
from storage.schema import (
    SCHEMA,
    VERSION_KEY,
    NotRecords,
    check_schema,
    conform,
    from_table,
    to_table,
)
from tilework.record import SCHEMA_VERSION, Purpose, Record, Status
from tilework.target.runs import run_of

LARGEST = 64 << 20
"""Bytes of the largest file that is looked at."""
MOST_ROWS = 200_000
_MOST_GROUPS = 1_000
_MOST_BYTES = 512 << 20
_MOST_VALUES = 20_000_000
_MOST_DECISIONS = 1_000
_LARGEST_TEXT = 256 << 20

_MANIFEST = b"tilework.package"
_WORKLOADS = b"tilework.workloads"
_MODELS = b"tilework.models"
_NAMES = ("record_id", "run_id", "device_id", "code_hash", "model_id")
"""Columns whose texts are names, never paths."""


@dataclass(frozen=True)
class Package:
    """The best records of networks for targets, and what their workloads compute.

    Attributes:
        manifest: what it is about.
        rows: the records, a table of `storage.schema.SCHEMA`, in the order of `ordered`.
        workloads: documents (`tilework.te.serial`) by workload key.
        models: documents of learned models by kind of machine.
    """

    manifest: Manifest
    rows: pa.Table
    workloads: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)

    @property
    def records(self) -> list[Record]:
        """The records, as `rows` has them."""
        return from_table(self.rows)

    @property
    def digest(self) -> str:
        """See `storage.packages.index.Content`."""
        return hashlib.sha256(encode(self)).hexdigest()

    def places(self) -> list[Place]:
        """See `storage.packages.index.Content`."""
        columns = ("target", "workload_key", "rules_version")
        texts = (self.rows.column(column).to_pylist() for column in columns)
        return list(zip(*texts, strict=True))

    def record(self, row: int) -> Record:
        """See `storage.packages.index.Content`."""
        (record,) = from_table(self.rows.slice(row, 1))
        return record

    def distinct(self, column: str) -> list[str]:
        """The different texts of a column, sorted."""
        return sorted(pc.unique(self.rows.column(column)).to_pylist())


def ordered(records: Iterable[Record]) -> pa.Table:
    """Records as a package has them: sorted by what they are of, each once."""
    rows = {record.record_id: record for record in records}.values()
    return to_table(
        sorted(rows, key=lambda r: (r.target, r.workload_key, r.rules_version, r.record_id))
    )


def encode(package: Package) -> bytes:
    """The file of a package. Equal packages give equal files."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        SCHEMA.remove_metadata(),
        store_schema=False,
        compression="zstd",
        write_page_checksum=True,
    ) as writer:
        writer.write_table(package.rows.replace_schema_metadata(None))
        writer.add_key_value_metadata(
            {
                VERSION_KEY.decode(): str(SCHEMA_VERSION),
                _MANIFEST.decode(): package.manifest.to_json(),
                _WORKLOADS.decode(): _packed(package.workloads),
                **({_MODELS.decode(): _packed(package.models)} if package.models else {}),
            }
        )
    return bytes(sink.getvalue())


def decode(content: bytes) -> Package:
    """The package in a file, if all of it makes sense.

    Raises:
        NotPackage: it does not; the message says why.
    """
    if len(content) > LARGEST:
        raise NotPackage(f"it has {len(content)} bytes, and a package has at most {LARGEST}")
    try:
        with pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True) as file:
            footer = file.metadata.metadata or {}
            if _MANIFEST not in footer:
                raise NotPackage(
                    "it is a Parquet file, and no package: make one with "
                    "`tilework records distill OUT.parquet`"
                )
            manifest = Manifest.from_json(footer[_MANIFEST])
            check_schema(file.schema_arrow)
            _measure(file)
            rows = conform(file.read(_present(file), use_threads=False))
    except NotPackage:
        raise
    except NotRecords as error:
        raise NotPackage(str(error)) from None
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise NotPackage(
            f"it is damaged, or no Parquet file ({' '.join(str(error).split())[:160]})"
        ) from None
    rows = rows.replace_schema_metadata(SCHEMA.metadata)
    _look_at(rows)
    workloads, models = (_unpacked(footer.get(key, b"")) for key in (_WORKLOADS, _MODELS))
    known = set(rows.column("workload_key").to_pylist())
    if not workloads.keys() <= known:
        raise NotPackage("it is damaged: it describes workloads that it has no records of")
    return Package(manifest, rows, workloads, models)


def check_documents(package: Package) -> None:
    """Whether the workloads compute what their keys say: each is put together, none is run.

    Raises:
        NotPackage: one does not.
    """
    from tilework.errors import TileworkError
    from tilework.te.serial import dag_from_json

    for key, document in package.workloads.items():
        try:
            workload_key = dag_from_json(document).workload_key
        except TileworkError as error:
            raise NotPackage(f"what a workload computes cannot be read ({error})") from None
        if workload_key != key:
            raise NotPackage("it is damaged: a workload computes something else than it says")


def _present(file: pq.ParquetFile) -> list[str]:
    there = set(file.schema_arrow.names)
    return [name for name in SCHEMA.names if name in there]


def _measure(file: pq.ParquetFile) -> None:
    """Refuse a file that says of itself that it would fill the memory.

    Raises:
        NotPackage: it does.
    """
    about = file.metadata
    if not 0 <= about.num_rows <= MOST_ROWS or about.num_row_groups > _MOST_GROUPS:
        raise NotPackage(
            f"it claims {about.num_rows} records, and a package has up to {MOST_ROWS}"
        )
    if about.num_columns > 10 * len(SCHEMA):
        raise NotPackage(f"it has {about.num_columns} columns: it is no package")
    rows = total = 0
    for index in range(about.num_row_groups):
        group = about.row_group(index)
        rows += group.num_rows
        for at in range(group.num_columns):
            column = group.column(at)
            total += max(0, column.total_uncompressed_size)
            if not 0 <= column.num_values <= _MOST_VALUES:
                raise NotPackage("it is damaged: a column claims more values than fit")
    if rows != about.num_rows or total > _MOST_BYTES:
        raise NotPackage("it is damaged: its parts do not add up to what it claims")


def _look_at(rows: pa.Table) -> None:
    """Refuse rows that no best record can be.

    Raises:
        NotPackage: there is one; the message says what is wrong with the first.
    """
    ids = rows.column("record_id")
    if len(pc.unique(ids)) != len(rows):
        raise NotPackage("it is damaged: two of its records have one id")
    for why, bad in _faults(rows):
        if bad.any():
            name = ids[int(np.flatnonzero(bad)[0])].as_py()
            shown = name if is_plain(name) else "a record without a plain id"
            raise NotPackage(f"{int(bad.sum())} of its records {why}: {shown[:80]}")


def _faults(rows: pa.Table) -> Iterable[tuple[str, np.ndarray]]:
    """What may be wrong with rows, and with which of them it is."""
    for name in SCHEMA.names:
        if SCHEMA.field(name).type == pa.string():
            yield f"have an unprintable or endless {name}", _where(rows, name, _unprintable)
    for name in _NAMES:
        yield f"have a path as {name}", _where(rows, name, lambda t: "/" in t or "\\" in t)
    for name in ("record_id", "workload_key", "target"):
        yield f"have no {name}", _where(rows, name, lambda text: not text)
    simulated = "are of a target whose latencies are invented"
    yield simulated, _where(rows, "target", lambda t: run_of(t) != "device")
    yield "are no measurements that went well", _where(rows, "status", lambda s: s != Status.ok)
    bests = (Purpose.search, Purpose.final)
    yield "were not measured to be the best", _where(rows, "purpose", lambda p: p not in bests)
    yield f"are impossible: {NO_LATENCY}", np.isnan(numbers(rows, "latency_s"))
    for why, bad in faults(rows):
        yield f"are impossible: {why}", bad
    least = {"round": 0, "sketch_id": 0, "rules_version": 0, "num_cores": 1}
    for name, lowest in least.items():
        yield f"have an impossible {name}", numbers(rows, name) < lowest
    lengths = pc.list_value_length(rows.column("decisions")).to_numpy()
    yield "have more decisions than any schedule", lengths > _MOST_DECISIONS
    for name in ("calibration_s", "device_calibration_s"):
        value = numbers(rows, name)
        wrong = ~np.isnan(value) & ~((value > 0) & np.isfinite(value))
        yield f"have an impossible {name}", wrong


def _where(rows: pa.Table, column: str, wrong: Callable[[str], bool]) -> np.ndarray:
    """Of which rows a text is wrong; each text is looked at once."""
    texts = rows.column(column).combine_chunks().dictionary_encode()
    bad = np.array([bool(wrong(text)) for text in texts.dictionary.to_pylist()] or [False])
    mask: np.ndarray = bad[texts.indices.to_numpy(zero_copy_only=False)]
    return mask if len(rows) else np.zeros(0, bool)


def _unprintable(text: str) -> bool:
    return not is_plain(text)


def _packed(texts: Mapping[str, str]) -> str:
    plain = json.dumps(dict(texts), sort_keys=True).encode()
    return base64.b64encode(zlib.compress(plain, 9)).decode()


def _unpacked(packed: bytes) -> dict[str, str]:
    if not packed:
        return {}
    try:
        opener = zlib.decompressobj()
        plain = opener.decompress(base64.b64decode(packed, validate=True), _LARGEST_TEXT)
        if opener.unconsumed_tail or not opener.eof:
            raise NotPackage("it is damaged: what it says of its workloads has no end")
        document = json.loads(plain)
    except (zlib.error, binascii.Error, RecursionError, ValueError) as error:
        if isinstance(error, NotPackage):
            raise
        raise NotPackage("it is damaged: what its workloads compute cannot be read") from None
    if not isinstance(document, dict) or not all(
        isinstance(text, str) for text in document.values()
    ):
        raise NotPackage("it is damaged: what its workloads compute is no list of texts")
    return document
