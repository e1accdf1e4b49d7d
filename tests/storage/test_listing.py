"""What is listed when, and that no change is missed."""

from __future__ import annotations

import os
import time

import pyarrow.fs as pafs
import pytest

from storage import listing
from storage.files import Location
from storage.listing import Listing
from storage.names import RoundName


def name(number):
    return str(RoundName("0" * 16, number, "0" * 8, "0" * 8))


@pytest.fixture
def scans(monkeypatch):
    """The folders that are listed from now on."""
    found = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (found.append(str(path)), scandir(path))[1])
    return found


def test_changes_are_told_once(tmp_path):
    seen = Listing(Location.of(tmp_path))
    assert seen.look() == listing.Changes()
    (tmp_path / "team" / "a").mkdir(parents=True)
    for path in ("x.parquet", "team/y.parquet", "team/a/z.txt", ".hidden", "_kind"):
        (tmp_path / path).touch()
    assert seen.look().added == {"x.parquet", "team/y.parquet", "team/a/z.txt"}
    (tmp_path / "x.parquet").unlink()
    (tmp_path / "team" / "new.parquet").touch()
    changes = seen.look()
    assert (changes.added, changes.removed) == ({"team/new.parquet"}, {"x.parquet"})
    assert seen.look() == listing.Changes()


def test_a_missing_folder_is_empty_and_one_that_vanishes_forgotten(tmp_path):
    seen = Listing(Location.of(tmp_path / "records"))
    assert seen.look() == listing.Changes()
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "x.parquet").touch()
    assert seen.look().added == {"x.parquet"}
    (tmp_path / "records" / "x.parquet").unlink()
    (tmp_path / "records").rmdir()
    assert seen.look().removed == {"x.parquet"}


def test_a_folder_at_rest_is_not_listed_again(tmp_path, scans):
    (tmp_path / "inner").mkdir()
    for folder in (tmp_path / "inner", tmp_path):
        os.utime(folder, (1e9, 1e9))
    seen = Listing(Location.of(tmp_path))
    for _ in range(5):
        seen.look()
    assert len(scans) == 2
    seen.look(force=True)
    assert len(scans) == 4


def test_a_change_within_one_tick_of_the_clock_is_not_missed(tmp_path):
    """The folder shows one time of change for both files; here for good."""
    seen = Listing(Location.of(tmp_path))
    (tmp_path / name(1)).touch()
    stamp = time.time_ns()
    os.utime(tmp_path, ns=(stamp, stamp))
    assert seen.look().added == {name(1)}
    (tmp_path / name(2)).touch()
    os.utime(tmp_path, ns=(stamp, stamp))
    time.sleep(0.1)
    assert seen.look().added == {name(2)}


def test_own_files_are_found_at_once(tmp_path):
    seen = Listing(Location.of(tmp_path))
    seen.look()
    for number in range(20):
        stamp = os.stat(tmp_path).st_mtime_ns
        (tmp_path / name(number)).touch()
        os.utime(tmp_path, ns=(stamp, stamp))
        seen.wrote(name(number))
        assert seen.look().added == {name(number)}


def test_a_file_of_another_form_that_is_written_anew_is_told(tmp_path):
    seen = Listing(Location.of(tmp_path))
    (tmp_path / "by-hand.parquet").write_text("one")
    (tmp_path / name(1)).write_text("one")
    assert len(seen.look().added) == 2
    for path in (tmp_path / "by-hand.parquet", tmp_path / name(1)):
        (tmp_path / "new").write_text("other")
        os.replace(tmp_path / "new", path)
    changes = seen.look()
    assert changes.added == changes.removed == {"by-hand.parquet"}


def test_object_stores_are_listed_now_and_then(monkeypatch):
    place = Location.of("bucket/records", pafs._MockFileSystem())
    seen, other = Listing(place), Listing(place)
    assert seen.look() == other.look() == listing.Changes()
    place.create(name(1), b"")
    seen.wrote(name(1))
    assert seen.look().added == {name(1)}
    assert other.look() == listing.Changes()
    assert other.look(force=True).added == {name(1)}
    place.create(name(2), b"")
    assert seen.look() == listing.Changes()
    monkeypatch.setattr(listing, "_REMOTE_S", 0.0)
    assert seen.look().added == {name(2)}
    place.remove(name(1))
    assert seen.look().removed == {name(1)}
