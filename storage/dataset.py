"""All records of a store, whoever asks: one dataset, whatever files it is in."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from storage.files import Location
from storage.keys import KEY_COLUMNS, keys_in
from storage.reading import Reading
from storage.scan import Scan
from storage.schema import from_table, to_table
from tilework.errors import StoreError
from tilework.record import Record, by_age

if TYPE_CHECKING:
    import pandas as pd

_OF_ROUND = re.compile(r"(.+)-(\d{6,})-")


class Dataset:
    """The records in a directory, each once: every version, every target, usable or not.

    Every question raises `StoreBusy` if the store cannot be read now, and `StoreError` if somebody
    has to mend something first.

    Attributes:
        location: where the records lie.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        filesystem: pafs.FileSystem | None = None,
        *,
        must_exist: bool = False,
    ) -> None:
        self.location = Location.of(path, filesystem)
        if must_exist and not self.location.is_there():
            raise StoreError(
                f"there is no record store at {self.path!r}: name another, or tune into it, which "
                "makes it"
            )
        self._reading = Reading(self.location)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __fspath__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """The path or URI as it was given, without credentials and query: for people."""
        return self.location.text

    def keys(self) -> list[tuple[str, str]]:
        """The (target, workload key) of all records, whatever their rules, sorted."""
        return self._reading.ask(self._reading.index.keys)

    def find(self, record_id: str) -> list[Record]:
        """The records of which the id begins so, oldest first."""
        of_round = _OF_ROUND.match(record_id)
        if of_round:
            run_id, number = of_round[1], int(of_round[2])
            parts = self._reading.ask(lambda: self._reading.index.parts_of_round(run_id, number))
            records = self._begin_with(record_id, Scan(parts=parts))
            if records:
                return records
        keys: set[tuple[str, str]] = set()
        for table in self.scan(["record_id", *KEY_COLUMNS]):
            keys |= keys_in(table.filter(pc.starts_with(table.column("record_id"), record_id)))
        return self._begin_with(record_id, Scan(keys=keys))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        keys: Collection[tuple[str, str]] | None = None,
    ) -> Iterator[pa.Table]:
        """All readable records, each once, whatever their version and target, part by part.

        Args:
            columns: names of columns; all if not given.
            keys: only records of these (target, workload key).

        Returns:
            Tables of bounded size; all records of a key are in one of them.
        """
        return self._reading.run(Scan(columns, keys))

    def table(
        self,
        columns: Sequence[str] | None = None,
        *,
        keys: Collection[tuple[str, str]] | None = None,
    ) -> pa.Table:
        """All of `scan` as one table, in no order."""
        wanted = to_table([]).select(list(columns)) if columns is not None else to_table([])
        return pa.concat_tables([wanted, *self.scan(columns, keys=keys)])

    def read(self) -> list[Record]:
        """All readable records, whatever their version and target, oldest first."""
        return sorted((row for table in self.scan() for row in from_table(table)), key=by_age)

    def frame(self) -> pd.DataFrame:
        """All readable records as a pandas table, one row each, oldest first."""
        order = ("created_at", "run_id", "round", "record_id")
        return self.table().sort_by([(name, "ascending") for name in order]).to_pandas()

    def _begin_with(self, record_id: str, scan: Scan) -> list[Record]:
        rows = (row for table in self._reading.run(scan) for row in from_table(table))
        return sorted((r for r in rows if r.record_id.startswith(record_id)), key=by_age)
