"""ARM processors: what they are called, what they have, and what LLVM takes their names for."""

from __future__ import annotations

import re

import pytest

from tests.hosts import HOST_ARCH
from tilework.errors import TargetError
from tilework.kinds.cpu import cpus
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.target import Target, host
from tilework.target.arm_names import arm_name

WIDE = """
define void @f(ptr %p) vscale_range(2,2) {
  %a = load <8 x float>, ptr %p
  %b = fadd <8 x float> %a, %a
  store <8 x float> %b, ptr %p
  ret void
}
"""
"""Where vectors of 256 bits are promised, these are SVE's registers, if the CPU has it."""


@pytest.mark.parametrize("cpu", cpus.known_cpus("aarch64"))
def test_llvm_knows_a_name_and_what_it_promises(cpu, capfd):
    target = Target(f"llvm -mcpu={cpu} -mtriple=aarch64-linux-gnu -num-cores=1")
    text = emit_assembly(WIDE, target)
    assert "not a recognized processor" not in capfd.readouterr().err
    assert bool(re.search(r"\bz\d+\.s", text)) == ("sve" in target.features)


@pytest.mark.skipif(HOST_ARCH != "x86_64", reason="names CPUs of another machine")
def test_a_cpu_of_another_architecture_is_told():
    with pytest.raises(TargetError, match=r"cortex-a55 is a CPU of aarch64.*add -mtriple=aarch64"):
        Target("llvm -mcpu=cortex-a55")
    with pytest.raises(TargetError, match="znver4 is a CPU of x86_64, this target is aarch64"):
        Target("llvm -mcpu=znver4 -mtriple=aarch64-linux-gnu")


def cpuinfo(maker, *parts):
    return [
        line
        for i, part in enumerate(parts)
        for line in (
            f"processor\t: {i}", "BogoMIPS\t: 48.00", f"CPU implementer\t: {maker}",
            "CPU architecture: 8", f"CPU part\t: {part}", "",
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lines, name",
    [
        (cpuinfo("0x41", "0xd03", "0xd03"), "ARM Cortex-A53"),
        (cpuinfo("0x41", "0xd03", "0xd03", "0xd08"), "ARM Cortex-A53 + Cortex-A72"),
        (cpuinfo("0xc0", "0xac3"), "Ampere Ampere-1"),
        (cpuinfo("0x41", "0xfff"), "ARM part 0xfff"),
        (cpuinfo("0x99", "what"), "maker 0x99 part 0x000"),
        (["model name\t: AMD EPYC"], ""),
        ([], ""),
    ],
)
def test_names_of_processors(lines, name):
    assert arm_name(lines) == name


def test_two_boards_have_two_names(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "_CPUINFO", tmp_path / "cpuinfo")
    names = []
    for part in ("0xd03", "0xd0b"):
        (tmp_path / "cpuinfo").write_text("\n".join(cpuinfo("0x41", part)))
        names.append(host.processor_name.__wrapped__())
        assert host.processor_maker.__wrapped__() == "0x41"
    assert names == ["ARM Cortex-A53", "ARM Cortex-A76"]


def test_what_the_system_tells_of_it():
    assert cpus.features_of_hwcaps(0, 0) == frozenset()
    assert cpus.features_of_hwcaps(1 << 20 | 1 << 1, 1 << 13) == {
        "dotprod",
        "i8mm",
    }  # asimddp, asimd, i8mm
    assert cpus.features_of_hwcaps(1 << 10, 1 << 14) == {"fullfp16", "bf16"}  # asimdhp, bf16
    assert not cpus.features_of_hwcaps(~0, ~0) & cpus.CODE_FEATURES["aarch64"]
