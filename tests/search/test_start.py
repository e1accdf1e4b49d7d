"""A session goes on from its history's champion."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.search.fakes import FakeMeasurer, FakeTask, observation, space_of
from tilework.model import XGBModel
from tilework.record import MemoryHistory
from tilework.search import PolicyParams, TuningOptions, TuningRun, TuningSession
from tilework.search.tune import run_round

TASK = FakeTask("mine")


@pytest.fixture(scope="module")
def document():
    task = FakeTask("other")
    sketch = task.space.sketches[0]
    model = XGBModel()
    model.update([observation(task, sketch, sketch.sample(np.random.default_rng(0), 60))])
    return model.to_json()


def session(history):
    params = PolicyParams(population=32, generations=1, neighbours=4)
    options = TuningOptions(num_measure_trials=16, num_measures_per_round=8, policy=params)
    return TuningSession(TuningRun([TASK], options, "run", space_of=space_of), history)


def test_a_session_begins_with_the_champion_and_goes_on_from_it(document):
    history = MemoryHistory()
    assert not session(history).model.trained
    history.keep_champion("llvm", document)
    begun = session(history)
    assert begun.model.model_id == XGBModel.from_json(document).model_id
    run_round(begun, begun.next_task(), FakeMeasurer())
    assert begun.model.model_id != XGBModel.from_json(document).model_id
    proposed = {r.model_id for r in history.read()}
    assert XGBModel.from_json(document).model_id in proposed


def test_a_run_that_goes_on_proposes_the_same_with_a_champion(document):
    whole, halves = MemoryHistory(), MemoryHistory()
    for history in (whole, halves):
        history.keep_champion("llvm", document)
    begun = session(whole)
    for _ in range(2):
        run_round(begun, begun.next_task(), FakeMeasurer())
    for _ in range(2):
        begun = session(halves)
        run_round(begun, begun.next_task(), FakeMeasurer())
    assert [r.decisions for r in whole.read()] == [r.decisions for r in halves.read()]


@pytest.mark.parametrize("broken", ["format", "columns", "text"])
def test_a_champion_that_cannot_be_used_is_a_warning(document, broken):
    facts = json.loads(document)
    if broken == "format":
        facts["format"] = "another"
    if broken == "columns":
        facts["columns"] = ["x", *facts["columns"]]
    history = MemoryHistory()
    history.keep_champion("llvm", json.dumps(facts) if broken != "text" else document[:-9])
    with pytest.warns(UserWarning, match="the search begins without a model"):
        begun = session(history)
    assert not begun.model.trained
