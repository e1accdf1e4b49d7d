"""Whatever a GPU does to a candidate is on record, and the worker is replaced where it must be."""

from __future__ import annotations

import pytest

from tests.kinds.cuda.fake_driver import FAULTS
from tilework import te
from tilework.errors import TargetError
from tilework.measure import Candidate, MeasureError, Measurer
from tilework.record import Status
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("cuda -model=a100")
KEPT = {
    "bad_image": (Status.launch_error, "load: LaunchError: loading add: CUDA_ERROR_INVALID_IMAGE"),
    "no_entry": (Status.launch_error, "load: LaunchError: there is no function gone"),
    "bad_plan": (Status.launch_error, "load: LaunchError: the launches of kernel are damaged"),
    "too_large": (Status.launch_error, "load: LaunchError: 1048576 bytes of shared memory"),
    "out_of_memory": (Status.run_error, "run: DeviceError: the device has no 100.00 GiB left: "),
    "wrong": (Status.wrong_answer, "run: output 0 differs: "),
    "not_written": (Status.wrong_answer, "run: output 0: 1 of 1000 elements not written"),
}
REPLACED = {
    "illegal_address": (Status.run_error, "run: DeviceError: running: cudaErrorIllegalAddress"),
    "launch_failure": (Status.run_error, "run: DeviceError: running: cudaErrorLaunchFailure"),
    "overrun": (Status.wrong_answer, "run: wrote outside its buffers"),
    "lost": (Status.worker_lost, "run: DeviceLost: another program has the device for itself"),
    "lost_once": (Status.ok, ""),
    "hang": (Status.timeout, "run: took longer than 5 s"),
}


def add_task():
    a, b = te.placeholder((1000,), name="A"), te.placeholder((1000,), name="B")
    c = te.compute((1000,), lambda i: a[i] + b[i], name="C")
    return SearchTask(te.ComputeDAG([a, b, c]), TARGET, "add")


def candidate(fault):
    return Candidate(0, (FAULTS.index(fault),), 0.5, "test")


def new_measurer(**options):
    defaults = {
        "build_processes": 1, "min_repeat_ms": 0.05, "repeats": 3, "time_budget_ms": 20.0,
        "run_timeout_s": 20.0, "overlap": False, "builder": "tests.kinds.cuda.fake_driver:BUILDER",
        "device": "tests.kinds.cuda.fake_driver:DEVICE",
    }  # fmt: skip
    return Measurer(TARGET, **{**defaults, **options})


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Each fault in one batch with a good candidate after it; whether the runner was replaced."""
    patch = pytest.MonkeyPatch()
    patch.setenv("FAKE_GPU_MARKER", str(tmp_path_factory.mktemp("gpu") / "marker"))
    out, task = {}, add_task()
    others = [fault for fault in (*KEPT, *REPLACED) if fault != "hang"]
    for faults, patience in ((others, 20.0), (["hang"], 5.0)):
        with new_measurer(run_timeout_s=patience) as measurer:
            for fault in faults:
                runner = measurer.pids[-1]
                bad, after = measurer.measure(task, [candidate(fault), candidate("fine")])
                out[fault] = (bad, after, measurer.pids[-1] != runner)
                measurer._codes.clear()  # the good one is measured every time
    patch.undo()
    return out


@pytest.mark.parametrize("fault", [*KEPT, *REPLACED])
def test_it_is_recorded_and_the_next_candidate_is_fine(found, fault):
    bad, after, replaced = found[fault]
    status, error = {**KEPT, **REPLACED}[fault]
    assert (bad.status, bad.error[: len(error)]) == (status, error)
    assert "\n" not in bad.error
    assert after.status == Status.ok and after.latency_s > 0, after.error
    assert replaced == (fault in REPLACED)


def test_a_good_candidate_has_every_number(found):
    good = found["wrong"][1]
    assert good.max_rel_error == 0 and good.calibration_s == 1e-4
    assert 0 < good.latency_s < 1e-3 and len(good.latency_samples) >= 3


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("busy", "another program has the device for itself"),
        ("old", "the NVIDIA driver is too old"),
        ("none", "there is no CUDA device"),
    ],
)
def test_without_a_device_to_be_had_measuring_ends(monkeypatch, state, said):
    monkeypatch.setenv("FAKE_GPU", state)
    with new_measurer() as measurer, pytest.raises(MeasureError, match=said):
        measurer.measure(add_task(), [candidate("fine")])


def test_a_target_whose_device_is_not_here_is_refused_before_anything_starts():
    with pytest.raises(TargetError, match=r"no CUDA device of sm_80.*-run=emulated"):
        Measurer(TARGET)


def test_finals_on_the_device(monkeypatch):
    with new_measurer(final_rounds=3) as measurer:
        good, bad = measurer.finals(add_task(), [candidate("fine"), candidate("wrong")])
    assert (good.status, bad.status) == (Status.ok, Status.wrong_answer)
    assert len(good.latency_samples) == 3
