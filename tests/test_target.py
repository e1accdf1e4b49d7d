"""Targets: what their text means, and what is refused."""

from __future__ import annotations

import pytest

from tilework.errors import TargetError
from tilework.target import HOST_PLATFORM, Target

AARCH64 = "llvm -mtriple=aarch64-linux-gnu"


@pytest.mark.parametrize(
    "text, bits, registers",
    [
        ("llvm -mcpu=x86-64", 128, 16),
        ("llvm -mcpu=x86-64-v2", 128, 16),
        ("llvm -mcpu=core-avx2", 256, 16),
        ("llvm -mcpu=skylake-avx512", 512, 32),
        ("llvm -mcpu=znver4", 512, 32),
        (AARCH64, 128, 32),
        (f"{AARCH64} -mcpu=neoverse-n1", 128, 32),
    ],
)
@pytest.mark.skipif(not HOST_PLATFORM.endswith("x86_64"), reason="names of x86 CPUs")
def test_the_cpu_decides_width_and_number_of_registers(text, bits, registers):
    target = Target(f"{text} -num-cores=3")
    assert (target.vector_bits, target.num_vector_registers) == (bits, registers)
    assert target.lanes() == bits // 32
    assert target.num_cores == 3


def test_the_text_is_canonical():
    target = Target(f"{AARCH64} -num-cores=4")
    assert str(target) == "llvm -mcpu=generic -mtriple=aarch64-linux-gnu -num-cores=4"
    assert Target(str(target)) == target
    assert str(target.with_cores(1)) == str(target).replace("=4", "=1")
    assert target.llvm_features() == target.with_cores(1).llvm_features()
    assert "mtriple" not in str(Target("llvm"))


def test_the_hosts_own_triple_is_no_foreign_machine():
    system, arch = HOST_PLATFORM.split()
    assert Target(f"llvm -mtriple={arch}-{system}") == Target("llvm")


def test_a_foreign_machine_is_missing_here():
    assert Target("llvm").missing_on_host() == []
    assert Target(AARCH64).platform == "linux aarch64"
    if not HOST_PLATFORM.endswith("aarch64"):
        assert Target(AARCH64).missing_on_host() == ["a machine with linux aarch64"]


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "the target is empty"),
        ("gpu", "unknown kind 'gpu'"),
        ("llvm -mtriple=riscv64-linux", r"riscv64-linux is not supported; write ARCH-SYSTEM"),
        ("llvm -mtriple=aarch64", r"aarch64 is not supported; write ARCH-SYSTEM"),
        (f"{AARCH64} -mcpu=native", "is this .* machine; name a CPU of linux aarch64"),
        (f"{AARCH64} -mcpu=cortex-a7", "unknown CPU 'cortex-a7'; did you mean cortex-a7"),
        ("llvm -mcpu=znver44", "unknown CPU 'znver44'; did you mean znver4"),
        ("llvm -num-cores=0", "not a number from 1"),
        ("llvm -cores=2", "unknown option '-cores'; known options"),
    ],
)
@pytest.mark.skipif(HOST_PLATFORM != "linux x86_64", reason="messages name this machine")
def test_what_makes_no_sense_is_named(text, told):
    with pytest.raises(TargetError, match=told):
        Target(text)
