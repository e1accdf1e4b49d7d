"""What is asked of LLVM."""

from __future__ import annotations

import mmap
from pathlib import Path

import llvmlite.binding
import pytest

from tilework.kinds.cpu.jit import PASSES
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.target import CpuTarget


@pytest.mark.parametrize("switch", PASSES)
def test_llvm_has_the_switches(switch: str) -> None:
    # one that it does not know is passed over without a word
    folder = Path(llvmlite.binding.__file__).parent
    (library,) = folder.glob("libllvmlite.*")
    name = b"\0" + switch[1:].encode() + b"\0"
    with library.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert data.find(name) >= 0


def test_code_does_not_depend_on_what_was_made_before() -> None:
    wide, narrow = CpuTarget("llvm -mcpu=skylake-avx512"), CpuTarget("llvm -mcpu=core-avx2")
    first = [emit_object(_LOOP, target) for target in (wide, narrow)]
    again = [emit_object(_LOOP, target) for target in (narrow, wide)]
    assert again == first[::-1]
    assert emit_object(_LOOP, wide) == first[0]


_LOOP = """
define void @f(ptr %x, ptr %y, i64 %n) {
entry:
  br label %l
l:
  %i = phi i64 [0, %entry], [%j, %l]
  %a = getelementptr [5 x float], ptr %x, i64 %i
  %v = load float, ptr %a
  %b = getelementptr [3 x float], ptr %y, i64 %i
  store float %v, ptr %b
  %j = add i64 %i, 1
  %c = icmp slt i64 %j, %n
  br i1 %c, label %l, label %e
e:
  ret void
}
"""
