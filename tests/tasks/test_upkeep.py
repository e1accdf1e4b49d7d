"""Looking after a store in one go."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from storage import RecordStore
from storage.files import Location
from storage.maintenance.claim import claim
from tasks.upkeep import look_after
from tests.storage.conftest import make_record  # noqa: F401 (fixture)
from tilework.errors import StoreError

ROUNDS = 20


@pytest.fixture
def store(tmp_path, make_record):  # noqa: F811
    path = tmp_path / "records"
    store = RecordStore(path)
    for number in range(ROUNDS):
        store.append([make_record(round=number)])
    return path


def files(path):
    return sorted(path.glob("*.parquet"))


def test_rounds_become_few_files_and_nothing_is_lost(store):
    said = []
    done = look_after(str(store), False, said.append)
    assert done.verdict == f"sound; {ROUNDS} records in {len(files(store))} files".replace(
        "1 files", "1 file"
    )
    assert len(files(store)) < ROUNDS and len(pd.read_parquet(store)) == ROUNDS
    assert said == list(done.done) and any(line.startswith("compacted: 20") for line in said)
    again = look_after(str(store), False, said.append)
    assert not any(line.startswith("compacted") for line in again.done)


def test_a_damaged_file_is_told_and_mended_if_that_is_asked(store):
    os.truncate(files(store)[3], 100)
    done = look_after(str(store), False, print)
    assert len(done.open) == 1 and "1 thing to look at" in done.verdict and not done.mended
    done = look_after(str(store), True, print)
    assert not done.open and len(done.mended) == 1
    assert done.verdict.startswith("1 thing mended; sound; 19 records")
    assert len(pd.read_parquet(store)) == ROUNDS - 1
    assert list((store / "_damaged").iterdir())
    assert look_after(str(store), True, print).verdict.startswith("sound")


def test_two_at_once_are_one(store):
    with claim(Location.of(store)):
        done = look_after(str(store), True, print)
    assert done.skipped.startswith("skipped: ") and "another process" in done.verdict
    assert len(files(store)) == ROUNDS


def test_a_store_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(StoreError, match="there is no record store at"):
        look_after(str(tmp_path / "none"), True, print)
    assert not (tmp_path / "none").exists()
