"""Files of records as tables: encoding, and reading what is there of each or saying why not."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from storage.files import Location
from storage.names import SUFFIX, RoundName
from storage.schema import SCHEMA, NotRecords, check_schema, conform
from tilework.errors import StoreBusy

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOCAL_READERS = min(8, os.cpu_count() or 1)
_REMOTE_READERS = 24
_FEW = 4
_KEPT_BYTES = 256 << 20
_CHECKED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class Unusable(Exception):
    """A file that is there and holds no records that can be used; the message says why."""


def encode(table: pa.Table) -> bytes:
    """The file of a table of `SCHEMA`, with checksums."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def in_parallel(
    place: Location, act: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """What ``act`` gives for each item, in order; many at once where waiting is most of it."""
    todo = list(items)
    readers = _LOCAL_READERS if place.local else _REMOTE_READERS
    if len(todo) < (_FEW if place.local else 2) or readers == 1:
        return [act(item) for item in todo]
    with ThreadPoolExecutor(min(readers, len(todo))) as pool:
        return list(pool.map(act, todo))


class Tables:
    """The tables in the files of a store.

    Tables of files that hold many keys, and are small, are kept for the next question.
    """

    def __init__(self, place: Location) -> None:
        self.place = place
        self._kept: OrderedDict[str, pa.Table] = OrderedDict()
        self._kept_bytes = 0

    def footer(self, name: str) -> pq.FileMetaData:
        """The footer of a file.

        Raises:
            FileNotFoundError: the file is gone.
            Unusable: it holds no records of a version that is known.
            StoreBusy: it cannot be read now.
        """
        return self._open(name, lambda file: file.metadata)

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
    ) -> pa.Table:
        """The rows of a file, or of some of its row groups: a table of `SCHEMA` or some columns.

        Raises:
            FileNotFoundError, Unusable, StoreBusy: as `footer`.
        """
        kept = self._kept.get(name)
        if kept is not None and row_groups is None:
            return kept if columns is None else kept.select(list(columns))
        return self._open(name, lambda file: _rows(file, columns, row_groups))

    def read_rounds(self, names: Sequence[str], columns: Sequence[str]) -> pa.Table | None:
        """The rows of many local files in one go; None if that does not go smoothly.

        Raises:
            FileNotFoundError: a file is gone.
        """
        if not self.place.local or len(names) < _FEW:
            return None
        paths = [self.place.join(name) for name in names]
        read = list(dict.fromkeys([*columns, "schema_version"]))
        try:
            dataset = ds.dataset(paths, schema=SCHEMA, format=_CHECKED)
            return conform(dataset.to_table(read), read).select(list(columns))
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError):
            return None

    def distinct(self, name: str, columns: Sequence[str]) -> pa.Table:
        """The different rows of some columns of text of a file.

        Raises:
            FileNotFoundError, Unusable, StoreBusy: as `footer`.
        """

        def rows(file: pq.ParquetFile) -> pa.Table:
            groups = range(file.metadata.num_row_groups)
            read = (file.read_row_group(i, list(columns), use_threads=False) for i in groups)
            few = [table.group_by(list(columns)).aggregate([]) for table in read]
            together = pa.concat_tables([SCHEMA.empty_table().select(list(columns)), *few])
            return together.group_by(list(columns)).aggregate([])

        return self._open(name, rows)

    def keep(self, name: str, table: pa.Table) -> None:
        """Keeps the whole table of a file for later questions, while there is room."""
        self.forget(name)
        self._kept[name] = table
        self._kept_bytes += table.nbytes
        while self._kept_bytes > _KEPT_BYTES:
            self.forget(next(iter(self._kept)))

    def forget(self, name: str) -> None:
        """Keeps the table of a file no longer."""
        table = self._kept.pop(name, None)
        if table is not None:
            self._kept_bytes -= table.nbytes

    def _open(self, name: str, act: Callable[[pq.ParquetFile], Result]) -> Result:
        if not name.endswith(SUFFIX):
            raise Unusable("it is no Parquet file")
        try:
            with self._file(name) as file:
                check_schema(file.schema_arrow)
                return act(file)
        except FileNotFoundError:
            raise
        except NotRecords as error:
            raise Unusable(str(error)) from None
        except OSError as error:
            failure = self.place.error("read", error)
            if isinstance(failure, StoreBusy):
                raise failure from error
            raise _not_parquet(error) from None
        except (pa.ArrowException, ValueError) as error:
            raise _not_parquet(error) from None

    def _file(self, name: str) -> pq.ParquetFile:
        if self.place.local or RoundName.parse(name) is None:
            return pq.ParquetFile(
                self.place.join(name),
                filesystem=self.place.filesystem,
                page_checksum_verification=True,
                pre_buffer=not self.place.local,
            )
        # a small file of an object store: one request, not three
        content = pa.BufferReader(self.place.read(name))
        return pq.ParquetFile(content, page_checksum_verification=True)


def _rows(
    file: pq.ParquetFile, columns: Sequence[str] | None, row_groups: Sequence[int] | None
) -> pa.Table:
    present = file.schema_arrow.names
    wanted = [name for name in columns or SCHEMA.names if name in present]
    if row_groups is None:
        table = file.read(wanted, use_threads=False)
    else:
        table = file.read_row_groups(list(row_groups), wanted, use_threads=False)
    return conform(table, columns)


def _not_parquet(error: Exception) -> Unusable:
    if isinstance(error, OSError) and error.strerror:
        return Unusable(f"it cannot be read ({error.strerror})")
    reason = " ".join(str(error).split())[:200]
    return Unusable(f"it cannot be read as Parquet ({reason})")
