"""What files a store holds, and which of them count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from storage import tables
from storage.compacts import replaces
from storage.files import Location
from storage.listing import Listing
from storage.names import SUFFIX, RoundName, is_compact
from storage.schema import NotRecords, check_schema
from tilework.errors import StoreBusy

Result = TypeVar("Result")

_AT_ONCE = 4096

UNREADABLE = (pa.ArrowException, OSError, ValueError)
"""What reading a file raises that is damaged, or no file of records."""


class Vanished(Exception):
    """A file that was listed and is gone: somebody compacted it."""


class Damaged(Exception):
    """A file that cannot be read as records.

    Attributes:
        name: the file.
        reason: what is wrong, as one line.
    """

    def __init__(self, name: str, reason: object) -> None:
        self.name = name
        self.reason = " ".join(str(reason).split())[:200]
        super().__init__(f"{name}: {self.reason}")


class Foreign(Damaged):
    """A whole Parquet file whose rows this version does not know: of a newer schema, or others."""


@dataclass(frozen=True)
class CompactFile:
    """A compacted file that is present.

    Attributes:
        name: the file.
        rows: how many rows it holds.
        replaces: the files whose rows it holds.
    """

    name: str
    rows: int
    replaces: frozenset[str]

    @property
    def rounds(self) -> frozenset[str]:
        """The rounds among `replaces`."""
        return frozenset(name for name in self.replaces if not is_compact(name))


@dataclass(frozen=True)
class Holdings:
    """The files of a store at one moment.

    Attributes:
        rounds: files of single rounds that count.
        compacts: compacted files that count, by name.
        replaced: files that are there still, and whose rows a compacted file holds.
        others: files of records whose names say nothing of what is inside.
        damaged: compacted files whose footer cannot be read, with the reason.
    """

    rounds: list[str] = field(default_factory=list)
    compacts: dict[str, CompactFile] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The files that count, readable or not."""
        return sorted([*self.rounds, *self.compacts, *self.others, *self.damaged])


def files(place: Location) -> list[str]:
    """The Parquet files of a store, those in folders included, sorted; hidden ones are not.

    Raises:
        StoreError: the store cannot be listed.
    """
    listing = Listing(place)
    listing.look(force=True)
    return sorted(name for name in listing.files if name.endswith(SUFFIX))


def base(name: str) -> str:
    """A file's name without its folders."""
    return name.rpartition("/")[2]


def look(place: Location) -> Holdings:
    """Lists a store, and reads the footers of its compacted files.

    Raises:
        StoreError: the store cannot be listed.
    """
    names = files(place)
    compacts: dict[str, CompactFile] = {}
    damaged: dict[str, str] = {}
    for name, read in in_parallel(
        place, lambda name: _compact(place, name), filter(is_compact, names)
    ):
        if isinstance(read, CompactFile):
            compacts[name] = read
        elif isinstance(read, Damaged):
            damaged[name] = read.reason
    gone = frozenset[str]().union(*(c.replaces for c in compacts.values()))
    held = Holdings(damaged=damaged)
    for name in names:
        if base(name) in gone:
            held.replaced.append(name)
        elif name in compacts:
            held.compacts[name] = compacts[name]
        elif is_compact(name):
            continue
        elif RoundName.parse(name) and base(name) == name:
            held.rounds.append(name)
        else:
            held.others.append(name)
    return held


def open_file(place: Location, name: str) -> pq.ParquetFile:
    """Opens a file of records, whose pages will be checked as they are read.

    Raises:
        Vanished: it is gone.
        Damaged: it cannot be read; Foreign: it holds no records that this version knows.
        StoreError: the filesystem does not let it be read, or not now.
    """
    return reading(place, name, _opened, place, name)


def reading(place: Location, name: str, read: Callable[..., Result], *args: Any) -> Result:
    """Calls ``read``, which reads the file ``name``; its failures are told apart.

    Raises:
        Vanished: the file is gone.
        Damaged: it is damaged; Foreign: it is whole and holds other rows than records.
        StoreError: the filesystem does not let it be read, or not now.
    """
    try:
        return read(*args)
    except FileNotFoundError:
        raise Vanished(name) from None
    except UNREADABLE as error:
        if isinstance(error, OSError):
            failure = place.error("read", error)
            if isinstance(failure, StoreBusy) or _of_filesystem(error):
                raise failure from error
        raise (Foreign if isinstance(error, NotRecords) else Damaged)(name, error) from error


def in_parallel(
    place: Location, act: Callable[[str], Result], names: Iterable[str]
) -> list[tuple[str, Result | Damaged | Vanished]]:
    """``act`` of each name, several at a time, in the order of the names.

    Raises:
        StoreError: the store cannot be read now.
    """

    def one(name: str) -> Result | Damaged | Vanished:
        try:
            return act(name)
        except (Damaged, Vanished) as problem:
            return problem

    todo = list(names)
    answers: list[tuple[str, Result | Damaged | Vanished]] = []
    for start in range(0, len(todo), _AT_ONCE):
        some = todo[start : start + _AT_ONCE]
        answers += zip(some, tables.in_parallel(place, one, some), strict=True)
    return answers


def _of_filesystem(error: OSError) -> bool:
    """Whether the filesystem failed, and not the decoding of what it gave."""
    return error.errno is not None or "AWS Error" in str(error)


def _opened(place: Location, name: str) -> pq.ParquetFile:
    file = pq.ParquetFile(
        place.join(name), filesystem=place.filesystem, page_checksum_verification=True
    )
    try:
        check_schema(file.schema_arrow)
    except NotRecords:
        file.close()
        raise
    return file


def _compact(place: Location, name: str) -> CompactFile:
    with open_file(place, name) as file:
        metadata = file.metadata
        names = reading(place, name, replaces, metadata)
        return CompactFile(name, metadata.num_rows, names)
