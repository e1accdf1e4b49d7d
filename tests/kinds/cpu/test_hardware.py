"""What the room ``hardware`` of CPUs says of this machine."""

from __future__ import annotations

import pytest

from tests.hosts import small_caches
from tests.te.workloads import matmul
from tilework import te
from tilework.errors import TargetError
from tilework.kinds.cpu import hardware, parameters
from tilework.model.drafted import draft_schedule, forget_choices
from tilework.target import Target
from tilework.target.hardware import hardware_of
from tilework.target.identity import identity_of
from tilework.task import SearchTask

TARGET = Target("llvm -num-cores=1")


def test_a_target_leads_to_the_room_of_its_kind():
    assert hardware_of(TARGET) is hardware.HARDWARE
    facts = hardware_of(TARGET).describe(TARGET)
    assert facts["in records"] == identity_of(TARGET).id
    assert facts["vector registers"].endswith(f"of {TARGET.vector_bits} bits")
    assert all(isinstance(v, str) for v in facts.values())


def test_parameters_are_measured_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured = []

    def measure(target):
        measured.append(target)
        shared = {1: parameters.Shared(1.0, 1.0, 1.0)}
        return parameters.Parameters(2e9, 1.0, 1.0, 1.0, 4.0, 1.0, shared, "today")

    monkeypatch.setattr(hardware, "measure_parameters", measure)
    room = hardware_of(TARGET)
    assert room.calibrate(TARGET, again=False)["clock"] == "2.00 GHz"
    assert room.calibrate(TARGET, again=False)["measured"] == "today"
    assert len(measured) == 1
    room.calibrate(TARGET, again=True)
    assert len(measured) == 2


def test_what_cannot_be_kept_is_said(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(hardware, "measure_parameters", lambda target: parameters.Parameters(
        2e9, 1.0, 1.0, 1.0, 4.0, 1.0, {1: parameters.Shared(1.0, 1.0, 1.0)}, "today"
    ))  # fmt: skip
    found = hardware_of(TARGET).calibrate(TARGET, again=False)
    assert found["kept in"].startswith("cannot be written")
    assert found["measured"] == "never"


def test_figures_of_a_report(monkeypatch):
    small_caches(monkeypatch)
    target = Target("llvm -num-cores=1")
    room = hardware_of(target)
    found = room.figures(target)
    assert set(found) == {"threads", "fma_peak_gflops", "read_gb_per_s"}
    assert set(found["read_gb_per_s"]) == {"l1", "l2", "l3", "dram"}
    assert all(0.1 < level < 1e5 for level in found["read_gb_per_s"].values())
    assert room.in_one_line(found).startswith("FMA peak ")
    assert room.sizes(target)["caches_bytes"]["l3"] == 16 << 20
    reach = room.reach(target, 4096)
    assert reach.gflops > 1
    assert reach.gb_per_s > 1


def test_a_kind_without_the_room(monkeypatch):
    from dataclasses import replace

    from tilework import kinds

    bare = replace(kinds.KINDS["llvm"], hardware="")
    monkeypatch.setattr(kinds, "KINDS", {"llvm": bare})
    with pytest.raises(TargetError, match="have nothing to say about their hardware"):
        hardware_of(TARGET)


def test_what_was_chosen_before_a_calibration_is_chosen_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shared = {1: parameters.Shared(23.0, 9.2, 4.0)}
    found = parameters.Parameters(1e9, 1.0, 1.0, 1.9, 3.9, 33.0, shared, "today")
    monkeypatch.setattr(hardware, "measure_parameters", lambda target: found)
    task = SearchTask(te.ComputeDAG(matmul(64, 64, 64, free=True)), TARGET)
    before = draft_schedule(task)
    try:
        hardware_of(TARGET).calibrate(TARGET, again=True)
        assert draft_schedule(task).predicted_s > 2 * before.predicted_s
    finally:
        forget_choices()  # they are of a machine that is not this one


def test_what_helpers_did_is_told():
    several = Target("llvm -num-cores=2")
    assert "regions shared" in hardware_of(several).describe(several)["helpers after pauses"]
    assert "helpers after pauses" not in hardware_of(TARGET).describe(TARGET)
    done = []
    assert hardware_of(TARGET).helpers_during(lambda: done.append(1)) == ""
    assert done == [1]
