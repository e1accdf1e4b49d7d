"""Indexes of packages: what a compile asks them for, read without Parquet.

    a line of JSON: the form, and SHA-256 of the package's file and of what follows
    zlib, of JSON: manifest, names of a record's fields, records, workloads
    zlib, of JSON: models, which are larger than all else and searches alone ask for

An index stands beside its package and is written when that is installed, once all of it was looked
at. One that is missing, damaged, or of another file or version is passed over: the package itself
is read then, which takes most of a second where nothing else needs Arrow.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from storage.packages.manifest import Manifest, NotPackage
from tilework.record import Purpose, Record, Status

SUFFIX = ".index"
"""What follows the name of a package's file."""
_FORM = 2
_LARGEST = 256 << 20
_FIELDS = [field.name for field in fields(Record)]

Place = tuple[str, str, int]
"""Target, workload key and version of the rules of a record."""


class Content(Protocol):
    """What is in a package."""

    @property
    def manifest(self) -> Manifest:
        """What it is about."""

    @property
    def workloads(self) -> Mapping[str, str]:
        """Documents by workload key."""

    @property
    def models(self) -> Mapping[str, str]:
        """Documents of learned models by kind of machine."""

    @property
    def digest(self) -> str:
        """Of its file: equal ones hold the same."""

    def places(self) -> Sequence[Place]:
        """What each record is of."""

    def record(self, row: int) -> Record:
        """The record in a row."""


@dataclass(frozen=True)
class Indexed:
    """A package as its index has it: a `Content`."""

    manifest: Manifest
    rows: Sequence[Sequence[Any]]
    workloads: Mapping[str, str]
    packed_models: bytes
    digest: str

    @cached_property
    def models(self) -> Mapping[str, str]:
        """See `Content`; none where they cannot be read."""
        try:
            models, _ = _unpacked(self.packed_models)
        except (ValueError, zlib.error, RecursionError):
            return {}
        return models if isinstance(models, dict) else {}

    def places(self) -> list[Place]:
        """See `Content`."""
        target, key, version = map(_FIELDS.index, ("target", "workload_key", "rules_version"))
        return [(row[target], row[key], row[version]) for row in self.rows]

    def record(self, row: int) -> Record:
        """See `Content`."""
        named = dict(zip(_FIELDS, self.rows[row], strict=True))
        named["created_at"] = datetime.fromisoformat(named["created_at"])
        named["status"], named["purpose"] = Status(named["status"]), Purpose(named["purpose"])
        for name in ("decisions", "latency_samples"):
            named[name] = tuple(named[name])
        return Record(**named)


def index_of(content: bytes, package: Content) -> bytes:
    """The index of a package.

    Args:
        content: its file.
    """
    records = [package.record(row) for row in range(len(package.places()))]
    document = {
        "manifest": package.manifest.to_json(),
        "fields": _FIELDS,
        "records": [[_plain(getattr(r, name)) for name in _FIELDS] for r in records],
        "workloads": dict(package.workloads),
    }
    body = _packed(document) + _packed(dict(package.models))
    head = {"index": _FORM, "package": _digest(content), "body": _digest(body)}
    return json.dumps(head).encode() + b"\n" + body


def read(path: Path) -> bytes:
    """What is in a file; nothing if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def index_in(content: bytes, index: bytes) -> Indexed | None:
    """What an index says, if it is that of a package's file, and can be used."""
    try:
        head, _, body = index.partition(b"\n")
        package = _digest(content)
        if json.loads(head) != {"index": _FORM, "package": package, "body": _digest(body)}:
            return None
        document, models = _unpacked(body)
        if document["fields"] != _FIELDS:
            return None
        manifest = Manifest.from_json(document["manifest"])
        return Indexed(manifest, document["records"], document["workloads"], models, package)
    except (ValueError, KeyError, TypeError, zlib.error, RecursionError, NotPackage):
        return None


def _packed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document, sort_keys=True).encode(), 9)


def _unpacked(content: bytes) -> tuple[Any, bytes]:
    """The first document that was packed, and what follows it."""
    stream = zlib.decompressobj()
    return json.loads(stream.decompress(content, _LARGEST)), stream.unused_data


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, StrEnum) else value


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
