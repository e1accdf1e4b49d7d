"""A stored model: everything comes back, and what is damaged or hostile is refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.search.fakes import FakeTask, observation
from tilework.model import CostModelError, XGBModel, XGBParams

SMALL = XGBParams(trees=6, members=2)


@pytest.fixture(scope="module")
def model():
    found = XGBModel(params=SMALL)
    task = FakeTask("conv")
    rng = np.random.default_rng(0)
    for sketch in task.space.sketches:
        found.observe(observation(task, sketch, sketch.sample(rng, 60), fail_every=9))
    found.fit()
    return found


@pytest.fixture(scope="module")
def text(model):
    return model.to_json()


def _tree(document):
    return document["trees"]["learner"]["gradient_booster"]["model"]["trees"][0]


def test_everything_comes_back(model, text):
    again = XGBModel.from_json(text)
    assert again.to_json() == text
    assert (again.kind, again.model_id) == ("llvm", model.model_id)
    assert again.targets == {"llvm -mcpu=fake": 120}
    sketch = FakeTask("conv").space.sketches[0]
    batch = observation(
        FakeTask("conv"), sketch, sketch.sample(np.random.default_rng(4), 30)
    ).batch
    assert np.array_equal(again.predict(batch), model.predict(batch))
    assert np.array_equal(again.uncertainty(batch), model.uncertainty(batch))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda d: d.update(format="tilework-xgb-2"), "one target only"),
        (lambda d: d.update(format="another"), "not a cost model"),
        (lambda d: d.pop("own"), "lacks 'own'"),
        (lambda d: d.update(own=[1]), "cannot read"),
        (lambda d: d.update(columns=[]), "columns"),
        (lambda d: d["columns"].pop(), "does not|do not read"),
        (lambda d: d.update(columns=["x"] * len(d["columns"])), "distinct"),
        (lambda d: d["settings"].update(objective="__import__('os')"), "settings"),
        (lambda d: d.update(members=[d["trees"]] * 99), "members"),
        (lambda d: d["references"][0].__setitem__(3, float("nan")), "positive"),
        (lambda d: d["targets"].update(a=-1), "number of observations"),
        (lambda d: _tree(d)["split_indices"].__setitem__(0, 10**6), "damaged"),
        (lambda d: _tree(d)["left_children"].__setitem__(0, 0), "damaged"),
        (lambda d: _tree(d)["right_children"].__setitem__(0, 10**6), "damaged"),
        (lambda d: _tree(d)["split_conditions"].__setitem__(0, float("inf")), "damaged"),
        (lambda d: _tree(d)["split_conditions"].pop(), "damaged"),
        (lambda d: _tree(d)["tree_param"].update(num_nodes="x"), "cannot read"),
        (lambda d: d["trees"]["learner"]["gradient_booster"]["model"]["trees"].pop(), "as many"),
        (lambda d: d.update(trees={"learner": {}}), "lacks"),
    ],
)
def test_damaged_ones_are_refused_in_one_line(text, change, line):
    document = json.loads(text)
    change(document)
    with pytest.raises(CostModelError, match=line) as error:
        XGBModel.from_json(json.dumps(document))
    assert "\n" not in str(error.value) and len(str(error.value)) < 260


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000, '{"format": []}', "\x00"])
def test_other_texts_are_refused(text):
    with pytest.raises(CostModelError, match="cannot read the cost model") as error:
        XGBModel.from_json(text)
    assert "\n" not in str(error.value)
