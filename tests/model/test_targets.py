"""One model of many targets: who teaches whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.search.fakes import FakeTarget, FakeTask, observation
from tilework.model import CostModelError, Observation, XGBModel, XGBParams
from tilework.model.metrics import pairwise_accuracy

PARAMS = XGBParams(trees=20, own=20, own_least=100, members=3)
HERE, THERE = FakeTarget("llvm -mcpu=here"), FakeTarget("llvm -mcpu=there")


def _observed(target, key="conv", count=300, seed=0, scale=1.0, device=""):
    task = FakeTask(key, target=target)
    sketch = task.space.sketches[0]
    sketch.target = target
    found = observation(task, sketch, sketch.sample(np.random.default_rng(seed), count))
    batch = replace(found.batch, device=device)
    return Observation(batch, found.latency_s * scale)


def _accuracy(model, target, key="conv"):
    test = _observed(target, key, seed=99)
    return pairwise_accuracy(model.predict(test.batch), test.latency_s)


def _model(*observations, params=PARAMS):
    model = XGBModel(params=params)
    for one in observations:
        model.observe(one)
    model.fit()
    return model


def test_how_fast_a_machine_is_teaches_nothing():
    slow = _model(_observed(HERE), _observed(THERE, seed=1, scale=50.0))
    even = _model(_observed(HERE), _observed(THERE, seed=1))
    batch = _observed(HERE, seed=99).batch
    assert np.allclose(slow.predict(batch), even.predict(batch), rtol=1e-4)
    assert slow.targets == {str(HERE): 300, str(THERE): 300}


def test_devices_of_one_target_are_apart():
    model = _model(_observed(HERE, device="a"), _observed(HERE, seed=1, scale=9.0, device="b"))
    test = _observed(HERE, seed=99, device="b")
    label = test.latency_s.min() / test.latency_s
    assert abs(np.log(model.predict(test.batch).max() / label.max())) < 0.7


def test_a_target_without_records_leans_on_others():
    model = _model(_observed(THERE))
    draft = _observed(HERE, seed=99)
    by_draft = pairwise_accuracy(-draft.batch.draft_s, draft.latency_s)
    assert _accuracy(model, HERE) > by_draft + 0.05


def test_trees_of_its_own_come_with_records(tmp_path):
    def grown(count):
        model = _model(_observed(THERE), _observed(HERE, count=count, seed=1))
        return model._own

    assert grown(60).keys() == {str(THERE)} and grown(300).keys() == {str(HERE), str(THERE)}
    assert _model(_observed(HERE))._own == {}  # with one target the shared trees are its own
    base = XGBModel.from_json(_model(_observed(THERE)).to_json(), params=PARAMS)
    base.observe(_observed(HERE, seed=1))
    base.fit()
    assert base._own.keys() == {str(HERE)}
    again = XGBModel.from_json(base.to_json(), params=PARAMS)
    batch = _observed(HERE, seed=99).batch
    assert np.array_equal(again.predict(batch), base.predict(batch))


def test_going_on_with_own_records_is_better_than_what_it_began_with():
    champion = _model(_observed(THERE, key="dense"))
    session = XGBModel.from_json(champion.to_json(), params=PARAMS)
    before = _accuracy(session, HERE)
    session.update([_observed(HERE, count=48, seed=5)])
    assert _accuracy(session, HERE) > before
    session.update([_observed(HERE, count=300, seed=6)])
    assert _accuracy(session, HERE) > before + 0.02


def test_uncertainty_is_less_where_more_is_known():
    model = _model(*(_observed(THERE, key=f"k{i}", count=80, seed=i) for i in range(4)))
    batch = _observed(THERE, key="k0", seed=99).batch
    found = model.uncertainty(batch)
    assert found.shape == (len(batch),) and (found >= 0).all() and found.max() > 0
    assert (XGBModel().uncertainty(batch) == 0).all()
    assert len(model.uncertainty(batch.take(np.arange(0)))) == 0


def test_another_kind_is_refused():
    model = _model(_observed(HERE))
    other = FakeTarget("cuda -model=a100", kind="cuda")
    with pytest.raises(CostModelError, match="of kind 'cuda'"):
        model.predict(_observed(other).batch)


def test_sharing_remembers_and_computes_nothing_again():
    whole = _model(_observed(HERE), _observed(THERE, seed=1))
    part = whole.sharing(lambda group: group.target == str(THERE))
    assert not part.trained and part.num_observations == 300
    part.fit()
    alone = _model(_observed(THERE, seed=1))
    batch = _observed(HERE, seed=99).batch
    assert np.array_equal(part.predict(batch), alone.predict(batch))


@pytest.mark.parametrize("change", [{"draft": False}, {"machine": False},
                                    {"objective": "throughput"}])  # fmt: skip
def test_ablations_learn_too(change):
    params = replace(PARAMS, **change)
    model = _model(_observed(HERE), params=params)
    assert _accuracy(model, HERE) > 0.6
    again = XGBModel.from_json(model.to_json(), params=PARAMS)
    batch = _observed(HERE, seed=99).batch
    assert np.array_equal(again.predict(batch), model.predict(batch))
