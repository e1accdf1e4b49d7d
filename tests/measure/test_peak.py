"""The measured multiply-add peak."""

from __future__ import annotations

import re

import pytest

from tilework.kinds.cpu.calibrate.peak import _fma_loop, fma_peak_gflops
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.target import Target


def test_the_peak_is_that_of_a_core_of_this_century():
    assert 1.0 < fma_peak_gflops(repeats=5) < 2000.0


@pytest.mark.parametrize(
    ("cpu", "register"), [("skylake-avx512", "zmm"), ("core-avx2", "ymm")], ids=lambda x: x
)
def test_it_multiplies_and_adds_in_the_widest_registers(cpu, register):
    target = Target(f"llvm -mcpu={cpu} -mtriple=x86_64-linux-gnu")
    text = emit_assembly(_fma_loop(target.lanes()), target)
    assert len(re.findall(rf"vfmadd\w+\t.*%{register}\d", text)) == 12
