"""Releases: only what has changed is compiled, and what is bad does not replace what is good."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import flows.pipeline
import tilework as tw
from flows.release_pipeline import release_pipeline
from flows.zoo_pages import verdict
from flows.zoo_pipeline import zoo_pipeline
from flows.zoo_settings import ReleaseSettings, ZooNetwork
from tasks import device_lock
from tasks.release import MANIFEST
from tasks.report import CheckResult, Standing, Timing
from tasks.stores import open_store
from tests.flows.zoos import BATCH, ELSEWHERE, MLP, never, run, settings, stages


@pytest.fixture(autouse=True)
def own_locks(tmp_path_factory, monkeypatch):
    """Other tests and runs of this machine are not waited for: nothing here is timed closely."""
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path_factory.mktemp("locks"))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A store with records of both networks."""
    folder = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_lock, "FOLDER", folder / "locks")
        report, _ = run(zoo_pipeline, settings(folder, MLP, BATCH, trials=16, folder=""))
    assert not report.failed
    return report.store


@pytest.fixture
def release(tmp_path, records):
    """Settings of a release of two networks."""
    return ReleaseSettings(networks=(MLP, BATCH), store=records, folder=str(tmp_path / "release"))


def files(settings):
    """The modules of a release, byte for byte."""
    return {path.name: path.read_bytes() for path in Path(settings.folder).glob("*.tw")}


def states(report):
    return [one.state for one in report.outcomes]


def test_a_release_is_made_once(release):
    first, _ = run(release_pipeline, release)
    assert states(first) == ["made", "made"]
    assert not first.failed
    kept = files(release)
    again, _ = run(release_pipeline, release, stages(extract=never, compile=never))
    assert states(again) == ["unchanged", "unchanged"]
    assert files(release) == kept
    assert not again.failed


def test_the_manifest_names_the_records_that_modules_are_made_from(release, records):
    run(release_pipeline, release)
    modules = json.loads((Path(release.folder) / MANIFEST).read_text())["modules"]
    store = open_store(records)
    best = {record.record_id for record in store.read() if record.usable}
    named = {source["record"] for entry in modules.values()
             for sources in entry["made"]["sources"].values() for source in sources}  # fmt: skip
    assert named
    assert named <= best


def changed(release, tmp_path, other=True):
    """The release with a store in which one task of its first network has a better record.

    Its schedule is another, or else that of the best before.
    """
    shutil.copytree(release.store, tmp_path / "store")
    store = open_store(str(tmp_path / "store"))
    entry = json.loads((Path(release.folder) / MANIFEST).read_text())["modules"][MLP.file_name()]
    records = [one for one in store.read() if one.usable]
    for key, (source,) in entry["made"]["sources"].items():
        same = [one for one in records if one.workload_key == key]
        best = next(one for one in same if one.record_id == source["record"])
        others = [one for one in same if one.decisions != best.decisions]
        if others:
            break
    better = {"record_id": "better", "run_id": "later", "latency_s": best.latency_s / 2}
    record = replace(others[0] if other else best, created_at=datetime.now(UTC), **better)
    store.append([record])
    return release.model_copy(update={"store": str(tmp_path / "store")})


def test_only_what_has_another_best_record_is_made_again(release, tmp_path):
    run(release_pipeline, release)
    kept = files(release)
    later = changed(release, tmp_path)
    report, _ = run(release_pipeline, later)
    assert states(report) == ["made", "unchanged"]
    assert report.outcomes[0].reason == "1 of 4 tasks have another best schedule"
    assert files(release)[BATCH.file_name()] == kept[BATCH.file_name()]
    again, _ = run(release_pipeline, later, stages(compile=never))
    assert states(again) == ["unchanged", "unchanged"]


def test_a_better_record_of_the_same_schedule_changes_nothing(release, tmp_path):
    run(release_pipeline, release)
    later = changed(release, tmp_path, other=False)
    report, _ = run(release_pipeline, later, stages(extract=never, compile=never))
    assert states(report) == ["unchanged", "unchanged"]


def test_a_wrong_module_is_refused_once_and_stays_a_failure(release, tmp_path):
    run(release_pipeline, release)
    kept = files(release)
    later = changed(release, tmp_path)
    wrong = stages(check=lambda compiled: CheckResult("somebody", 0.5))
    report, _ = run(release_pipeline, later, wrong)
    assert states(report) == ["refused", "unchanged"]
    assert "the output is wrong" in report.failed
    again, _ = run(release_pipeline, later, stages(compile=never))
    assert states(again) == ["refused", "unchanged"]
    assert "refused before" in again.failed
    assert files(release) == kept
    assert run(release_pipeline, release, stages(compile=never))[0].failed == ""  # the old best


def test_a_slower_module_is_refused_once_and_held_then(release, tmp_path, monkeypatch):
    monkeypatch.setattr(flows.pipeline, "gap_lines", lambda *_: ())  # seconds of timing
    timing = Timing(1e-3, 1e-3, 1e-3, 1e-3, 0.0)
    run(release_pipeline, release)
    kept = files(release)
    later = changed(release, tmp_path)
    slower = Standing(timing, timing, 1.0, timing, 1.5, slower_than="old")
    report, _ = run(release_pipeline, later, stages(compare=lambda compiled: slower))
    assert states(report) == ["refused", "unchanged"]
    assert "1.50 times" in report.failed
    again, _ = run(release_pipeline, later, stages(compile=never))
    assert states(again) == ["held", "unchanged"]
    assert not again.failed
    assert files(release) == kept


def test_a_module_that_was_changed_or_lost_is_made_again(release):
    run(release_pipeline, release)
    first, second = sorted(Path(release.folder).glob("*.tw"))
    first.unlink()
    second.write_bytes(b"damaged")
    report, _ = run(release_pipeline, release)
    assert states(report) == ["made", "made"]
    assert tw.load_module(str(second))


def test_force_makes_all(release):
    run(release_pipeline, release)
    report, _ = run(release_pipeline, release.model_copy(update={"force": True}))
    assert states(report) == ["made", "made"]


def test_two_networks_that_would_be_one_file_are_told_apart(release):
    twice = release.model_copy(update={"networks": (MLP, MLP.model_copy(update={"use": 1.0}))})
    report, _ = run(release_pipeline, twice)
    assert states(report) == ["made", "failed"]
    assert "give one an `output`" in report.failed


def test_nothing_is_compiled_for_a_simulated_target(release):
    simulated = ZooNetwork(network="mlp", target="cuda -model=a100 -run=simulated")
    report, _ = run(release_pipeline, release.model_copy(update={"networks": (simulated,)}))
    assert states(report) == ["skipped"]
    assert not report.failed


def test_for_a_machine_that_is_elsewhere_modules_are_made_and_not_checked(release):
    elsewhere = ZooNetwork(network="mlp", target=ELSEWHERE)
    there = release.model_copy(update={"networks": (elsewhere,)})
    report, _ = run(release_pipeline, there)
    assert states(report) == ["made"]
    assert report.outcomes[0].finished.check is None
    assert "not checked, since this machine cannot run it: mlp" in verdict(report.outcomes, "")
    again, _ = run(release_pipeline, there, stages(compile=never))
    assert states(again) == ["unchanged"]
