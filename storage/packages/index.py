"""Indexes of packages: what a compile asks them for, read without Parquet.

    a line of JSON: the form, and SHA-256 of the package's file and of what follows
    zlib, of JSON: manifest, names of a record's fields, of what each record is, and the bytes of
        each of what follows, by name
    zlib, of JSON: records; workloads; the model of each kind of machine, which is larger than all

Most compiles ask for the first part alone: for the rest where it has something of their own. An
index stands beside its package and is written when that is installed, once all of it was looked
at. One that is missing, damaged, or of another file or version is passed over: the package itself
is read then, which takes most of a second where nothing else needs Arrow.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from storage.packages.manifest import Manifest, NotPackage
from tilework.frozen import frozen
from tilework.record import Purpose, Record, Status

SUFFIX = ".index"
"""What follows the name of a package's file."""
_FORM = 3
_MODEL = "model of "
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


class _Packed(Mapping[str, Any]):
    """Documents by name, each unpacked when it is asked for."""

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name], _ = _unpacked(self._packed[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


@frozen
class Indexed:
    """A package as its index has it: a `Content`."""

    manifest: Manifest
    records_of: Sequence[Place]
    models: Mapping[str, str]
    digest: str
    parts: Mapping[str, Any]

    @property
    def workloads(self) -> Mapping[str, str]:
        """See `Content`."""
        workloads: Mapping[str, str] = self.parts["workloads"]
        return workloads

    def places(self) -> Sequence[Place]:
        """See `Content`."""
        return self.records_of

    def record(self, row: int) -> Record:
        """See `Content`."""
        named = dict(zip(_FIELDS, self.parts["records"][row], strict=True))
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
    places = package.places()
    records = [package.record(row) for row in range(len(places))]
    parts = {
        "records": _packed([[_plain(getattr(r, name)) for name in _FIELDS] for r in records]),
        "workloads": _packed(dict(package.workloads)),
        **{_MODEL + kind: _packed(text) for kind, text in package.models.items()},
    }
    about = {
        "manifest": package.manifest.to_json(),
        "fields": _FIELDS,
        "places": places,
        "parts": [(name, len(part)) for name, part in parts.items()],
    }
    body = b"".join([_packed(about), *parts.values()])
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
        about, rest = _unpacked(body)
        if about["fields"] != _FIELDS:
            return None
        ends = accumulate(size for _, size in about["parts"])
        sized = zip(about["parts"], ends, strict=True)
        each = {name: rest[end - size : end] for (name, size), end in sized}
        models = {n.removeprefix(_MODEL): p for n, p in each.items() if n.startswith(_MODEL)}
        places = [(target, key, version) for target, key, version in about["places"]]
        manifest = Manifest.from_json(about["manifest"])
        return Indexed(manifest, places, _Packed(models), package, _Packed(each))
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
