"""Settings of the flow: what identifies a run, and what its budgets are."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

import tilework
from flows.settings import TuneSettings
from tilework.errors import TargetError
from tilework.space import space_of

BASE = TuneSettings(network="mlp", target="llvm -mcpu=native -num-cores=2")


def test_the_run_id_is_the_same_for_the_same_work():
    again = TuneSettings(network="mlp", target="llvm -mcpu=native", threads=2)
    assert BASE.run_id("content") == again.run_id("content")


def test_runs_of_cpus_are_found_again_by_later_versions(monkeypatch):
    """The text that a run id stands for is never changed: finished rounds would be lost."""
    settings = TuneSettings(network="mlp", target="llvm -mcpu=x86-64-v3 -num-cores=2")
    monkeypatch.setattr(tilework, "__version__", "0.1.0")
    monkeypatch.setattr(space_of(settings.resolved_target()), "version", 6)
    assert settings.run_id("content") == "f6218b65fe97d567"


def test_a_larger_budget_or_another_place_continues_the_same_run():
    for change in ({"trials": 99}, {"seconds": 5.0}, {"store": "elsewhere"}, {"output": "x.tw"}):
        assert BASE.model_copy(update=change).run_id("content") == BASE.run_id("content")


def test_what_changes_the_measurements_begins_a_new_run():
    for change in ({"seed": 1}, {"effort": "draft"}, {"threads": 1}):
        assert BASE.model_copy(update=change).run_id("content") != BASE.run_id("content")
    assert BASE.run_id("other content") != BASE.run_id("content")


def test_either_budget_replaces_both_of_the_effort():
    options = BASE.model_copy(update={"effort": "draft", "trials": 7}).tuning_options()
    assert (options.num_measure_trials, options.seconds) == (7, None)
    options = BASE.model_copy(update={"effort": "draft", "seconds": 7.0}).tuning_options()
    assert (options.num_measure_trials, options.seconds) == (None, 7.0)


def test_the_effort_gives_the_budget():
    draft = BASE.model_copy(update={"effort": "draft"}).tuning_options()
    quick = BASE.tuning_options()
    assert draft.seconds < 90
    assert draft.seconds < quick.seconds <= 900


@pytest.mark.parametrize(
    "wrong", [{"effort": "huge"}, {"trials": 0}, {"threads": 0}, {"layout": "CHWN"}, {"color": 1}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        TuneSettings(network="mlp", **wrong)


def test_a_bad_target_is_a_target_error():
    with pytest.raises(TargetError):
        TuneSettings(network="mlp", target="abacus").resolved_target()
