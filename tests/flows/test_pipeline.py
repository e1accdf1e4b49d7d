"""The plain pipeline on a small network: everything real, no Prefect."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tilework as tw
from flows.pipeline import tune_pipeline
from flows.reporting import Reporter, reporting
from storage import RecordStore
from storage.bests import KIND, Bests
from tasks.stages import PLAIN, Stages
from tilework.record import best_of
from tilework.target.identity import identity_of


class Listener(Reporter):
    def __init__(self):
        self.rounds, self.notes, self.stages = [], [], []

    def stage(self, text):
        self.stages.append(text)

    def note(self, text):
        self.notes.append(text)

    def progress(self, progress):
        self.rounds.append(progress)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One finished run: (settings, report, what the reporter heard)."""
    from flows.settings import TuneSettings

    folder = tmp_path_factory.mktemp("run")
    settings = TuneSettings(
        network="mlp",
        target="llvm -mcpu=native -num-cores=1",
        trials=16,
        store=str(folder / "records"),
        output=str(folder / "mlp.tw"),
    )
    listener = Listener()
    with reporting(listener):
        report = tune_pipeline(settings).report
    return settings, report, listener


def test_the_report_covers_every_task_and_the_whole_budget(finished):
    _, report, _ = finished
    assert [row.id for row in report.progress.rows] == [0, 1, 2, 3]
    assert report.progress.trials == 16
    assert report.resumed_rounds == 0
    assert report.before.median_ms > 0
    assert report.after.median_ms > 0


def test_the_picture_of_the_search_ends_at_the_number_of_the_summary(finished):
    from flows.convergence import convergence

    settings, report, _ = finished
    target = settings.resolved_target()
    store, device = RecordStore(settings.store), identity_of(target)
    records = [r for key in report.weights for r in store.of(key, str(target), device)]
    rows = zip(report.weights, report.progress.rows, strict=True)
    curve = convergence(records, report.weights, {key: row.draft_ms / 1e3 for key, row in rows})
    assert curve.total_s[-1] == pytest.approx(report.progress.estimated_total_s, rel=1e-12)


def test_the_output_is_checked(finished):
    _, report, _ = finished
    assert report.check.passed
    assert 0 <= report.check.max_rel_error < 1e-3


def test_every_measurement_is_a_row(finished):
    settings, report, _ = finished
    frame = pd.read_parquet(settings.store)
    assert (frame.purpose == "search").sum() == 16
    assert set(frame.run_id) == {report.run_id}
    assert set(frame.network) == {"mlp"}
    assert frame["round"].nunique() == report.progress.rounds


def test_the_best_records_are_distilled_out_of_the_readers_sight(finished):
    settings, _, _ = finished
    store = RecordStore(settings.store)
    bests = Bests(store.documents(KIND))
    keys = store.keys()
    for target, workload in keys:
        best = bests.of(workload, target)
        assert best is not None
        assert best_of(best.records) == best_of(store.of(workload, target))
    assert len(pd.read_parquet(settings.store)) == len(store.read())


def test_what_the_workloads_compute_is_kept_beside_the_records(finished):
    from tilework.te.serial import dag_from_json

    settings, _, _ = finished
    store = RecordStore(settings.store)
    target = str(settings.resolved_target())
    assert store.workload_keys(target) and store.models.names() == []
    for key in store.workload_keys(target):
        assert dag_from_json(store.workload(key)).workload_key == key


def test_the_module_runs_elsewhere(finished):
    settings, _, _ = finished
    (output,) = tw.load_module(settings.output).run({"data": np.ones((1, 28, 28, 1), np.float32)})
    np.testing.assert_allclose(output.sum(), 1.0, rtol=1e-5)


def test_progress_is_reported_round_by_round(finished):
    _, report, listener = finished
    rounds = [progress.rounds for progress in listener.rounds]
    assert rounds == list(range(report.progress.rounds + 1))
    assert "compiling" in listener.stages


def test_the_same_call_again_measures_nothing(finished):
    settings, report, _ = finished

    def never(*_):
        raise AssertionError("a finished run was measured again")

    stages = Stages(**{**vars(PLAIN), "round": never})
    listener = Listener()
    with reporting(listener):
        again = tune_pipeline(settings, stages).report
    assert again.resumed_rounds == report.progress.rounds
    assert again.progress.trials == report.progress.trials
    assert any("finished rounds" in note for note in listener.notes)


def test_extending_spends_the_budget_once_more(finished, tmp_path):
    settings, report, _ = finished
    more = tune_pipeline(settings.model_copy(update={"extend": True, "trials": 8})).report
    assert more.progress.trials == report.progress.trials + 8
    assert more.run_id == report.run_id
