"""Settings of the flow: what identifies a run, and what its budgets are."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

import tilework
from flows.settings import TuneSettings
from flows.upkeep_settings import CanarySettings, MaintainSettings
from flows.zoo_settings import ReleaseSettings, ZooSettings
from tilework.errors import StoreError, TargetError
from tilework.space import space_of
from tilework.target.identity import DeviceIdentity

HERE = DeviceIdentity("AMD EPYC 9B14", (("cores", "2"),), calibration_s=1e-3)
BASE = TuneSettings(network="mlp", target="llvm -mcpu=native -num-cores=2")


def test_the_run_id_is_the_same_for_the_same_work():
    again = TuneSettings(network="mlp", target="llvm -mcpu=native", threads=2)
    assert BASE.run_id("content", HERE) == again.run_id("content", HERE)


def test_runs_of_cpus_are_found_again_by_later_versions(monkeypatch):
    """The text that a run id stands for is never changed: finished rounds would be lost."""
    settings = TuneSettings(network="mlp", target="llvm -mcpu=x86-64-v3 -num-cores=2")
    monkeypatch.setattr(space_of(settings.resolved_target()), "version", 6)
    for version in ("0.1.0", "0.2.0"):
        monkeypatch.setattr(tilework, "__version__", version)
        assert settings.run_id("content", HERE) == "f8530a70b4c50278"


def test_a_larger_budget_or_another_place_continues_the_same_run():
    for change in ({"trials": 99}, {"seconds": 5.0}, {"store": "elsewhere"}, {"output": "x.tw"}):
        assert BASE.model_copy(update=change).run_id("content", HERE) == BASE.run_id(
            "content", HERE
        )


def test_another_device_begins_a_run_of_its_own():
    """Two machines that write to one store must not take each other's rounds for their own."""
    more = DeviceIdentity(HERE.name, (("cores", "64"),), HERE.calibration_s)
    assert BASE.run_id("content", HERE) != BASE.run_id("content", more)
    busy = DeviceIdentity(HERE.name, HERE.facts, 1.1e-3)
    assert BASE.run_id("content", HERE) == BASE.run_id("content", busy)


def test_what_changes_the_measurements_begins_a_new_run():
    for change in ({"seed": 1}, {"effort": "draft"}, {"threads": 1}):
        assert BASE.model_copy(update=change).run_id("content", HERE) != BASE.run_id(
            "content", HERE
        )
    assert BASE.run_id("other content", HERE) != BASE.run_id("content", HERE)


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


FLOWS = [
    (TuneSettings, {"network": "mlp"}),
    (ZooSettings, {"networks": [{"network": "mlp"}], "trials": 8, "folder": "out"}),
    (ReleaseSettings, {"networks": [{"network": "mlp"}], "folder": "out"}),
    (CanarySettings, {}),
    (MaintainSettings, {}),
]


@pytest.mark.parametrize(
    "store",
    [
        "s3://AKIA123:s3cr3t@bucket/records",
        "s3://bucket/records?secret_access_key=s3cr3t",
        "abfs://files@account.dfs.core.windows.net/records?account_key=s3cr3t",
        "gs://bucket/x?access_token=s3cr3t",
    ],
)
@pytest.mark.parametrize(("settings", "more"), FLOWS)
def test_a_store_with_credentials_is_refused_and_they_are_not_shown(settings, more, store):
    with pytest.raises(StoreError, match="AWS_SECRET_ACCESS_KEY") as error:
        settings(**more, store=store)
    assert "s3cr3t" not in str(error.value)
    pattern = settings.model_json_schema()["properties"]["store"]["pattern"]
    assert not re.search(pattern, store), "Prefect's server refuses it, too, before a run shows it"


@pytest.mark.parametrize(
    "store",
    [
        "records", "/data/me@host/records", "s3://bucket/records?region=eu-west-1", "gs://anonymous@bucket/x",
        "s3://bucket/records?endpoint_override=http%3A%2F%2F127.0.0.1%3A9000",
        "abfs://files@account.dfs.core.windows.net/records",
    ],
)  # fmt: skip
def test_other_stores_are_taken(store):
    assert TuneSettings(network="mlp", store=store).store == store
    assert re.search(TuneSettings.model_json_schema()["properties"]["store"]["pattern"], store)


def test_errors_do_not_repeat_what_was_given():
    with pytest.raises(ValidationError) as error:
        TuneSettings(network="mlp", trials="s3cr3t")
    assert "s3cr3t" not in str(error.value)
