"""Learned models kept beside the records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from storage import RecordStore
from tests.search.fakes import FakeTask, observation
from tilework.model import XGBModel

TARGET = "llvm -mcpu=x -num-cores=2"


@pytest.fixture(scope="module")
def model():
    task = FakeTask("conv")
    sketch = task.space.sketches[0]
    rng = np.random.default_rng(0)
    made = XGBModel()
    for _ in range(2):
        made.update([observation(task, sketch, sketch.sample(rng, 40))])
    return made


def test_a_model_is_kept_with_its_metrics(tmp_path, make_round, model):
    store = RecordStore(tmp_path / "records")
    assert store.model(TARGET) is None
    store.append(make_round())
    store.keep_model(TARGET, model.to_json())
    again = RecordStore(tmp_path / "records")
    document = again.model(TARGET)
    assert document is not None and again.model("llvm -mcpu=y -num-cores=2") is None
    loaded = XGBModel.from_json(document)
    assert loaded.model_id == model.model_id and loaded.ranking == model.ranking
    assert "peak_score_5" in loaded.ranking["conv"]["learned"]
    assert len(pd.read_parquet(tmp_path / "records")) == 3
    assert again.problems == []


def test_a_damaged_file_is_named_and_replaced(tmp_path, make_round, model):
    store = RecordStore(tmp_path / "records")
    store.append(make_round())
    store.keep_model(TARGET, model.to_json())
    (path,) = (tmp_path / "records" / "_models").iterdir()
    path.write_bytes(path.read_bytes()[:500])
    assert store.model(TARGET) is None
    assert path.name in store.problems[0]
    store.keep_model(TARGET, model.to_json())
    assert store.model(TARGET) is not None and store.problems == []
