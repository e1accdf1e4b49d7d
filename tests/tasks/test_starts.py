"""What a run begins with: the champion, kept for the run, unless somebody asks for another."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from storage import RecordStore
from storage.cards import Card, ModelError
from tasks import goals
from tasks.plan import SearchPlan
from tasks.starts import NoSuchStart, begin
from tests.search.fakes import FakeTarget, FakeTask, observation, space_of
from tests.storage.conftest import make_record  # noqa: F401 (fixture)
from tilework.model import XGBModel
from tilework.search import TuningOptions
from tilework.search.pool import PoolSpace

TARGET = FakeTarget()


def document(seed: int) -> str:
    task = FakeTask("other")
    sketch = task.space.sketches[0]
    model = XGBModel(seed)
    model.update([observation(task, sketch, sketch.sample(np.random.default_rng(seed), 40))])
    return model.to_json()


@pytest.fixture(scope="module")
def documents():
    return [document(seed) for seed in range(2)]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(PoolSpace, "of", space_of)
    return RecordStore(tmp_path / "records")


@pytest.fixture
def keep(store):
    def kept(text: str, promoted: bool = True, kind: str = "llvm", **changes) -> str:
        card = Card(kind, datetime.now(UTC), "1", "", 6, "xgb", records=40, anywhere=True)
        name = store.models.keep(replace(card, **changes), text)
        if promoted:
            store.models.promote(name, by="test")
        return name

    return kept


def plan(**changes) -> SearchPlan:
    base = SearchPlan(
        [FakeTask("conv")], [1.0], TuningOptions(num_measure_trials=8), "run", seed=3
    )
    return replace(base, **changes)


def test_without_a_champion_there_is_no_model_also_when_the_run_goes_on(store, keep, documents):
    start = begin(store, plan(), TARGET)
    assert (start.name, start.model, start.warning) == ("", None, "")
    assert "no champion" in start.text
    keep(documents[0])
    assert begin(RecordStore(store.path), plan(), TARGET).model is None
    assert begin(store, plan(run_id="another"), TARGET).model is not None


def test_a_run_goes_on_with_the_model_that_it_began_with(store, keep, documents):
    first = keep(documents[0])
    began = begin(store, plan(), TARGET)
    assert (
        began.name == first and began.model.model_id == XGBModel.from_json(documents[0]).model_id
    )
    assert began.text == f"{first}, learnt from 40 records of 0 targets"
    second = keep(documents[1])
    assert begin(RecordStore(store.path), plan(), TARGET).name == first
    assert begin(store, plan(run_id="later"), TARGET).name == second


def test_a_new_extension_begins_with_the_champion_of_its_day(store, keep, documents):
    first = keep(documents[0])
    assert begin(store, plan(extend=True), TARGET).name == first
    goals.keep(store, "run", 0, 0.0, False)
    second = keep(documents[1])
    assert begin(store, plan(extend=True), TARGET).name == first  # killed, and started again
    goals.keep(store, "run", 0, 0.0, True)
    assert begin(store, plan(extend=True), TARGET).name == second


def test_a_run_from_before_there_were_models_goes_on_without(store, keep, make_record, documents):  # noqa: F811
    store.append([make_record("run", 0)])
    keep(documents[0])
    assert begin(store, plan(), TARGET).name == ""


def test_a_user_may_ask_for_another_model_or_none(store, keep, documents):
    keep(documents[0])
    other = keep(documents[1], promoted=False)
    cuda = keep('{"a": "gpu"}', promoted=False, kind="cuda")
    assert begin(store, plan(run_id="a", model=other[:9]), TARGET).name == other
    none = begin(store, plan(run_id="b", model="none"), TARGET)
    assert none.model is None and none.text == "no model, as asked for"
    with pytest.raises(ModelError, match="there is no model 'llvm-nothing'"):
        begin(store, plan(run_id="c", model="llvm-nothing"), TARGET)
    with pytest.raises(NoSuchStart, match="is of another kind of machine"):
        begin(store, plan(run_id="d", model=cuda), TARGET)


def test_a_champion_that_was_not_shown_to_help_this_target_is_not_used(store, keep, documents):
    keep(documents[0], anywhere=False, serves=("llvm -mcpu=other",))
    assert begin(store, plan(), TARGET).name == ""


@pytest.mark.parametrize("text", ["{}", "no json", '{"format": "tilework-xgb-2", "trees": []}'])
def test_a_model_that_cannot_be_read_is_one_warning(store, keep, text):
    name = keep(text)
    start = begin(store, plan(), TARGET)
    assert start.model is None and start.warning.startswith(
        f"the run begins without the model {name!r}"
    )
    assert "\n" not in start.warning
    with pytest.raises(NoSuchStart, match="cannot be used"):
        begin(store, plan(run_id="asked", model=name), TARGET)


def test_a_model_that_is_gone_is_one_warning(store, keep, documents):
    name = keep(documents[0])
    begin(store, plan(), TARGET)
    store.documents("cards").remove(name)
    start = begin(store, plan(), TARGET)
    assert start.model is None and name in start.warning
