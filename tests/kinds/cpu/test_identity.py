"""This machine's CPU stays one device, whatever else it does; another one is another."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import ELSEWHERE
from tilework.kinds.cpu import identity as cpu
from tilework.target import Target
from tilework.target.identity import SAME_SPEED, device_here, identity_of


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(cpu, "PAUSE_S", 0.0)


class Readings:
    def __init__(self, *seconds):
        self.seconds, self.taken = seconds, 0

    def __call__(self):
        self.taken += 1
        return self.seconds[(self.taken - 1) % len(self.seconds)]


def test_the_least_of_several_readings_counts_and_stays(tmp_path):
    path = tmp_path / "new" / "device.json"
    busy = Readings(3.0, 1.1, 1.0, 2.0)
    assert cpu.calibration_at_rest("cpu", busy, path, "a") == 1.0
    assert busy.taken == cpu.READINGS
    for now in (1.05, 0.97, 0.81, 40.0):
        later = Readings(now)
        assert cpu.calibration_at_rest("cpu", later, path, "a") == 1.0
        assert later.taken == 1


def test_a_machine_that_is_plainly_faster_was_not_at_rest(tmp_path):
    path = tmp_path / "device.json"
    assert cpu.calibration_at_rest("cpu", Readings(1.7), path, "a") == 1.7
    assert cpu.calibration_at_rest("cpu", Readings(1.0), path, "a") == 1.0
    assert cpu.calibration_at_rest("cpu", Readings(1.7), path, "a") == 1.0


def test_hosts_that_share_a_folder_are_told_apart_by_speed_alone(tmp_path):
    path = tmp_path / "device.json"
    assert cpu.calibration_at_rest("cpu", Readings(1.0), path, "a") == 1.0
    assert cpu.calibration_at_rest("cpu", Readings(1.67), path, "b") == 1.67
    assert cpu.calibration_at_rest("cpu", Readings(1.04), path, "c") == 1.0  # equal to a
    assert cpu.calibration_at_rest("cpu", Readings(1.6), path, "d") == 1.67
    assert cpu.calibration_at_rest("other", Readings(1.6), path, "d") == 1.6
    for host, seconds in (("a", 1.0), ("b", 1.67), ("c", 1.0), ("d", 1.67)):
        assert cpu.calibration_at_rest("cpu", Readings(1.9), path, host) == seconds


def test_containers_do_not_fill_the_file(tmp_path):
    path = tmp_path / "device.json"
    for number in range(3 * cpu.HOSTS_KEPT):
        found = cpu.calibration_at_rest("cpu", Readings(1 + number % 20 / 100), path, str(number))
        assert found == 1.0  # each takes over what the first one found
    assert len(json.loads(path.read_text())["calibrations"]["cpu"]) == cpu.HOSTS_KEPT


def test_a_machine_that_became_slower_is_another_device_when_a_user_says_so(tmp_path):
    path = tmp_path / "device.json"
    for now, again, found in (
        (1.0, False, 1.0), (1.7, False, 1.0), (1.1, True, 1.0), (1.7, True, 1.7),
        (1.8, False, 1.7), (1.0, False, 1.0),
    ):  # fmt: skip
        assert cpu.calibration_at_rest("cpu", Readings(now), path, "a", again) == found


@given(st.lists(st.floats(1.0, 5.0), min_size=1, max_size=30))
def test_load_does_not_make_another_device_of_a_machine(tmp_path_factory, loads):
    path = tmp_path_factory.mktemp("cache") / "device.json"
    at_rest = cpu.calibration_at_rest("cpu", Readings(1.0, *loads), path, "a")
    assert {cpu.calibration_at_rest("cpu", Readings(load), path, "a") for load in loads} == {
        at_rest
    }


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": "other", "calibrations": {"cpu": {"x": 1.0}}}',
     '{"format": "tilework-device-1", "calibrations": [1]}',
     '{"format": "tilework-device-1", "calibrations": {"cpu": [1], "b": {"x": "1", "y": -1}}}'],
)  # fmt: skip
def test_a_damaged_file_is_made_anew(tmp_path, text):
    path = tmp_path / "device.json"
    path.write_text(text)
    assert cpu.calibration_at_rest("cpu", Readings(1.0), path, "a") == 1.0
    assert cpu.calibration_at_rest("cpu", Readings(1.1), path, "a") == 1.0


def test_a_folder_that_cannot_be_written_costs_a_measurement_only(tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "device.json"
    assert cpu.calibration_at_rest("cpu", Readings(1.0), path, "a") == 1.0
    assert cpu.calibration_at_rest("cpu", Readings(1.1), path, "a") == 1.1


def test_every_process_finds_the_same_device(tmp_path, monkeypatch):
    """What the first one found of the speed counts, with readings that differ a little."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = (
        "import sys\n"
        "from tilework.measure import host_speed\n"
        "host_speed.host_calibration_s = lambda: float(sys.argv[1])\n"
        "from tilework.target import Target\n"
        "from tilework.target.identity import identity_of\n"
        "d = identity_of(Target('llvm -num-cores=1'))\n"
        "print(d.id, d.facts, d.calibration_s)\n"
    )
    said = set()
    for reading in ("0.001", "0.00104", "0.00097"):
        command = [sys.executable, "-c", code, reading]
        said.add(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert len(said) == 1
    kept = json.loads((tmp_path / "tilework" / "device.json").read_text())
    ((device, hosts),) = kept["calibrations"].items()
    one = said.pop()
    assert one.startswith(device + " ") and one.endswith(" 0.001\n") and len(hosts) == 1


def test_all_targets_of_this_cpu_are_measured_on_one_device():
    here = identity_of(Target("llvm -mcpu=native"))
    assert device_here(Target("llvm -mcpu=generic -num-cores=1")) == here
    assert device_here(Target(f"{ELSEWHERE} -num-cores=1")) is None
    assert here.name and here.calibration_s > 0
    assert dict(here.facts)["threads"].isdigit() and "GiB" in dict(here.facts)["memory"]


def test_facts_are_read_as_linux_writes_them(tmp_path, monkeypatch):
    cpuinfo = "".join(
        f"processor\t: {n}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
        f"stepping\t: 1\ncpu MHz\t\t: {3000 + 7 * n}.12\nphysical id\t: {n // 4}\n"
        f"core id\t\t: {n % 4 // 2}\nflags\t\t: fpu vme\n\n"
        for n in range(8)
    )
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    (tmp_path / "clock").write_text("3800000\n")
    monkeypatch.setattr(cpu, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(cpu, "_MAX_CLOCK", tmp_path / "clock")
    monkeypatch.setattr(cpu.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(cpu.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16300000}.get)
    found = dict(cpu.facts())
    assert found["cpu family"] == "25" and found["cores"] == "4" and found["threads"] == "8"
    assert found["memory"] == "64 GiB" and found["clock"] == "3800 MHz"
    assert not any("MHz" in name or "flags" in name for name in found)
    for name in ("cpuinfo", "clock"):
        (tmp_path / name).unlink()
    assert set(cpu.facts()) <= set(found.items())
    assert SAME_SPEED > 1
