"""Many networks under one budget: everything real but the timing of networks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import flows.zoo_pipeline
import tilework as tw
from flows.zoo_pipeline import zoo_pipeline
from flows.zoo_settings import ZooNetwork
from tasks import device_lock
from tasks.outcome import Outcome
from tasks.release import MANIFEST
from tasks.stages import PLAIN
from tests.flows.zoos import BATCH, ELSEWHERE, GONE, MLP, WIDE, never, run, settings, stages
from tilework.errors import ModuleError, StoreError, TileworkError


@pytest.fixture(autouse=True)
def own_locks(tmp_path_factory, monkeypatch):
    """Other tests and runs of this machine are not waited for: nothing here is timed closely."""
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path_factory.mktemp("locks"))


@pytest.fixture
def search_only(monkeypatch):
    """Nothing is compiled: what is tested is over before."""

    def release(members, *_):
        return [Outcome(one.title, one.target, one.precision) for one in members]

    monkeypatch.setattr(flows.zoo_pipeline, "release", release)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of two networks on one target, one on another, and one that is gone."""
    folder = tmp_path_factory.mktemp("zoo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_lock, "FOLDER", folder / "locks")
        given = settings(folder, MLP, GONE, BATCH, WIDE, trials=30)
        report, listener = run(zoo_pipeline, given)
    return folder, given, report, listener


def test_the_budget_is_spent_by_all_together(finished):
    folder, _, report, _ = finished
    frame = pd.read_parquet(folder / "records")
    assert (frame.purpose == "search").sum() == 30
    assert report.progress.trials == 30
    assert frame.groupby("run_id").size().index.isin([s.run_id for s in report.searches]).all()
    assert {search.target for search in report.searches} == set(frame.target)


def test_each_target_has_one_search_and_each_task_one_row(finished):
    _, _, report, listener = finished
    assert len(report.searches) == 2
    assert [row.id for row in report.progress.rows] == list(range(12))
    assert [progress.rounds for progress in listener.rounds] == list(range(len(listener.rounds)))
    assert {progress.current for progress in listener.rounds[1:]} > {0}


def test_a_network_that_is_gone_is_one_line_and_the_others_go_on(finished):
    _, _, report, listener = finished
    assert [one.state for one in report.outcomes] == ["made", "failed", "made", "made"]
    (said,) = listener.warnings
    assert said.startswith("gone-18 is left out: unknown network 'gone-18'")
    assert report.failed.startswith("1 of 4 networks failed, the others are done: gone-18 for")


def test_each_module_is_checked_kept_and_runs(finished):
    folder, _, report, _ = finished
    for one in report.outcomes:
        if one.state == "made":
            assert one.finished.check.passed
            assert tw.load_module(one.module).image.target == one.target
    names = {path.name for path in (folder / "modules").iterdir()}
    assert names == {MANIFEST, *(Path(one.module).name for one in report.outcomes if one.module)}


def test_the_same_call_again_measures_and_compiles_nothing(finished):
    folder, given, before, _ = finished
    files = {path: path.stat().st_mtime_ns for path in (folder / "modules").iterdir()}
    report, listener = run(
        zoo_pipeline, given, stages(round=never, final=never, compile=never, check=never)
    )
    assert [one.state for one in report.outcomes] == ["unchanged", "failed"] + ["unchanged"] * 2
    assert report.progress.trials == 30
    assert report.resumed_rounds == before.progress.rounds
    assert all(search.changed == 0 for search in report.searches)
    assert any("going on from there" in note for note in listener.notes)
    assert files == {path: path.stat().st_mtime_ns for path in (folder / "modules").iterdir()}


def test_another_mix_goes_on_with_the_same_rounds(finished):
    _, given, before, _ = finished
    networks = [one.model_copy(update={"use": 7.0}) for one in given.networks]
    report, _ = run(
        zoo_pipeline, given.model_copy(update={"networks": tuple(networks)}), stages(round=never)
    )
    assert report.searches[0].run_id == before.searches[0].run_id
    assert report.progress.trials == 30


@pytest.mark.usefixtures("search_only")
def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    class Killed(BaseException):
        pass

    done = []

    def round(run, index):
        if len(done) == 3:
            raise Killed
        done.append(index)
        return PLAIN.round(run, index)

    given = settings(tmp_path, MLP, WIDE, folder="")
    with pytest.raises(Killed):
        zoo_pipeline(given, stages(round=round))
    spent = (pd.read_parquet(tmp_path / "records").purpose == "search").sum()
    report, _ = run(zoo_pipeline, given)
    frame = pd.read_parquet(tmp_path / "records")
    assert 0 < spent < 20
    assert report.resumed_rounds == 3
    assert (frame.purpose == "search").sum() == 20
    assert frame.record_id.is_unique


def test_without_a_folder_modules_are_checked_and_not_kept(tmp_path):
    report, _ = run(zoo_pipeline, settings(tmp_path, MLP, folder="", trials=4))
    (outcome,) = report.outcomes
    assert (outcome.state, outcome.module) == ("made", "")
    assert outcome.finished.check.passed
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


def test_a_target_that_is_not_here_leaves_the_others_be(tmp_path):
    elsewhere = ZooNetwork(network="mlp", target=ELSEWHERE)
    report, listener = run(zoo_pipeline, settings(tmp_path, elsewhere, MLP, trials=4, folder=""))
    assert [one.state for one in report.outcomes] == ["failed", "made"]
    assert len(listener.warnings) == 1
    assert "needs a machine with" in report.failed
    assert len(report.searches) == 1


def test_a_search_that_cannot_go_on_leaves_the_others_be(tmp_path):
    def round(run, index):
        if run.target.num_cores == 2:
            raise TileworkError("the device is lost")
        return PLAIN.round(run, index)

    report, listener = run(
        zoo_pipeline, settings(tmp_path, MLP, WIDE, trials=8), stages(round=round)
    )
    assert [one.state for one in report.outcomes] == ["made", "failed"]
    assert report.outcomes[1].reason == "the device is lost"
    assert report.progress.trials == 8
    assert len([text for text in listener.warnings if "the device is lost" in text]) == 1


def test_an_error_of_the_store_ends_the_run(tmp_path):
    def round(run, index):
        raise StoreError("the disk is read-only")

    with pytest.raises(StoreError):
        zoo_pipeline(settings(tmp_path, MLP, WIDE), stages(round=round))


def test_all_networks_gone_is_a_failed_run_without_a_search(tmp_path):
    report, _ = run(zoo_pipeline, settings(tmp_path, GONE))
    assert report.failed.startswith("1 of 1 networks failed")
    assert report.progress is None


def test_a_folder_that_cannot_be_used_ends_the_run_before_its_search(tmp_path):
    (tmp_path / "modules").write_text("a file")
    with pytest.raises(ModuleError, match="cannot make the folder"):
        zoo_pipeline(settings(tmp_path, MLP), stages(extract=never))


@pytest.mark.usefixtures("search_only")
def test_an_extension_has_one_goal_however_often_it_is_started(tmp_path):
    class Killed(BaseException):
        pass

    done = []

    def round(run, index):
        if len(done) == 1:
            raise Killed
        done.append(index)
        return PLAIN.round(run, index)

    given = settings(tmp_path, MLP, trials=8, folder="")
    run(zoo_pipeline, given)
    more = given.model_copy(update={"extend": True})
    with pytest.raises(Killed):
        zoo_pipeline(more, stages(round=round))
    report, _ = run(zoo_pipeline, more)
    assert report.progress.trials == report.progress.trials_budget == 16
    again, _ = run(zoo_pipeline, more)
    assert again.progress.trials == 24


def test_each_record_names_the_network_in_which_its_task_weighs_most(finished):
    folder, _, _, _ = finished
    frame = pd.read_parquet(folder / "records")
    assert set(frame.network) == {"mlp"}


def test_a_store_with_credentials_is_refused(tmp_path):
    with pytest.raises(StoreError, match="holds credentials"):
        settings(tmp_path, MLP).model_validate({"networks": [MLP], "store": "s3://a:b@c/d"})
