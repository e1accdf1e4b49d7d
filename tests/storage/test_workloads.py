"""What workloads compute, kept beside the records."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from storage import RecordStore
from storage.names import text_name
from tilework.record import MemoryHistory, WorkloadLog

TARGET = "llvm -mcpu=x -num-cores=2"


@pytest.fixture(params=["memory", "store"])
def history(request, tmp_path):
    return MemoryHistory() if request.param == "memory" else RecordStore(tmp_path / "records")


def test_documents_are_kept_once(history, make_round):
    assert isinstance(history, WorkloadLog)
    assert history.workload("conv") is None
    assert history.workload_keys(TARGET) == []
    history.append(make_round("a", 0))
    history.append(make_round("a", 1, workload_key="dense"))
    history.append(make_round("a", 2, target="llvm -mcpu=y -num-cores=2"))
    history.keep_workload("conv", "first")
    history.keep_workload("conv", "second")
    assert history.workload("conv") == "first"
    assert history.workload("dense") is None
    assert history.workload_keys(TARGET) == ["conv", "dense"]


def test_they_are_no_records(tmp_path, make_round):
    store = RecordStore(tmp_path / "records")
    store.append(make_round())
    store.keep_workload("conv", '{"any": "text"}')
    assert len(pd.read_parquet(tmp_path / "records")) == 3
    again = RecordStore(tmp_path / "records")
    assert again.workload("conv") == '{"any": "text"}'
    assert again.problems == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"workload_key": "other", "dag": "x"}'])
def test_a_damaged_file_of_the_old_form_is_named_and_replaced(tmp_path, make_round, content):
    store = RecordStore(tmp_path / "records")
    store.append(make_round())
    folder = tmp_path / "records" / "_workloads"
    folder.mkdir()
    path = folder / f"{text_name('conv')}.json"
    path.write_text(content)
    again = RecordStore(tmp_path / "records")
    assert again.workload("conv") is None
    assert path.name in again.problems[0]
    again.keep_workload("conv", "good")
    assert again.workload("conv") == "good"
    assert again.problems == []


def test_files_of_the_old_form_are_read(tmp_path):
    folder = tmp_path / "records" / "_workloads"
    folder.mkdir(parents=True)
    path = folder / f"{text_name('conv')}.json"
    path.write_text(json.dumps({"workload_key": "conv", "dag": "a dag"}))
    store = RecordStore(tmp_path / "records")
    assert store.workload("conv") == "a dag" and store.problems == []
    store.keep_workload("conv", "another")
    assert store.workload("conv") == "a dag"
