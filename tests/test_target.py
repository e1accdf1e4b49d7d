"""Targets: what their text means, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import tilework as tw
from tests.hosts import x86
from tilework import kinds
from tilework.errors import TargetError
from tilework.graph import Builder, plan
from tilework.kinds.cpu.target import CpuTarget
from tilework.target import HOST_PLATFORM, ChainLimits, Target
from tilework.target.runs import caveat, mark, run_of

AARCH64 = "llvm -mtriple=aarch64-linux-gnu"


@pytest.mark.parametrize(
    "text, bits, registers",
    [
        (x86("x86-64", 3), 128, 16),
        (x86("x86-64-v2", 3), 128, 16),
        (x86("core-avx2", 3), 256, 16),
        (x86("skylake-avx512", 3), 512, 32),
        (x86("znver4", 3), 512, 32),
        (f"{AARCH64} -mcpu=generic -num-cores=3", 128, 32),
        (f"{AARCH64} -mcpu=neoverse-n1 -num-cores=3", 128, 32),
    ],
)
def test_the_cpu_decides_width_and_number_of_registers(text, bits, registers):
    target = Target(text)
    assert (target.vector_bits, target.num_vector_registers) == (bits, registers)
    assert target.lanes() == bits // 32
    assert target.num_cores == 3


def test_the_text_is_canonical():
    target = Target(f"{AARCH64} -mcpu=generic -num-cores=4")
    foreign = "" if target.platform == HOST_PLATFORM else " -mtriple=aarch64-linux-gnu"
    assert str(target) == f"llvm -mcpu=generic{foreign} -num-cores=4"
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
        ("gpu", "unknown kind 'gpu'; write 'llvm"),
        ("lvm -num-cores=2", "unknown kind 'lvm'; did you mean 'llvm'\\? write 'llvm"),
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


@dataclass(frozen=True)
class Abacus(Target):
    """A kind of machine that says nothing but its name, and how many hands move the beads."""

    kind: ClassVar[str] = "abacus"

    def __post_init__(self) -> None:
        words = [w for w in self.text.split()[1:] if w.startswith("-num-cores=")]
        object.__setattr__(self, "num_cores", int(words[0].partition("=")[2]) if words else 1)


@pytest.fixture
def abacus(monkeypatch):
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))
    rooms = dict.fromkeys(("space", "draft", "lowering", "builder", "device", "executor"), "")
    kinds.register(kinds.Kind("abacus", "abacus", target=f"{__name__}:Abacus", **rooms))


@pytest.mark.usefixtures("abacus")
class TestAnotherKind:
    def test_its_first_word_names_its_class(self):
        target = Target("abacus")
        assert type(target) is Abacus
        assert (str(target), target.num_cores, target.lanes()) == ("abacus", 1, 1)
        assert target == Abacus("abacus")
        assert hash(target) == hash(Abacus("abacus"))

    def test_threads(self):
        target = Target("abacus")
        assert target.with_cores(1) is target
        four = target.with_cores(4)
        assert (type(four), str(four), four.num_cores) == (Abacus, "abacus -num-cores=4", 4)
        assert str(four.with_cores(2)) == "abacus -num-cores=2"

    def test_nothing_is_assumed_of_it(self):
        target = Target("abacus")
        assert target.missing_on_host() == []
        assert target.chain_limits() is None
        target.require_precision("f32")
        with pytest.raises(TargetError, match="bf16 is not supported by target 'abacus'"):
            target.require_precision("bf16")
        with pytest.raises(TargetError, match="'abacus' have nothing to say about their hardware"):
            kinds.room("abacus", "hardware")

    def test_a_cpus_engine_refuses_it(self):
        with pytest.raises(TargetError, match="target 'abacus' is no CPU"):
            CpuTarget.of(Target("abacus"))

    def test_convolutions_in_a_row_stay_apart(self):
        b = Builder("net")
        x = b.input("x", (1, 48, 48, 128))
        attrs = {"strides": (1, 1), "dilation": (1, 1), "layout": "NHWC"}
        weights = b.constant(np.ones((3, 3, 1, 128), np.float32))
        y = b.op("conv2d", x, weights, pads=(1, 1, 1, 1), groups=128, **attrs)
        weights = b.constant(np.ones((1, 1, 128, 24), np.float32))
        net = b.finish([b.op("conv2d", y, weights, pads=(0, 0, 0, 0), **attrs)])
        assert len(plan(net, target=Target("abacus")).calls) == 2
        assert len(plan(net).calls) == len(plan(net, target=Target("llvm")).calls) == 1
        assert Target("llvm").chain_limits() == ChainLimits(1024, 25, 1 << 20)


@pytest.mark.parametrize(
    "text, run",
    [("cuda -model=a100", "device"), ("x -run=emulated", "emulated"), ("llvm", "device")],
)
def test_how_programs_are_run_is_read_off_a_text(text, run):
    assert run_of(text) == run
    assert mark(text) == ("" if run == "device" else f" ({run})")
    assert caveat(text).startswith(f"{run}: ") or run == "device"


def test_nothing_is_compiled_for_a_simulated_target():
    where = "cuda -model=a100 -run=simulated"
    assert Target().run == "device"
    with pytest.raises(TargetError, match="simulated, so nothing can be compiled for it"):
        tw.compile(tw.zoo.outline("mlp"), where)
    task = tw.extract_tasks(tw.zoo.outline("mlp"), "llvm")[0][0]
    with pytest.raises(TargetError, match="leave out -run=simulated"):
        tw.compile_task(replace(task, target=Target(where)))
