from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.search.fakes import DRAFT, FakeMeasurer, FakeTask, space_of
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.model import Batch, DraftModel, XGBModel
from tilework.record import MemoryHistory, Status
from tilework.search import PolicyParams, Scope, SketchPolicy
from tilework.search.known import observations

TASK = FakeTask("conv")
PARAMS = PolicyParams(population=384, generations=3)


class Chance(DraftModel):
    """Scores from 0 to 1 that know nothing."""

    model_id, trained = "chance", True

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def predict(self, batch):
        return self._rng.random(len(batch))


def _policy(task=TASK, model=None, seed=0, params=PARAMS):
    return SketchPolicy(Scope(task, seed, params, space_of(task)), model)


def _round(task, history, candidates, number, noise=0.0):
    measured = FakeMeasurer(noise=noise).measure(task, candidates, None)
    history.append(to_records(task, measured, run_id="run", round=number))
    return measured


def _learn(model, policy, history):
    known = policy.known(history)
    model.update(observations(known, policy.task.workload_key, policy.task.flops))


def _tuned(rounds, seed=0, count=16):
    history, model = MemoryHistory(), XGBModel()
    policy = _policy(model=model, seed=seed)
    for number in range(rounds):
        _round(TASK, history, policy.propose(history, count), number)
        _learn(model, policy, history)
    return history, model, policy


def test_a_descent_changes_one_decision_of_the_fastest():
    history, _, policy = _tuned(3)
    records = history.of(TASK.workload_key, str(TASK.target))
    best = min((r for r in records if r.status is Status.ok), key=lambda r: r.latency_s)
    steps = policy.propose(history, 8, descend=True)
    assert len(steps) == 8
    for step in steps:  # a decision of these sketches has one column
        assert step.sketch_id == best.sketch_id
        assert np.sum(np.array(step.row) != np.array(best.decisions)) == 1
    assert not {s.row for s in steps} & {r.decisions for r in records}
    assert len(_policy().propose(MemoryHistory(), 4, descend=True)) == 4  # nothing to start from


def test_the_first_batch_follows_the_draft_and_is_diverse():
    policy = _policy()
    batch = policy.propose(MemoryHistory(), 12)
    assert len({(c.sketch_id, c.row) for c in batch}) == 12
    assert {c.model_id for c in batch} == {"draft"}
    scores = [c.predicted_score for c in batch]
    assert scores == sorted(scores, reverse=True)
    sketch = TASK.space.sketches[0]
    first = [c.row for c in batch if c.sketch_id == 0]
    rng = np.random.default_rng(0)
    typical = np.median(DRAFT.seconds(sketch, sketch.sample(rng, 1000)))
    assert (DRAFT.seconds(sketch, np.array(first)) < typical / 2).all()
    assert policy.drafts.best_s <= DRAFT.seconds(sketch, np.array(first)).min()


def test_the_first_batch_measures_the_untuned_choice():
    policy = _policy()
    choice = policy.drafts.untuned
    assert choice.predicted_s == policy.drafts.untuned_s >= policy.drafts.best_s
    for count in (1, 2, 12):
        batch = policy.propose(MemoryHistory(), count)
        assert len(batch) == count
        assert (choice.sketch_id, choice.row) in {(c.sketch_id, c.row) for c in batch}


def test_records_keep_what_the_named_model_itself_predicted():
    history, model, policy = _tuned(3)
    known = policy.known(history)
    assert 0 < policy.scores.trust(known) < 1  # the choice is by both
    batch = policy.propose(history, 16)
    assert {c.model_id for c in batch} == {model.model_id}
    for candidate in batch:
        sketch = TASK.space.sketches[candidate.sketch_id]
        row = np.array([candidate.row], np.int32)
        alone = Batch(TASK.workload_key, TASK.flops, sketch, row, DRAFT, policy.drafts.best_s)
        assert candidate.predicted_score == pytest.approx(model.predict(alone)[0], rel=1e-6)
    (measured, *_) = _round(TASK, history, batch, 3)
    record = next(r for r in history.read() if r.round == 3)
    assert record.predicted_score == measured.candidate.predicted_score
    assert record.model_id == model.model_id


def test_what_a_model_predicts_is_kept_without_limit():
    class Hopeful(Chance):
        def predict(self, batch):
            return 7.0 + super().predict(batch)

    history, _, _ = _tuned(2)
    batch = _policy(model=Hopeful()).propose(history, 8)
    assert all(7 <= c.predicted_score < 8 and c.model_id == "chance" for c in batch)


def test_the_drafts_own_word_is_kept_where_it_chooses():
    policy = _policy()
    for candidate in policy.propose(MemoryHistory(), 12):
        sketch = TASK.space.sketches[candidate.sketch_id]
        seconds = DRAFT.seconds(sketch, np.array([candidate.row]))[0]
        assert candidate.model_id == "draft"
        assert candidate.predicted_score == pytest.approx(policy.drafts.best_s / seconds)


def test_the_same_seed_and_records_give_the_same_candidates():
    first, second = _tuned(3), _tuned(3)
    assert first[0].read() and len(first[0].read()) == 48
    proposals = [policy.propose(history, 16) for history, _, policy in (first, second)]
    assert proposals[0] == proposals[1]
    history, model, _ = first
    fresh = XGBModel()  # as after a restart: all records at once
    policy = _policy(model=fresh)
    _learn(fresh, policy, history)
    assert policy.propose(history, 16) == proposals[0]
    other = _policy(model=model, seed=1)
    assert other.propose(history, 16) != proposals[0]


def test_nothing_is_proposed_twice():
    history, _, _ = _tuned(5)
    programs = [(r.sketch_id, r.decisions) for r in history.read()]
    assert len(programs) == len(set(programs)) == 80


def test_the_search_comes_close_to_the_best_of_the_space():
    rows = np.stack(np.meshgrid(*[np.arange(7)] * 4, indexing="ij"), -1).reshape(-1, 4)
    sketch = TASK.space.sketches[0]
    best = np.round(sketch.centre).astype(int)
    around = np.tile(best, (len(rows), 1))
    around[:, :4] = rows
    lowest = sketch.latency(around[sketch.valid(around)]).min()
    found = [
        _tuned(6, seed)[0].best(TASK.workload_key, str(TASK.target)).latency_s for seed in range(5)
    ]
    assert np.median(found) <= 1.2 * lowest


def test_a_learned_model_beats_a_random_one():
    history, _, _ = _tuned(4)
    learned = history.best(TASK.workload_key, str(TASK.target)).latency_s
    plain = replace(PARAMS, draft_weight=0.0, draft_share=0.0)
    policy = _policy(model=Chance(), params=plain)
    log = MemoryHistory()
    for number in range(4):
        _round(TASK, log, policy.propose(log, 16), number)
    assert learned < 0.8 * log.best(TASK.workload_key, str(TASK.target)).latency_s


def test_a_small_space_runs_out():
    task = FakeTask("tiny", small=True)
    policy, history = _policy(task), MemoryHistory()
    total = 0
    for number in range(6):
        batch = policy.propose(history, 4)
        _round(task, history, batch, number) if batch else None
        total += len(batch)
    sketch = task.space.sketches[0]
    rows = np.stack(np.meshgrid(np.arange(3), np.arange(3)), -1).reshape(-1, 2)
    assert total == int(sketch.valid(rows).sum())
    assert policy.propose(history, 4) == []


def test_records_of_other_rules_or_sketches_are_ignored():
    history = MemoryHistory()
    policy = _policy()
    batch = policy.propose(history, 4)
    _round(TASK, history, batch, 0)
    records = history.read()
    foreign = MemoryHistory(
        [
            replace(records[0], record_id="a", rules_version=10**6),
            replace(records[1], record_id="b", sketch_id=77),
            replace(records[2], record_id="c", decisions=(1, 2)),
        ]
    )
    assert len(policy.known(foreign)) == 0
    assert policy.propose(foreign, 4) == batch


def test_a_candidate_lost_with_its_worker_may_be_tried_once_more():
    history, policy = MemoryHistory(), _policy()
    batch = policy.propose(history, 2)
    lost = [Measured(c, Status.worker_lost, "gone") for c in batch]
    history.append(to_records(TASK, lost, run_id="run", round=0))
    assert len(policy.known(history).keys) == 0
    assert observations(policy.known(history), "conv", 1e8) == []
    history.append(to_records(TASK, lost, run_id="run", round=1))
    assert len(policy.known(history).keys) == 4  # two programs, two records each
    assert not {c.row for c in policy.propose(history, 4)} & {c.row for c in batch}


@pytest.mark.parametrize(("sign", "trust"), [(-1, 0.1), (1, 1.0)])
def test_a_model_that_ranks_backwards_is_set_aside(sign, trust):
    model = XGBModel()
    policy = _policy(model=model)
    sketch = TASK.space.sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 40)
    rows = rows[sketch.valid(rows)]
    scores = sign * sketch.latency(rows)
    batch = [
        Candidate(0, tuple(map(int, row)), float(score), "xgb-7")
        for row, score in zip(rows, scores, strict=True)
    ]
    history = MemoryHistory()
    _round(TASK, history, batch, 0)
    _learn(model, policy, history)
    assert policy.scores.trust(policy.known(history)) == pytest.approx(trust, abs=0.1)


def test_batches_hold_some_random_candidates_after_the_first_round():
    history, model, _ = _tuned(2)
    params = replace(PARAMS, eps_greedy=0.5, diversity=0.0, near_share=0.0, hopeless=1e3)
    wild = _policy(model=model, params=params).propose(history, 16)
    tame = _policy(model=model, params=replace(params, eps_greedy=0.0)).propose(history, 16)
    assert len(wild) == len(tame) == 16
    lowest = [sorted(c.predicted_score for c in batch)[4] for batch in (wild, tame)]
    assert lowest[0] < lowest[1] - 0.1
