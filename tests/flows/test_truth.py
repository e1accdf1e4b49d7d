"""What a run says at its end is true: a bad module is never kept, and the good old one stays."""

from __future__ import annotations

import dataclasses
import errno
import functools
import json

import pytest
from typer.testing import CliRunner

import tilework as tw
from flows.cli import app
from flows.pipeline import TuneFailed, tune_pipeline
from flows.reporting import Reporter, reporting
from flows.settings import TuneSettings
from storage import RecordStore
from tasks import check, device_lock, goals, standing
from tasks.extraction import Extracted
from tasks.patience import SearchClock, patiently
from tasks.stages import PLAIN, Stages
from tests.flows.still import GOOD, samples
from tilework.errors import RunFailed, StoreBusy
from tilework.target.identity import DeviceIdentity


class Listener(Reporter):
    def __init__(self):
        self.notes, self.warnings = [], []

    def note(self, text):
        self.notes.append(text)

    def warn(self, text):
        self.warnings.append(text)


def timed(monkeypatch, *looks):
    """Engines seem to take these seconds, one dictionary for each look."""
    left = list(looks)

    def look(engines, net, seconds):
        times = left.pop(0)
        return {name: samples(times[name]) for name in engines}

    monkeypatch.setattr(standing, "time_at_points", look)
    monkeypatch.setattr("flows.pipeline.gap_lines", lambda *_: ())
    return left


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Settings of a run whose search is over: tuning again measures nothing."""
    folder = tmp_path_factory.mktemp("truth")
    made = TuneSettings(
        network="mlp",
        target="llvm -mcpu=native -num-cores=1",
        trials=8,
        store=str(folder / "records"),
    )
    with pytest.MonkeyPatch.context() as patch:
        timed(patch, GOOD)
        tune_pipeline(made)
    return made


@pytest.fixture
def place(settings, tmp_path):
    """A good module in its place, as an earlier run left it; (settings, path, its bytes)."""
    path = tmp_path / "mlp.tw"
    tw.compile(tw.zoo.get("mlp"), settings.resolved_target()).save(path)
    return settings.model_copy(update={"output": str(path)}), path, path.read_bytes()


def files(path):
    return [p.name for p in path.parent.iterdir()]


def test_a_good_module_takes_the_place_of_the_old_one(place, monkeypatch):
    settings, path, old = place
    timed(monkeypatch, GOOD)
    report = tune_pipeline(settings).report
    assert report.module == str(path) and not report.failed
    assert path.read_bytes() != old
    assert files(path) == ["mlp.tw"]
    assert report.standing.over_old == pytest.approx(1 / 1.01)
    assert report.verdict.startswith("kept: output right")
    assert "1.01 times as fast as the module before" in report.verdict
    assert any(row.tuned for row in tw.load_module(path).report)


def test_a_wrong_output_fails_the_run_and_keeps_the_old_file(place, monkeypatch):
    settings, path, old = place
    timed(monkeypatch)  # nothing is timed: what is wrong may be as fast as it likes
    monkeypatch.setitem(check.TOLERANCES, "f32", 1e-12)
    before = len(RecordStore(settings.store).read())
    with pytest.raises(TuneFailed, match="the output is wrong: maximum relative error") as error:
        tune_pipeline(settings)
    assert isinstance(error.value, RunFailed)
    assert path.read_bytes() == old and files(path) == ["mlp.tw"]
    assert "stays as it was" in str(error.value)
    report = error.value.outcome.report
    assert report.module == "" and not report.check.passed
    assert report.verdict.startswith("FAILED: ")
    assert len(RecordStore(settings.store).read()) == before


def test_a_slower_module_fails_the_run_and_keeps_the_old_file(place, monkeypatch):
    settings, path, old = place
    slow = {"untuned": 2e-3, "tuned": 1.1e-3, "old": 1e-3}
    left = timed(monkeypatch, *[slow] * 4)
    with pytest.raises(TuneFailed, match=r"1\.10 times as long as the module that it would"):
        tune_pipeline(settings)
    assert not left, "it was opened and looked at again, three times"
    assert path.read_bytes() == old and files(path) == ["mlp.tw"]


def test_a_module_that_only_looked_slower_is_kept(place, monkeypatch):
    settings, path, old = place
    slow = {"untuned": 2e-3, "tuned": 1.3e-3, "old": 1e-3}
    left = timed(monkeypatch, slow, slow, GOOD)
    assert tune_pipeline(settings).report.module == str(path)
    assert not left
    assert path.read_bytes() != old


@pytest.mark.parametrize("old", [{}, {"old": 1.01e-3}])
def test_where_the_search_found_nothing_the_untuned_network_is_kept(
    settings, tmp_path, place, monkeypatch, old
):
    slow = {"untuned": 1e-3, "tuned": 1.49e-3, **old}
    timed(monkeypatch, *[slow] * 4)
    path = place[1] if old else tmp_path / "new.tw"
    report = tune_pipeline(settings.model_copy(update={"output": str(path)})).report
    assert report.module == str(path) and not report.failed
    assert "the untuned network: what was found takes 1.49 times as long" in report.verdict
    module = tw.load_module(path)
    assert not any(row.tuned for row in module.report)
    assert path.name in files(path) and len(files(path)) == (1 if old else 2)


def test_the_untuned_network_does_not_replace_a_faster_module(place, monkeypatch):
    settings, path, old = place
    timed(monkeypatch, *[{"untuned": 1.3e-3, "tuned": 1.49e-3, "old": 1e-3}] * 4)
    with pytest.raises(TuneFailed, match="the module that it would replace"):
        tune_pipeline(settings)
    assert path.read_bytes() == old and files(path) == ["mlp.tw"]


def test_an_old_module_whose_output_is_wrong_does_not_win_by_being_faster(place, monkeypatch):
    settings, path, old = place
    timed(monkeypatch, *[{"untuned": 2e-3, "tuned": 1.1e-3, "old": 1e-3}] * 4)
    right = Extracted.check

    def old_is_wrong(extracted, module):
        found = right(extracted, module)
        tuned = any(row.tuned for row in module.report)
        return found if tuned else dataclasses.replace(found, max_rel_error=0.5)

    monkeypatch.setattr(Extracted, "check", old_is_wrong)
    listener = Listener()
    with reporting(listener):
        assert tune_pipeline(settings).report.module == str(path)
    assert path.read_bytes() != old
    assert any("although it was faster" in line for line in listener.warnings)


def test_an_old_file_that_is_no_module_is_replaced_with_a_note(place, monkeypatch):
    settings, path, _ = place
    timed(monkeypatch, {"untuned": 2e-3, "tuned": 1e-3})
    path.write_bytes(b"not a module")
    listener = Listener()
    with reporting(listener):
        assert tune_pipeline(settings).report.standing.old is None
    assert any("replaced unseen" in note for note in listener.notes)
    tw.load_module(path)


def test_a_module_of_another_network_is_replaced_with_a_note(place, monkeypatch):
    settings, path, _ = place
    timed(monkeypatch, {"untuned": 2e-3, "tuned": 1e-3})
    tw.compile(tw.zoo.get("mlp", batch=3), settings.resolved_target()).save(path)
    listener = Listener()
    with reporting(listener):
        tune_pipeline(settings)
    (note,) = [note for note in listener.notes if "replaced unseen" in note]
    assert "another inputs" in note or "other inputs" in note
    assert tw.load_module(path).image.inputs[0].shape[0] == 1


def test_a_full_disk_costs_a_wait_and_nothing_that_was_measured(settings, tmp_path, monkeypatch):
    """The store's error is retried where it happens, with the values that were measured."""
    timed(monkeypatch, GOOD)
    waits, rounds, append = [], [], RecordStore.append
    monkeypatch.setattr(SearchClock, "wait", lambda self, seconds: waits.append(seconds))

    def full_once_a_round(store, records):
        records = list(records)
        rounds.append([record.record_id for record in records])
        if rounds[-1] not in rounds[:-1]:
            raise StoreBusy("records: cannot be written: No space left on device")
        append(store, records)

    monkeypatch.setattr(RecordStore, "append", full_once_a_round)
    listener = Listener()
    fresh = settings.model_copy(update={"store": str(tmp_path / "records")})
    with reporting(listener):
        report = tune_pipeline(fresh).report
    assert report.progress.trials == 8
    assert rounds[0::2] == rounds[1::2], "the same records, not measured again"
    assert len(waits) == len(rounds) // 2 == len(listener.warnings) > 1
    assert "No space left on device: trying again in 1 s" in listener.warnings[0]


def test_a_store_that_is_away_now_and_then_costs_waits_alone(settings, tmp_path, monkeypatch):
    timed(monkeypatch, GOOD)
    monkeypatch.setattr("tasks.patience.time.sleep", lambda _: None)
    monkeypatch.setattr(SearchClock, "wait", lambda self, seconds: None)
    at_once = functools.partial(patiently, delays=(0.0,) * 40, sleep=lambda _: None)
    monkeypatch.setattr("tasks.run.patiently", at_once)
    asked = []

    def away_now_and_then(question):
        def ask(store, *words, **named):
            asked.append(question.__name__)
            if asked.count(question.__name__) in (1, 2, 30):
                raise StoreBusy("records: the network is away")
            return question(store, *words, **named)

        return ask

    questions = ("of", "best", "hints", "append", "has_round", "workload", "workload_keys")
    for name in (*questions, "keep_workload", "champion", "check_writable"):
        monkeypatch.setattr(RecordStore, name, away_now_and_then(getattr(RecordStore, name)))
    monkeypatch.setattr(goals, "kept", away_now_and_then(goals.kept))
    listener = Listener()
    fresh = settings.model_copy(update={"store": str(tmp_path / "records")})
    with reporting(listener):
        report = tune_pipeline(fresh).report
    assert report.progress.trials == 8 and not report.failed
    assert len(listener.warnings) > 10
    monkeypatch.undo()
    records = RecordStore(fresh.store).read()
    assert sum(r.purpose == "search" for r in records) == 8
    assert (
        len({(r.workload_key, r.sketch_id, r.decisions) for r in records if r.purpose == "search"})
        == 8
    )


def test_a_full_disk_under_the_module_is_waited_for(place, monkeypatch):
    settings, path, _ = place
    timed(monkeypatch, GOOD)
    monkeypatch.setattr("tasks.patience.time.sleep", lambda _: None)
    save, calls = tw.runtime.Module.save, []

    def full_once(module, where):
        calls.append(where)
        if len(calls) == 1:
            try:
                raise OSError(errno.ENOSPC, "No space left on device")
            except OSError as error:
                raise tw.errors.ModuleError("cannot write the module") from error
        save(module, where)

    monkeypatch.setattr(tw.runtime.Module, "save", full_once)
    listener = Listener()
    with reporting(listener):
        assert tune_pipeline(settings).report.module == str(path)
    assert len(calls) == 2 and len(listener.warnings) == 1


def test_the_device_is_held_while_the_run_measures(settings, monkeypatch):
    timed(monkeypatch, GOOD)
    monkeypatch.setattr("flows.pipeline.identity_of", lambda target: dataclasses.replace(DEVICE))
    seen = []

    def distill(run):
        seen.append(device_lock.holder_of(DEVICE).who)

    tune_pipeline(settings, Stages(**{**vars(PLAIN), "distill": distill}))
    assert seen == ["tune mlp"]
    assert device_lock.holder_of(DEVICE) is None


DEVICE = DeviceIdentity("Test CPU", calibration_s=1e-3)


def test_a_patch_release_changes_nothing(settings, monkeypatch):
    """What a record is good for is decided by its rules, not by who made it."""
    monkeypatch.setattr(tw, "__version__", "99.0.1")
    monkeypatch.setattr("tilework.version.__version__", "99.0.1")
    timed(monkeypatch, GOOD)
    report = tune_pipeline(settings).report
    assert report.progress.trials == 8 and report.resumed_rounds > 0


def words(settings):
    return ["mlp", "--threads", "1", "--store", settings.store, "--output", settings.output]


def test_tune_ends_with_1_and_says_why(place, monkeypatch):
    settings, path, old = place
    timed(monkeypatch)
    monkeypatch.setitem(check.TOLERANCES, "f32", 1e-12)
    tune = ["tune", *words(settings), "--trials", "8", "--no-prefect"]
    done = CliRunner().invoke(app, tune)
    assert done.exit_code == 1
    assert "failed: mlp: the output is wrong" in done.stderr
    assert "FAILED: mlp" in done.stdout
    done = CliRunner().invoke(app, [*tune, "--json"])
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert document["module"] == "" and "the output is wrong" in document["failed"]
    assert path.read_bytes() == old


def test_compile_keeps_a_file_only_if_its_output_is_right(place, monkeypatch):
    settings, path, old = place
    with monkeypatch.context() as patch:
        patch.setitem(check.TOLERANCES, "f32", 1e-12)
        done = CliRunner().invoke(app, ["compile", *words(settings)])
    assert done.exit_code == 1 and "failed: mlp: the output is wrong" in done.stderr
    assert "Module: not kept" in done.stdout
    assert path.read_bytes() == old and files(path) == ["mlp.tw"]
    done = CliRunner().invoke(app, ["compile", *words(settings)])
    assert done.exit_code == 0, done.output
    assert path.read_bytes() != old and files(path) == ["mlp.tw"]


@pytest.mark.parametrize("output", [" ", "no/such/folder/x.tw", "."])
@pytest.mark.parametrize("command", ["tune", "compile"])
def test_a_place_that_cannot_be_written_is_one_line(command, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = ["--no-prefect"] if command == "tune" else []
    done = CliRunner().invoke(app, [command, "mlp", "--output", output, *more])
    assert done.exit_code == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"error: cannot write the module {output!r}: name a file")
    assert not list(tmp_path.iterdir()), "no empty store either"


def test_without_an_output_nothing_is_written_and_all_is_checked(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    timed(monkeypatch, GOOD)
    there = settings.model_copy(update={"output": ""})
    done = CliRunner().invoke(app, ["tune", *words(there), "--trials", "8", "--no-prefect"])
    assert done.exit_code == 0, done.output
    assert "good, not kept: output right" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["nonsense"], ["mlp", "--target", "abacus"], ["no.onnx"]])
def test_a_run_that_cannot_begin_leaves_no_store(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["tune", *words, "--no-prefect"])
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")
def test_the_flow_of_a_wrong_module_is_failed(prefect_server, place, monkeypatch):
    from prefect.client.orchestration import get_client

    from flows.shell.published import close_publishers
    from flows.tune_network import tune_network

    settings, path, old = place
    timed(monkeypatch)
    monkeypatch.setitem(check.TOLERANCES, "f32", 1e-12)
    with pytest.raises(TuneFailed):
        tune_network(settings)
    close_publishers()
    with get_client(sync_client=True) as client:
        (flow_run,) = client.read_flow_runs(sort="START_TIME_DESC", limit=1)
        pages = [a.data for a in client.read_artifacts() if "FAILED" in str(a.data)]
    assert flow_run.state.is_failed()
    assert "the output is wrong" in flow_run.state.message
    assert any("the output is wrong" in page for page in pages)
    assert path.read_bytes() == old


def test_what_follows_the_search_is_no_part_of_its_time(settings, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tasks.run.SearchClock", lambda: SearchClock(lambda: now[0]))
    timed(monkeypatch, GOOD)

    def compare(compiled):
        now[0] += 1000.0
        return PLAIN.compare(compiled)

    report = tune_pipeline(settings, Stages(**{**vars(PLAIN), "compare": compare})).report
    assert report.progress.elapsed_s < 1000 <= now[0]
