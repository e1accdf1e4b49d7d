"""Which predictions the records speak for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.search.fakes import DRAFT, FakeMeasurer, FakeTask, space_of
from tilework.measure.candidates import Candidate
from tilework.measure.records import to_records
from tilework.model import XGBModel
from tilework.record import MemoryHistory
from tilework.search import PolicyParams, Scope, SketchPolicy
from tilework.search.known import FEWEST, RETRY, observations, read_known

TASK = FakeTask("conv")
SKETCH = TASK.space.sketches[0]
PARAMS = PolicyParams(population=128, generations=1, neighbours=8)


def _records(count, score, model_id="xgb-1", seed=0, number=0):
    rows = SKETCH.sample(np.random.default_rng(seed), count)
    rows = rows[SKETCH.valid(rows)]
    scores = score(rows)
    candidates = [
        Candidate(0, tuple(map(int, row)), float(s), model_id)
        for row, s in zip(rows, scores, strict=True)
    ]
    measured = FakeMeasurer().measure(TASK, candidates, None)
    return to_records(TASK, measured, run_id=f"run{number}", round=number)


def _known(records):
    policy = SketchPolicy(Scope(TASK, params=PARAMS, own_space=space_of(TASK)))
    return read_known(policy.space, records)


def _right(rows):
    return 1 / SKETCH.latency(rows)


def _wrong(rows):
    return SKETCH.latency(rows)


@pytest.mark.parametrize(("score", "misleads"), [(_right, False), (_wrong, True)])
def test_a_model_that_ranks_worse_than_the_draft_misleads(score, misleads):
    assert _known(_records(60, score)).model_misleads() is misleads


def test_few_records_or_drafted_ones_say_nothing():
    few = _records(60, _wrong)[: FEWEST - 1]
    assert not _known(few).model_misleads()
    assert not _known(_records(60, _wrong, "draft")).model_misleads()
    failed = [replace(r, latency_s=None, status="timeout") for r in _records(60, _wrong)]
    assert not _known(failed).model_misleads()


def test_it_is_asked_again_after_records_made_without_it():
    misled = _records(60, _wrong)
    others = _records(60, _right, "draft", seed=1, number=1)
    assert _known([*misled, *others[: RETRY - 1]]).model_misleads()
    assert not _known([*misled, *others[:RETRY]]).model_misleads()


@pytest.mark.parametrize(("score", "by"), [(_right, "xgb"), (_wrong, "draft")])
def test_the_policy_sets_a_misleading_model_aside(score, by):
    model = XGBModel()
    policy = SketchPolicy(Scope(TASK, params=PARAMS, own_space=space_of(TASK)), model)
    history = MemoryHistory(_records(60, score))
    known = policy.known(history)
    model.update(observations(known, TASK.workload_key, TASK.flops))
    batch = policy.propose(history, 16)
    assert {c.model_id.partition("-")[0] for c in batch} == {by}
    if by == "draft":
        rows = np.array([c.row for c in batch if c.sketch_id == 0])
        scores = [c.predicted_score for c in batch if c.sketch_id == 0]
        order = np.argsort(DRAFT.seconds(SKETCH, rows), kind="stable")
        assert sorted(scores, reverse=True) == pytest.approx([scores[i] for i in order])
