"""Stores on disk, made of files only."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.files import Location
from storage.names import SUFFIX, RoundName
from storage.schema import from_table, to_table


class Folder:
    """A store's folder: writes rounds, and reads all rows as any reader of Parquet does."""

    def __init__(self, path):
        self.path = path
        self.place = Location.of(path)

    def write(self, records):
        """A file of one round; its name."""
        first = records[0]
        name = str(
            RoundName.of(
                first.run_id,
                first.round,
                first.workload_key,
                first.target,
                [r.record_id for r in records],
            )
        )
        sink = pa.BufferOutputStream()
        pq.write_table(to_table(records), sink, compression="zstd", write_page_checksum=True)
        self.place.create(name, sink.getvalue().to_pybytes())
        return name

    def files(self):
        return {p.name for p in self.path.glob(f"[!._]*{SUFFIX}")}

    def records(self):
        """Every row that stands in a file, as often as it stands there, sorted by id."""
        rows = [r for name in self.files() for r in from_table(pq.read_table(self.path / name))]
        return sorted(rows, key=lambda r: r.record_id)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "records")


@pytest.fixture
def other_folder(tmp_path):
    return Folder(tmp_path / "others")


@pytest.fixture
def damage():
    """damage(path) -> flips a byte in the middle of the first column's data."""

    def flip(path, at=200):
        content = bytearray(path.read_bytes())
        content[at] ^= 0xFF
        path.write_bytes(content)

    return flip
