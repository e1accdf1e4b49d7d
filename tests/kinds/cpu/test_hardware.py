"""What the room ``hardware`` of CPUs says of this machine."""

from __future__ import annotations

import os

import pytest

from tests.hosts import small_caches
from tests.te.workloads import matmul
from tilework import te
from tilework.errors import TargetError
from tilework.kinds.cpu import hardware, parameters
from tilework.kinds.cpu.hardware import products_of_bytes
from tilework.kinds.cpu.target import CpuTarget
from tilework.model.drafted import draft_schedule, forget_choices
from tilework.target import Target, host
from tilework.target.hardware import hardware_of
from tilework.target.identity import identity_of
from tilework.task import SearchTask

TARGET = Target("llvm -num-cores=1")


@pytest.fixture(autouse=True)
def _nothing_else_runs(monkeypatch):
    monkeypatch.setattr(hardware, "others_since_now", lambda: lambda: 0.0)


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


def test_what_was_measured_beside_other_work_is_kept_only_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shared = {1: parameters.Shared(1.0, 1.0, 1.0)}
    slow = parameters.Parameters(2e9, 1.0, 1.0, 1.0, 4.0, 1.0, shared, "today")
    monkeypatch.setattr(hardware, "measure_parameters", lambda target: slow)
    monkeypatch.setattr(hardware, "others_since_now", lambda: lambda: 0.83)
    room = hardware_of(TARGET)
    said = room.calibrate(TARGET, again=False)
    assert "83% of the cores" in said["kept in"] and said["measured"] == "never"
    assert not (tmp_path / "tilework" / "machine.json").exists()
    assert "83% of the cores" in room.calibrate(TARGET, again=True)["measured"]
    assert room.calibrate(TARGET, again=False)["clock"] == "2.00 GHz"


def test_others_are_all_that_is_neither_idle_nor_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(host.os, "cpu_count", lambda: 2)
    clock = {"wall": 10.0, "own": 1.0}
    monkeypatch.setattr(host.time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(host.time, "process_time", lambda: clock["own"])

    def ticks(*seconds):
        numbers = (round(s * os.sysconf("SC_CLK_TCK")) for s in seconds)
        host._STAT.write_text(f"cpu  {' '.join(map(str, numbers))} 0 0\ncpu0 1\n")

    ticks(50, 1, 10, 900, 5, 0, 1, 2)
    share = host.others_since_now()
    ticks(54, 1, 10.5, 905, 6, 0, 1, 3.5)  # 4 + 0.5 + 1.5 s of work, 3 of which are this process's
    clock.update(wall=20.0, own=4.0)
    assert share() == pytest.approx(3 / (10 * 2))
    host._STAT.unlink()
    assert host.others_since_now()() == 0


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


@pytest.mark.parametrize(
    ("features", "parts"),
    [
        (
            "-mcpu=znver3",
            ["vpmaddwd_quads, 1 times", "vpmaddubsw of weights of 7 and 4 bits, 1.3"],
        ),
        ("-mcpu=znver4", ["vpdpbusd, 4 times the float32 peak"]),
        ("-mcpu=sapphirerapids", ["vpdpbusd, 4 times", "tdpbusd of many rows, 32"]),
        ("-mtriple=aarch64-linux-gnu", ["plain multiplications"]),
    ],
)
def test_what_multiplies_bytes(features, parts):
    said = products_of_bytes(CpuTarget(f"llvm {features} -num-cores=1"))
    assert all(part in said for part in parts), said
    assert ("vpmaddubsw" in said) is ("znver3" in features)
