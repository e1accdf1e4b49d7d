from __future__ import annotations

import numpy as np
import pytest

from tests.search.fakes import DRAFT, FEATURES, FakeDraft, FakeSketch, FakeTask, observation
from tilework.model import Batch, CostModelError, DraftModel, XGBModel, XGBParams
from tilework.model.matrix import training_set
from tilework.model.metrics import pairwise_accuracy, peak_score

TASK = FakeTask("conv")


def _observations(count, seed=0, fail_every=0):
    rng = np.random.default_rng(seed)
    return [
        observation(TASK, sketch, sketch.sample(rng, count), fail_every)
        for sketch in TASK.space.sketches
    ]


def _held_out(count=1000):
    return _observations(count, seed=99)[0]


def test_learns_a_synthetic_cost_better_than_the_draft():
    model = XGBModel()
    model.update(_observations(400))
    test = _held_out()
    predicted = model.predict(test.batch)
    assert peak_score(predicted, test.latency_s, 5) > 0.75
    accuracy = pairwise_accuracy(predicted, test.latency_s)
    assert accuracy > 0.85
    assert accuracy > pairwise_accuracy(-test.batch.draft_s, test.latency_s)


def test_scores_compare_across_sketches_with_other_numbers_of_blocks():
    model = XGBModel()
    model.update(_observations(400))
    tests = _observations(300, seed=5)
    predicted = np.concatenate([model.predict(test.batch) for test in tests])
    latency = np.concatenate([test.latency_s for test in tests])
    assert pairwise_accuracy(predicted, latency) > 0.8


def test_before_any_record_the_draft_ranks():
    batch = _held_out().batch
    model = XGBModel()
    assert not model.trained and model.model_id == "draft"
    assert np.array_equal(model.predict(batch), DraftModel().predict(batch))
    model.update(_observations(2))  # too few to learn from
    assert not model.trained


def test_failures_are_learnt_as_slow():
    sketch = FakeSketch("conv", 0)
    rows = sketch.sample(np.random.default_rng(1), 600)
    failing = observation(TASK, sketch, rows)
    failing.latency_s[rows[:, 0] >= 4] = np.inf
    model = XGBModel()
    model.update([failing])
    test = sketch.sample(np.random.default_rng(2), 500)
    score = model.predict(Batch("conv", 1e8, sketch, test, DRAFT))
    assert score[test[:, 0] >= 4].mean() < score[test[:, 0] < 4].mean() - 0.1


def test_only_failures_is_nothing_to_learn_from():
    model = XGBModel()
    model.update(_observations(50, fail_every=1))
    assert not model.trained


def test_same_observations_and_seed_same_predictions_whatever_the_batching():
    batch = _held_out().batch
    once, twice = XGBModel(seed=3), XGBModel(seed=3)
    first, second = _observations(100), _observations(100, seed=1)
    once.update(first + second)
    twice.update(first)
    twice.update(second)
    assert once.model_id == twice.model_id
    assert np.array_equal(once.predict(batch), twice.predict(batch))


def test_save_and_load(tmp_path):
    batch = _held_out().batch
    model = XGBModel()
    with pytest.raises(CostModelError, match="not been trained"):
        model.save(tmp_path / "model.json")
    model.update(_observations(200))
    model.save(tmp_path / "model.json")
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
    loaded = XGBModel.load(tmp_path / "model.json")
    assert loaded.model_id == model.model_id
    assert np.array_equal(loaded.predict(batch), model.predict(batch))
    loaded.update(_observations(60, seed=7))  # learns on top of what it was loaded with
    test = _held_out()
    assert loaded.model_id != model.model_id
    assert pairwise_accuracy(loaded.predict(batch), test.latency_s) > 0.8


def test_a_bad_file_or_other_features_are_refused(tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(CostModelError, match=r"bad\.json"):
        XGBModel.load(tmp_path / "bad.json")
    with pytest.raises(CostModelError, match=r"absent\.json"):
        XGBModel.load(tmp_path / "absent.json")
    model = XGBModel()
    model.update(_observations(50))
    sketch = FakeSketch("conv", 0)
    other = FakeDraft(names=("other", *FEATURES[1:]))
    rows = sketch.sample(np.random.default_rng(0), 3)
    with pytest.raises(CostModelError, match="differ"):
        model.predict(Batch("conv", 1e8, sketch, rows, other))


def test_a_full_memory_keeps_each_tasks_best_and_latest():
    model = XGBModel(params=XGBParams(max_records=60))
    model.update(_observations(50))
    sketch = FakeSketch("small", 0)
    rows = sketch.sample(np.random.default_rng(0), 10)
    model.update([observation(FakeTask("small"), sketch, rows)])
    packs = training_set(model._memory.tasks, 60).packs
    assert len(packs.sizes) == 60
    assert packs.labels.max() == 1.0
    assert model.num_observations > 100
