"""Runs of the canary with a measurer whose programs are as slow as a test wants."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from storage import RecordStore
from storage.names import text_name
from tasks import device_lock
from tasks.canary.drift import LEARN
from tasks.canary.frozen import COUNT, freeze
from tasks.canary.journal import KIND, Journal, keep_journal, read_journal
from tasks.canary.remedy import fastest
from tasks.canary.report import remedy_line, rows
from tasks.canary.run import CanaryError, CanaryPlan, run_canary
from tasks.extraction import extract
from tasks.network import NetworkSpec
from tasks.plan import SearchPlan
from tasks.run import prepare, run_final, run_round
from tilework.errors import StoreError
from tilework.measure import Measured
from tilework.record import Purpose, Status
from tilework.search import EFFORTS
from tilework.target import Target
from tilework.target.identity import identity_of

TARGET = Target("reference")
DEVICE = identity_of(TARGET)


class Machine:
    """What a measurer of it finds: every program has a latency of its own.

    Attributes:
        calibration, kernels: how many times as long as usual these take.
        programs: the same of single programs, by sketch and row.
        broken: programs that fail.
    """

    build_factor = 1
    target = TARGET

    def __init__(self):
        self.calibration = self.kernels = 1.0
        self.programs, self.broken = {}, set()
        self.finals_of, self.measured, self.dies = [], 0, False

    @contextmanager
    def open(self, target):
        yield self

    def remember(self, workload_key, results):
        pass

    def measure(self, task, candidates, best_latency_s=None, *, limit=None):
        if self.dies:
            raise KeyboardInterrupt
        self.measured += len(candidates)
        return [self._one(candidate) for candidate in candidates]

    def duel(self, task, candidates):
        self.finals_of.append([(c.sketch_id, tuple(c.row)) for c in candidates])
        return [self._one(candidate) for candidate in candidates]

    finals = duel

    def _one(self, candidate):
        program = (candidate.sketch_id, tuple(candidate.row))
        code = f"{hash(program):x}"
        calibration = 1e-5 * self.calibration
        if program in self.broken:
            return Measured(candidate, Status.wrong_answer, "wrong", calibration_s=calibration)
        share = 1 + hash(program) % 5 / 5
        latency = 1e-4 * share * self.kernels * self.calibration * self.programs.get(program, 1.0)
        return Measured(
            candidate, Status.ok, "", latency, (latency,), 0.0, calibration, 0.1, 0.0, code
        )


class Days:
    """The canary once an hour, or every so many hours."""

    def __init__(self, store, machine, **plan):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.store, self.machine, self.said = store, machine, []
        self.plan = CanaryPlan(seconds=0.0, clock=lambda: self.now, host="h", **plan)

    def run(self, times=1, hours=1):
        for _ in range(times):
            self.now += timedelta(hours=hours)
            store = RecordStore(self.store)
            report = run_canary(TARGET, store, self.plan, self.said.append, self.machine.open)
        return report

    def journal(self):
        documents = RecordStore(self.store).documents(KIND)
        return read_journal(documents, DEVICE.id, "h", str(TARGET))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A store with some rounds of a small network."""
    path = tmp_path_factory.mktemp("canary") / "records"
    found = extract(NetworkSpec("mlp"), TARGET)
    options = replace(EFFORTS["draft"], num_measure_trials=48, seconds=None)
    plan = SearchPlan(found.tasks, found.weights, options, "0123456789abcdef", label="mlp")
    run = prepare(plan, RecordStore(path), Machine(), print)
    while (index := run.next_task()) is not None:
        run_round(run, index)
    while (index := run.next_final()) is not None:
        run_final(run, index)
    return path


@pytest.fixture
def days(tuned, tmp_path):
    import shutil

    path = tmp_path / "records"
    shutil.copytree(tuned, path)
    return Days(path, Machine())


def test_it_freezes_the_best_and_learns_what_is_usual(days):
    best = {r.record_id: r for r in bests(days)}
    report = days.run()
    assert report.kernels.keys() <= best.keys() and 1 < len(report.kernels) <= COUNT
    assert report.verdict == "learning what is usual: 4 more readings"
    report = days.run(LEARN)
    assert report.healthy and report.verdict == "the machine is as usual (0 %); kernels, too"
    assert [row.state for row in rows(report)] == ["as usual"] * (1 + len(report.kernels))


def test_its_records_are_canaries_and_never_the_best(days):
    before = bests(days)
    report = days.run(2)
    found = [r for r in RecordStore(days.store).read() if r.purpose == Purpose.canary]
    assert len(found) == 2 * len(report.kernels)
    assert {r.device_id for r in found} == {DEVICE.id}
    assert len({(r.workload_key, r.round) for r in found}) == len(found)
    assert bests(days) == before


def bests(days):
    store = RecordStore(days.store)
    keys = store.workload_keys(str(TARGET))
    return [store.best(key, str(TARGET), DEVICE) for key in keys]


def test_a_slow_machine_is_told_once_a_day_and_nothing_is_tuned(days):
    days.run(LEARN)
    days.machine.calibration = 1.5
    report = days.run()
    assert not report.machine_alert and report.healthy
    assert report.verdict == "the machine is slower this time (+50 %): the next reading tells"
    days.machine.finals_of.clear()
    report = days.run()
    assert "reference interpreter on h has become slower" in report.machine_alert
    assert "15.00 us instead of 10.00 us (+50 %), 2 runs in a row" in report.machine_alert
    assert not report.healthy and not report.remedies and not days.machine.measured
    assert max(map(len, days.machine.finals_of)) == 1  # the frozen kernels, and no finals
    told = [bool(days.run(hours=5).machine_alert) for _ in range(6)]
    assert told == [False, False, False, False, True, False]
    days.machine.calibration = 1.0
    report = days.run(hours=30)
    assert not report.machine_alert and not report.healthy
    assert report.verdict == "the machine was slower, and is as usual this time (0 %)"
    report = days.run()
    assert report.healthy and "the machine is itself again" in report.notes


def test_a_program_that_became_slow_is_replaced_by_finals(days):
    days.run(LEARN)
    canary = next(c for c in days.journal().canaries if "dense" in c.workload)
    days.machine.programs[canary.sketch_id, canary.row] = 3.0
    known = RecordStore(days.store).of(canary.workload_key, str(TARGET), DEVICE)
    first, second, *_ = fastest(known, 3)
    assert (first.sketch_id, first.decisions) == (canary.sketch_id, canary.row)
    as_fast = first.latency_s / second.latency_s
    days.machine.programs[second.sketch_id, second.decisions] = as_fast
    assert not days.run().kernels_alert
    report = days.run()
    assert "is as usual, but " in report.kernels_alert and "(+200 %)" in report.kernels_alert
    (mended,) = report.remedies
    best = RecordStore(days.store).best(canary.workload_key, str(TARGET), DEVICE)
    assert (best.sketch_id, best.decisions) != (canary.sketch_id, canary.row)
    assert best.purpose == Purpose.final and best == mended.best
    assert mended.how == "finals" and "another program is the best now" in remedy_line(mended)
    assert days.machine.measured == 0
    assert canary.name not in days.run().kernels
    assert days.run(LEARN + 2).healthy


def test_a_task_whose_finals_do_not_help_is_tuned_once_a_day(days):
    days.run(LEARN)
    days.machine.kernels = 3.0
    report = days.run(2)
    assert len(report.remedies) == len(report.kernels)
    assert {remedy.how for remedy in report.remedies} <= {"nothing", "tuning"}
    spent = days.machine.measured
    assert 0 < spent <= days.plan.trials * len(report.kernels)
    # what they take now is learnt as usual; another drift on the same day is told, and waits
    report = days.run(LEARN)
    assert report.healthy
    days.machine.kernels = 9.0
    report = days.run(2)
    assert report.kernels_alert and not report.remedies and not report.healthy
    assert days.machine.measured == spent
    assert days.run(hours=16).remedies and days.machine.measured > spent


def test_a_remedy_that_is_killed_is_not_begun_again_before_tomorrow(days):
    days.run(LEARN)
    days.machine.kernels, days.machine.dies = 3.0, True
    days.run()
    with pytest.raises(KeyboardInterrupt):
        days.run()
    days.machine.dies = False
    report = days.run()
    assert not report.healthy and not report.remedies
    assert days.run(hours=22).remedies


def test_tuning_may_be_forbidden(days):
    days.plan = replace(days.plan, trials=0)
    days.run(LEARN)
    days.machine.kernels = 3.0
    assert {remedy.how for remedy in days.run(2).remedies} == {"nothing"}
    assert days.machine.measured == 0


def test_a_kernel_that_fails_is_told(days):
    report = days.run(LEARN)
    canary = days.journal().canaries[0]
    days.machine.broken.add((canary.sketch_id, canary.row))
    assert days.run().healthy
    report = days.run()
    assert report.kernels_alert.endswith(f"{canary.workload} fails") and not report.healthy
    assert f"failing: {canary.workload}" in report.verdict
    assert not days.run().kernels_alert


def test_other_rules_freeze_other_kernels(days):
    days.run(LEARN)
    documents = RecordStore(days.store).documents(KIND)
    journal = days.journal()
    keep_journal(documents, replace(journal, rules_version=journal.rules_version - 1))
    report = days.run()
    assert "the sketch rules changed: other kernels are frozen" in report.notes
    assert report.verdict.startswith("learning") and days.journal().rounds > journal.rounds


def test_kernels_whose_workloads_are_lost_are_left_out_and_replaced_when_none_is_left(days):
    report = days.run(LEARN)
    workloads = RecordStore(days.store).documents("workloads")
    first, *others = [canary.workload_key for canary in days.journal().canaries]
    kept = {name: workloads.read(name) for name in workloads.names()}
    workloads.remove(text_name(first))
    again = days.run()
    assert len(again.kernels) == len(report.kernels) - 1 and again.healthy
    assert any("does not keep it any more" in note for note in again.notes)
    for name in workloads.names():
        workloads.remove(name)
    assert days.run().skipped and others
    for name, content in kept.items():
        workloads.keep(name, content)
    assert days.run().healthy and days.run().kernels.keys() <= report.kernels.keys()


def test_a_host_has_a_journal_of_its_own(days):
    days.run(LEARN)
    days.plan = replace(days.plan, host="another")
    assert days.run().verdict.startswith("learning")


def test_refreeze_begins_anew(days):
    days.run(LEARN)
    days.plan = replace(days.plan, refreeze=True)
    assert days.run().verdict.startswith("learning")


def test_without_records_of_the_device_there_is_nothing_to_time(days, tmp_path):
    days.store = tmp_path / "empty"
    report = days.run()
    assert report.skipped and "tune something first" in report.verdict and report.healthy
    assert not days.store.exists()
    assert freeze(RecordStore(days.store), TARGET, DEVICE) == ()


def test_a_simulated_target_has_no_canary(days):
    with pytest.raises(CanaryError, match="no kernel can be timed here"):
        run_canary(
            Target("cuda -model=a100 -run=simulated"), RecordStore(days.store), days.plan, print
        )


def test_a_journal_survives_being_written(days):
    days.run(LEARN + 1)
    journal = days.journal()
    assert isinstance(journal, Journal) and journal.rounds == (LEARN + 1) * len(journal.canaries)
    documents = RecordStore(days.store).documents(KIND)
    keep_journal(documents, journal)
    assert days.journal() == journal


def test_a_journal_that_is_no_journal_is_one_line(days):
    days.run()
    name = days.journal().name
    RecordStore(days.store).documents(KIND).keep(name, b'{"device": 1}')
    with pytest.raises(StoreError, match="--refreeze"):
        days.run()
    days.plan = replace(days.plan, refreeze=True)
    assert days.run().verdict.startswith("learning")


def test_a_held_device_is_skipped_with_a_line(days, tmp_path, monkeypatch):
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path / "locks")
    host = Target("llvm -mcpu=native -num-cores=1")
    held, done = threading.Event(), threading.Event()

    def hold():
        with device_lock.hold_device(identity_of(host), "tune resnet-18"):
            held.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(30)
        report = run_canary(host, RecordStore(days.store), days.plan, print)
    finally:
        done.set()
        holder.join()
    assert "is held by `tune resnet-18`" in report.verdict and report.verdict.startswith("skipped")
    assert report.healthy
