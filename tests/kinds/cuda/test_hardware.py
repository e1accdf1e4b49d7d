"""What the room ``hardware`` of GPUs says where none is, and the roofline of modules."""

from __future__ import annotations

import pytest

from tests.kinds.cuda.images import image
from tilework.kinds.cuda import hardware
from tilework.kinds.cuda.probe import Found, FoundDevice
from tilework.kinds.cuda.roofline import CudaRoofline
from tilework.target import Target
from tilework.target.hardware import hardware_of

TARGET = Target("cuda -model=a100")


def test_a_data_sheet_stands_in_for_the_device_and_it_is_said(monkeypatch):
    monkeypatch.setattr(hardware, "look", lambda: Found(why_none="there is no NVIDIA driver"))
    room = hardware_of(TARGET)
    facts = room.describe(TARGET)
    assert facts["device"] == "none here: there is no NVIDIA driver"
    assert facts["in records"].startswith("nvidia-a100-")
    assert facts["figures"] == "of NVIDIA A100, by its data sheet"
    assert facts["float32 peak"] == "19.5 TFLOP/s"
    assert all(isinstance(v, str) for v in facts.values())
    assert room.calibrate(TARGET, again=True)["figures"] == facts["figures"]
    line = room.in_one_line(room.figures(TARGET))
    assert line.startswith("float32 peak 19492 GFLOP/s; reads L2 ") and "data sheet" in line
    assert room.reach(TARGET, 1 << 30).gb_per_s == pytest.approx(1555)
    assert room.reach(TARGET, 1 << 20).gb_per_s > 5000
    peaks = [room.reach(TARGET, 1, p).gflops for p in ("f32", "tf32", "bf16", "f16", "512")]
    assert [round(p / 1000) for p in peaks] == [19, 156, 312, 312, 19]


def test_a_device_that_is_here_is_named(monkeypatch):
    found = Found((FoundDevice("NVIDIA H200", "sm_90", 132, 1.98, 60 << 20),), (13, 0))
    monkeypatch.setattr(hardware, "look", lambda: found)
    describe = hardware_of(TARGET).describe
    assert describe(Target("cuda -model=h200"))["device"] == "NVIDIA H200 (sm_90)"
    assert describe(TARGET)["device"] == "NVIDIA H200 (sm_90): none of sm_80"
    assert describe(TARGET)["driver"] == "CUDA 13.0"


def test_the_roofline_is_the_slower_of_arithmetic_and_memory():
    roof, net = CudaRoofline(TARGET), image(str(TARGET))
    step = net.steps[0]
    assert (
        roof.wall_clock and not CudaRoofline(Target("cuda -arch=sm_80 -run=emulated")).wall_clock
    )
    assert roof.seconds(step, net) == pytest.approx(step.nbytes / (108 * 64 * 1.41e9))
    heavy = step.__class__(**{**vars(step), "flops": 1e12})
    assert roof.seconds(heavy, net) == pytest.approx(1 / 19.49, rel=1e-2)
    narrow = step.__class__(**{**vars(heavy), "desc": "conv2d 1x1 bf16"})
    assert roof.seconds(narrow, net) == pytest.approx(1 / 312, rel=1e-2)
    assert (roof.level(1e6), roof.level(1e9)) == ("the L2 cache", "the device's memory")
