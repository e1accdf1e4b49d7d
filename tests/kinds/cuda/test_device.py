"""The device that measures: its memory, its time, what it is called."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.kinds.cuda.fake_driver import FakeGpu, add_kernel
from tilework.errors import DeviceError, ModuleError, TargetError
from tilework.kinds.cuda import target as targets
from tilework.kinds.cuda.devices import gpu
from tilework.kinds.cuda.devices.buffer import ZONE
from tilework.kinds.cuda.devices.calibration import ENTRY, TEXT
from tilework.kinds.cuda.drivers.emulated_driver import EmulatedDriver
from tilework.kinds.cuda.drivers.memory import Memory
from tilework.kinds.cuda.probe import Found, FoundDevice
from tilework.kinds.cuda.source.cubin import resources
from tilework.kinds.cuda.source.nvrtc import cubin
from tilework.measure.device import device_of
from tilework.target import Target

A100 = FoundDevice("NVIDIA A100-SXM4-40GB", "sm_80", 108, 1.41, 40 << 20)


def test_a_write_into_either_red_zone_is_seen():
    device = FakeGpu()
    for behind in (-1, 0, ZONE - 1, -ZONE):
        buffer = device.allocate((3, 5), "float32")
        assert buffer.intact and buffer.address % 256 == 0
        end = buffer.address + buffer.nbytes if behind >= 0 else buffer.address
        device.driver.memory.fill(end + behind, 7, 1, device.stream.number)
        assert not buffer.intact


def test_poison_spoils_what_it_reaches():
    device = FakeGpu()
    floats, narrow = device.allocate((4,), "float32"), device.allocate((4,), "bfloat16")
    workspace = device.allocate((8,), "uint8")
    for buffer in (floats, narrow, workspace):
        buffer.poison()
    assert np.isnan(floats.read()).all() and np.isnan(narrow.read().astype(np.float32)).all()
    assert (workspace.read().view(np.float32) > 3e38).all()  # a maximum does not leave it out


def test_arrays_of_another_shape_or_type_are_refused():
    device = FakeGpu()
    buffer = device.allocate((4,), "float32")
    for array in (np.zeros(5, np.float32), np.zeros(4)):
        with pytest.raises(DeviceError, match="cannot be copied to one of float32"):
            buffer.write(array)
    loaded = device.load(add_kernel("fine", 100))
    good = [device.allocate((100,), "float32") for _ in range(3)]
    workspace = device.allocate((64,), "uint8")
    with pytest.raises(
        ModuleError, match=r"argument C: expected float32\[100\], got float32\[4\]"
    ):
        loaded.bind([*good[:2], buffer], workspace, 1)


def test_copies_and_the_flushed_bytes_share_one_block():
    device = FakeGpu()
    buffer = device.allocate((1000,), "float32")
    buffer.write(np.arange(1000, dtype=np.float32))
    flush = device.flush(Target("cuda -model=a100"))
    free = device.driver.memory.available()[0]
    copies = device.copies([buffer], 5)
    assert device.driver.memory.available()[0] == free
    assert all((c.read() == buffer.read()).all() and c.intact for (c,) in copies)
    assert len({c.address for (c,) in copies}) == 5
    flush()
    assert buffer.read()[7] == 7 and buffer.intact


def test_memory_goes_back_when_nobody_holds_it():
    device = FakeGpu()
    free = device.driver.memory.available()[0]
    buffers = [device.allocate((1 << 20,), "float32") for _ in range(3)]
    assert device.driver.memory.available()[0] < free - (12 << 20)
    del buffers
    assert device.driver.memory.available()[0] == free


def test_the_stopwatch_repeats_one_graph():
    device = FakeGpu()
    done = []
    with device.stopwatch() as watch:
        for number in (1, 256, 257, 1000):
            lap = watch.time(
                lambda: device.driver.streams.do(device.stream.number, lambda: done.append(1)),
                number,
            )
            assert lap.seconds > 0 and not lap.disturbed
            assert len(done) == math.ceil(number / 256) * min(number, 256)
            done.clear()
        with pytest.raises(ZeroDivisionError):
            watch.time(lambda: 1 // 0, 3)
        assert device.stream.waits and not device.driver.streams._captures
    assert not device.driver.streams._graphs and not device.driver.events._marks


def test_names_say_what_was_measured_on(monkeypatch):
    monkeypatch.setattr(gpu, "look", lambda: Found((A100,), (13, 0)))
    monkeypatch.setattr(targets, "look", lambda: Found((A100,), (13, 0)))
    for text, name in (
        ("cuda", "NVIDIA A100-SXM4-40GB"),
        ("cuda -model=a100", "NVIDIA A100-SXM4-40GB"),
        ("cuda -model=h100", "NVIDIA H100"),
        ("cuda -model=a100 -run=emulated", "NVIDIA A100 (emulated)"),
        ("cuda -arch=sm_90 -run=emulated", "NVIDIA GPU of sm_90 (emulated)"),
    ):
        target = Target(text)
        assert device_of(target).name(target) == name


def test_a_device_that_is_there_needs_a_compiler_of_its_code(monkeypatch):
    monkeypatch.setattr(targets, "look", lambda: Found((A100,), (13, 0)))
    asked = []
    monkeypatch.setattr(gpu.nvrtc, "require", asked.append)
    device_of(Target("cuda")).require(Target("cuda"))
    assert asked == ["sm_80"]
    with pytest.raises(TargetError, match="there is no CUDA device of sm_90"):
        device_of(Target("cuda -model=h100")).require(Target("cuda -model=h100"))


def test_boards_of_one_name_are_told_apart_by_memory_and_clocks(monkeypatch):
    def seen(*devices):
        monkeypatch.setattr(gpu, "look", lambda: Found(devices, (13, 0)))
        return device_of(Target("cuda -model=a100")).identity(Target("cuda -model=a100"))

    whole = replace(A100, memory_bytes=40 << 30, memory_ghz=1.215, memory_bits=5120)
    here = seen(whole)
    assert here.name == A100.name and here.calibration_s is None and here.timed
    assert dict(here.facts)["memory"] == "40 GiB" and dict(here.facts)["clock"] == "1410 MHz"
    assert seen(replace(whole, memory_bytes=(40 << 30) - (300 << 20))) == here  # drivers take some
    others = [
        seen(replace(whole, **change))
        for change in ({"memory_bytes": 80 << 30}, {"ghz": 1.2}, {"sms": 56}, {"memory_ghz": 1.5})
    ]
    assert len({here.id, *(o.id for o in others)}) == 5
    assert "memory clock" not in dict(seen(A100).facts)  # where the driver does not tell
    assert seen().name == "NVIDIA A100" and seen().facts == ()


def test_what_stands_in_for_a_device_is_another():
    models = [Target(f"cuda -model=a100 -run={run}") for run in ("emulated", "simulated")]
    emulated, simulated = (device_of(target).identity(target) for target in models)
    assert emulated.id != simulated.id and emulated.timed and not simulated.timed
    assert dict(emulated.facts)["on"] and simulated.facts == ()


def test_the_calibration_stays_in_registers(needs_nvrtc, needs_compiler):
    found = resources(cubin(TEXT, "sm_80", ENTRY))[ENTRY]
    assert found.stack_bytes == found.shared_bytes == 0 and found.registers <= 64
    driver = EmulatedDriver(Target("cuda -model=a100 -run=emulated"))
    code, out = driver.load({ENTRY: TEXT.encode()}), Memory(driver, 4 * 256)
    driver.launch(code.function(ENTRY), 1, 256, 0, (out.address,), 0)
    sums = np.empty(256, np.float32)
    driver.memory.read(sums, out.address, 0)
    assert np.isfinite(sums).all() and len(set(sums.tolist())) > 200
