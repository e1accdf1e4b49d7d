"""The lock of a device: one holder, whoever it is; free as soon as the holder ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tasks import device_lock
from tasks.device_lock import DeviceBusy, hold_device, holder_of
from tests.processes import started
from tilework.errors import Passing
from tilework.target.identity import DeviceIdentity

HERE = DeviceIdentity("Test CPU", (("cores", "2"),), calibration_s=1e-3)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path / "locks")
    monkeypatch.setattr(device_lock, "_LOOK_S", 0.01)
    return tmp_path / "locks"


def other_process(folder, then):
    code = (
        "from pathlib import Path\nimport time\nfrom tasks import device_lock\n"
        "from tilework.target.identity import DeviceIdentity\n"
        f"device_lock.FOLDER = Path({str(folder)!r})\n"
        "device = DeviceIdentity('Test CPU', (('cores', '2'),), calibration_s=1e-3)\n"
        "with device_lock.hold_device(device, 'tune other'):\n"
        f"    print('held', flush=True)\n    {then}\n"
    )
    return started([sys.executable, "-c", code], cwd=ROOT)


def test_a_held_device_is_busy_for_others_and_free_when_its_holder_is_killed(folder):
    with other_process(folder, "time.sleep(60)") as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(DeviceBusy, match=r"Test CPU is held by `tune other` \(process"):
            hold_device(HERE, "me", wait=False).__enter__()
        found = holder_of(HERE)
        assert (found.who, found.pid) == ("tune other", process.pid)
        process.kill()
        process.wait()
    with hold_device(HERE, "me", wait=False):
        assert holder_of(HERE).who == "me"
    assert holder_of(HERE) is None


def test_who_waits_says_one_line_and_goes_on_when_the_device_is_free(folder):
    lines = []
    with other_process(folder, "time.sleep(0.5)") as process:
        process.stdout.readline()
        with hold_device(HERE, "me", tell=lines.append):
            assert process.wait(10) == 0
    (line,) = lines
    assert line.startswith("waiting: Test CPU is held by `tune other`")


def test_who_lets_go_is_no_other_holder(folder, monkeypatch):
    """It empties the file before it frees the lock."""
    read, lines, looks = device_lock._read, [], []

    def empty_after_a_look(file):
        looks.append(file)
        return read(file) if len(looks) == 1 else None

    with other_process(folder, "time.sleep(0.3)") as process:
        process.stdout.readline()
        monkeypatch.setattr(device_lock, "_read", empty_after_a_look)
        with hold_device(HERE, "me", tell=lines.append):
            assert process.wait(10) == 0
    assert len(looks) > 1
    (line,) = lines
    assert "tune other" in line


def test_threads_exclude_each_other_and_nested_blocks_do_not():
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        with hold_device(HERE, "a thread"), hold_device(HERE, "the same, inside", wait=False):
            inside += 1
            most = max(most, inside)
            time.sleep(0.02)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_another_device_and_one_without_times_are_free():
    other = DeviceIdentity("Test GPU", calibration_s=1e-3)
    timeless = DeviceIdentity("interpreter", timed=False)
    with hold_device(HERE, "me"), hold_device(other, "me too"):
        for device in (timeless, None):
            with hold_device(device, "one"), hold_device(device, "another", wait=False):
                assert device is None or holder_of(device) is None


def test_all_users_can_open_the_file(folder):
    with hold_device(HERE, "me"):
        (path,) = folder.iterdir()
        assert path.stat().st_mode & 0o777 == 0o666
        assert folder.stat().st_mode & 0o7777 == 0o1777


def test_a_link_in_the_place_of_the_file_is_not_followed(folder, tmp_path):
    folder.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / f"{HERE.id}.lock").symlink_to(victim)
    lines = []
    with hold_device(HERE, "me", tell=lines.append):
        pass
    assert victim.read_text() == "precious"
    assert "cannot be told" in lines[0]


def test_busy_is_an_error_that_passes():
    assert issubclass(DeviceBusy, Passing)


def test_a_child_process_does_not_keep_the_lock():
    with hold_device(HERE, "me"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        with hold_device(HERE, "me again", wait=False):
            pass
    finally:
        child.kill()
        child.wait()
