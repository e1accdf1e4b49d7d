"""Merging whole stores."""

from __future__ import annotations

import pytest

from storage import RecordStore
from storage.merge import merge
from tilework.errors import StoreError

TARGET = "llvm -mcpu=x -num-cores=2"


def test_merged_stores_answer_as_one(tmp_path, make_round):
    a, b = RecordStore(tmp_path / "a"), RecordStore(tmp_path / "b")
    a.append(make_round("a", 0))
    b.append(make_round("b", 0, latency_s=1e-5))
    b.append(make_round("a", 0))
    b.keep_workload("conv", "{}")
    best = a.distill(tmp_path / "best")
    merged = tmp_path / "all"
    assert merge([a, b, best], merged) == (3, 1)
    assert merge([a, b, best], merged) == (0, 4)
    store = RecordStore(merged)
    assert len(store.read()) == 6
    assert store.best("conv", TARGET).run_id == "b"
    assert store.problems == []
    assert store.workload("conv") == "{}"


def test_merging_nothing_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="no records at"):
        merge([tmp_path / "nowhere"], tmp_path / "all")
