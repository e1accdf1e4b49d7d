from __future__ import annotations

import json

import numpy as np
import pytest

from tests.search.fakes import FakeTask, observation
from tilework.model import CostModelError, XGBModel, XGBParams
from tilework.model.metrics import ranking_metrics

TASKS = [FakeTask("conv"), FakeTask("dense", base_s=1e-4)]


def _rounds(model, task, rounds, seed=0):
    rng = np.random.default_rng(seed)
    sketch = task.space.sketches[0]
    for _ in range(rounds):
        model.update([observation(task, sketch, sketch.sample(rng, 32), fail_every=9)])


def test_the_table_judges_predictions_made_before_measuring():
    model = XGBModel()
    _rounds(model, TASKS[0], 1)
    assert model.ranking == {}  # nothing was predicted yet
    sketch = TASKS[0].space.sketches[0]
    rows = sketch.sample(np.random.default_rng(5), 40)
    fresh = observation(TASKS[0], sketch, rows)
    predicted = model.predict(fresh.batch)
    model.update([fresh])
    row = model.ranking["conv"]
    assert row["records"] == 40
    assert row["learned"] == ranking_metrics(predicted, fresh.latency_s)
    assert row["draft"] == ranking_metrics(-fresh.batch.draft_s, fresh.latency_s)
    _rounds(model, TASKS[1], 4)
    assert set(model.ranking) == {"conv", "dense"}
    assert model.ranking["dense"]["records"] <= 96


def test_it_is_stored_with_the_model():
    model = XGBModel()
    _rounds(model, TASKS[0], 3)
    text = model.to_json()
    assert json.loads(text)["ranking"]["conv"]["learned"].keys() >= {
        "peak_score_5", "top_8_recall", "pairwise_accuracy",
    }  # fmt: skip
    again = XGBModel.from_json(text)
    assert again.ranking == model.ranking
    sketch = TASKS[0].space.sketches[0]
    batch = observation(TASKS[0], sketch, sketch.sample(np.random.default_rng(2), 50)).batch
    assert np.array_equal(again.predict(batch), model.predict(batch))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format="tilework-xgb-1"),
        lambda d: d.pop("trees"),
        lambda d: d.update(trees={"learner": 3}),
        lambda d: d.update(ranking=7),
        lambda d: d.update(references=[1]),
    ],
)
def test_broken_documents_are_refused(change):
    model = XGBModel()
    _rounds(model, TASKS[0], 1)
    document = json.loads(model.to_json())
    change(document)
    with pytest.raises(CostModelError):
        XGBModel.from_json(json.dumps(document))
    with pytest.raises(CostModelError):
        XGBModel.from_json("[]")


def test_a_task_never_seen_is_ranked_by_the_draft_and_what_others_taught():
    model = XGBModel()
    _rounds(model, TASKS[0], 6)
    sketch = TASKS[1].space.sketches[0]
    fresh = observation(TASKS[1], sketch, sketch.sample(np.random.default_rng(3), 300))
    alone = XGBModel(params=XGBParams(draft=False))
    _rounds(alone, TASKS[0], 6)
    on_draft = ranking_metrics(model.predict(fresh.batch), fresh.latency_s)
    plain = ranking_metrics(alone.predict(fresh.batch), fresh.latency_s)
    assert on_draft["pairwise_accuracy"] > plain["pairwise_accuracy"]
