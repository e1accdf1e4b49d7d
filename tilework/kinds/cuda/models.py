"""GPUs that one can buy, by the numbers in their makers' data sheets.

They describe a device that is not here, for the analytic model and for simulated runs: a target
names one with ``-model=NAME``. A target that names an architecture alone is described by the usual
representative of it. Clocks are those that boards hold under load, where that is known to differ
from the boost clock on paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilework.frozen import frozen


@frozen
class DeviceModel:
    """A device.

    Attributes:
        name: in a target's text.
        arch: its architecture, such as ``sm_80``.
        sms: multiprocessors.
        ghz: clock of the multiprocessors under load, 1e9 cycles a second.
        dram_bytes_per_s: bandwidth of the device's memory.
        l2_bytes: size of the second-level cache.
        l2_bytes_per_clock: that an SM can get from that cache in a cycle.
        tensor_lanes: multiply-adds of bf16 or f16, with float32 sums, that an SM's tensor cores do
            in a cycle by ``mma.sync``; of tf32 half as many.
        board: words that the driver's name of the device has.
    """

    name: str
    arch: str
    sms: int
    ghz: float
    dram_bytes_per_s: float
    l2_bytes: int
    l2_bytes_per_clock: float = 64.0
    tensor_lanes: float = 512.0
    board: str = ""


_TENSOR_LANES = {70: 512, 75: 512, 80: 1024, 86: 512, 87: 1024, 89: 512, 90: 1300, 100: 1300,
                 103: 1300, 110: 1300, 120: 256, 121: 256}  # fmt: skip
"""By architecture, of data sheets' peaks without sparsity. From sm_90 on these need instructions
of whole groups of warps: on H100, ``mma.sync`` is known to reach 63 to 65 % of 2048. Of sm_100 to
sm_110 no such number is known, and the same is taken."""
_HALF_RATE = ("rtx", "a10g", "l40")
"""Boards on which sums in float32 run at half the rate."""
_WHOLE_RATE = ("rtx6000ada", "l40s")


def _model(
    name: str, arch: int, sms: int, ghz: float, gb_per_s: float, l2_mb: float, board: str
) -> DeviceModel:
    l2_bytes = round(l2_mb * (1 << 20))
    lanes = float(_TENSOR_LANES[arch])
    if arch < 90 and name.startswith(_HALF_RATE) and name not in _WHOLE_RATE:
        lanes /= 2
    return DeviceModel(
        name, f"sm_{arch}", sms, ghz, gb_per_s * 1e9, l2_bytes, tensor_lanes=lanes, board=board
    )


_ALL = (
    _model("v100", 70, 80, 1.53, 900, 6, "V100"),
    _model("t4", 75, 40, 1.35, 320, 4, "T4"),
    _model("rtx2080ti", 75, 68, 1.545, 616, 5.5, "RTX 2080 Ti"),
    _model("a100", 80, 108, 1.41, 1555, 40, "A100"),
    _model("a100-80gb", 80, 108, 1.41, 2039, 40, "A100 80GB"),
    _model("a30", 80, 56, 1.44, 933, 24, "A30"),
    _model("a6000", 86, 84, 1.80, 768, 6, "RTX A6000"),
    _model("a40", 86, 84, 1.74, 696, 6, "A40"),
    _model("a10", 86, 72, 1.695, 600, 6, "A10"),
    _model("a10g", 86, 80, 1.71, 600, 6, "A10G"),
    _model("rtx3080", 86, 68, 1.71, 760, 5, "RTX 3080"),
    _model("rtx3090", 86, 82, 1.695, 936, 6, "RTX 3090"),
    _model("orin", 87, 16, 1.30, 205, 4, "Orin"),
    _model("rtx4090", 89, 128, 2.52, 1008, 72, "RTX 4090"),
    _model("rtx4080", 89, 76, 2.505, 717, 64, "RTX 4080"),
    _model("rtx6000ada", 89, 142, 2.505, 960, 96, "RTX 6000 Ada"),
    _model("l4", 89, 58, 2.04, 300, 48, "L4"),
    _model("l40", 89, 142, 2.49, 864, 96, "L40"),
    _model("l40s", 89, 142, 2.52, 864, 96, "L40S"),
    _model("h100", 90, 132, 1.755, 3350, 50, "H100"),
    _model("h100-pcie", 90, 114, 1.755, 2039, 50, "H100 PCIe"),
    _model("h200", 90, 132, 1.83, 4800, 60, "H200"),
    _model("gh200", 90, 132, 1.83, 4000, 60, "GH200"),
    _model("b200", 100, 148, 1.85, 8000, 126, "B200"),
    _model("b300", 103, 148, 1.92, 8000, 126, "B300"),
    _model("thor", 110, 20, 1.575, 273, 32, "Thor"),
    _model("rtx5090", 120, 170, 2.41, 1792, 96, "RTX 5090"),
    _model("rtx5080", 120, 84, 2.617, 960, 64, "RTX 5080"),
    _model("gb10", 121, 48, 2.418, 273, 24, "GB10"),
)

MODELS: dict[str, DeviceModel] = {model.name: model for model in _ALL}
"""Known devices by name; the first of an architecture is its usual representative."""

_NEAR = 1.5
"""How far the numbers of multiprocessors of two devices may differ for them to be alike."""


def representative(arch: str) -> DeviceModel:
    """The device that describes an architecture where no other is named."""
    return next(model for model in _ALL if model.arch == arch)


def model_of(name: str, arch: str, sms: int) -> DeviceModel | None:
    """The model of a device that is there, if it is a known one, whole and not a part of it.

    Args:
        name: what the driver calls it, such as ``NVIDIA A100-SXM4-80GB``.
        arch: its architecture.
        sms: its multiprocessors.
    """
    words = _words(name)
    fitting = [
        model
        for model in _ALL
        if (model.arch, model.sms) == (arch, sms) and _words(model.board) <= words
    ]
    return max(fitting, key=lambda model: len(_words(model.board)), default=None)


def alike(model: DeviceModel) -> Iterator[DeviceModel]:
    """Other devices of its architecture and about its size, the nearest first.

    Their programs are the same, and a schedule that is good on one divides its work well on the
    others.
    """
    others = [m for m in _ALL if m.arch == model.arch and m is not model]
    near = [(max(m.sms / model.sms, model.sms / m.sms), i, m) for i, m in enumerate(others)]
    return (m for ratio, _, m in sorted(near, key=lambda n: n[:2]) if ratio <= _NEAR)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))
