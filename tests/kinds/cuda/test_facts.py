"""What machine code says of a kernel before it runs."""

from __future__ import annotations

import pytest

from tilework.kinds.cuda.architectures import ARCHITECTURES
from tilework.kinds.cuda.facts import code_of, facts_of, why_unfit
from tilework.kinds.cuda.launches import Launch
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.source.nvrtc import BuildError

pytestmark = pytest.mark.usefixtures("needs_nvrtc")
LIMITS = ARCHITECTURES["sm_80"]

ADD = """
extern "C" __global__ void __launch_bounds__(128) add(
    TW_IN(float, a, 1024), TW_OUT(float, b, 1024)) {
  TW_BLOCK_STATIC(4096);
  TW_SHARED(float, s, 1024, 0);
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = fmaf(s[127 - threadIdx.x], 2.f, s[threadIdx.x ^ 3]);
}
"""
DYNAMIC = """
extern "C" __global__ void __launch_bounds__(256) moved(
    TW_IN(float, a, 1024), TW_OUT(float, b, 1024)) {
  TW_BLOCK_DYNAMIC(65536);
  TW_SHARED(float, s, 16384, 0);
  s[threadIdx.x * 7] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = s[(255 - threadIdx.x) * 7];
}
"""
SPILLS = """
extern "C" __global__ void __launch_bounds__(1024, 2) spills(
    TW_IN(float, a, 65536), TW_OUT(float, c, 65536)) {
  float acc[64];
#pragma unroll
  for (int i = 0; i < 64; i++) acc[i] = a[i * 1024 + threadIdx.x];
  for (int k = 0; k < 100; k++) {
#pragma unroll
    for (int i = 0; i < 64; i++) acc[i] = acc[i] * a[k] + acc[(i + 1) % 64];
  }
#pragma unroll
  for (int i = 0; i < 64; i++) c[i * 1024 + threadIdx.x] = acc[i];
}
"""


def launch(entry: str, block: int, shared: int = 0) -> Launch:
    return Launch(entry, 1, block, shared, (("argument", 0), ("argument", 1)))


def test_facts_of_several_launches():
    codes = {n: code_of(n, text, "sm_80") for n, text in {"add": ADD, "moved": DYNAMIC}.items()}
    one = facts_of([launch("add", 128)], codes, LIMITS)
    assert one["registers"] == codes["add"].resources.registers
    assert (one["shared_bytes"], one["spill_bytes"], one["stack_bytes"]) == (4096, 0, 0)
    assert (one["ffma"], one["hmma"], one["blocks_per_sm"]) == (1, 0, 16)
    both = facts_of([launch("add", 128), launch("moved", 256, 65536)] * 2, codes, LIMITS)
    assert (both["shared_bytes"], both["blocks_per_sm"], both["ffma"]) == (65536, 2, 2)
    assert both["code_bytes"] == max(c.resources.code_bytes for c in codes.values())
    assert why_unfit(list(codes.values())) == ""


def test_code_of_a_name_is_made_once():
    assert code_of("add", ADD, "sm_80") is code_of("add", ADD, "sm_80")
    assert code_of("add", ADD, "sm_90").resources.shared_bytes == 4096


def test_spilled_registers_are_why_a_kernel_is_refused():
    codes = [code_of("add", ADD, "sm_80"), code_of("spills", SPILLS, "sm_80")]
    assert "spills spills registers: its threads store and load" in why_unfit(codes)


def test_without_the_compilers_word_the_stack_tells(monkeypatch):
    silent = nvrtc.Compiled(nvrtc.cubin(SPILLS, "sm_86", "spills"), {})
    monkeypatch.setattr(nvrtc, "compile_text", lambda *_: silent)
    found = code_of("spills", SPILLS, "sm_86")
    assert found.spilled == found.resources.stack_bytes > 0


def test_what_does_not_fit_an_sm_is_no_kernel():
    codes = {"moved": code_of("moved", DYNAMIC, "sm_80")}
    with pytest.raises(BuildError, match=r"moved does not fit an SM of sm_80: 256 threads of"):
        facts_of([launch("moved", 256, 164 << 10)], codes, LIMITS)


def test_a_text_must_hold_the_function_of_its_name():
    with pytest.raises(BuildError, match="holds add"):
        code_of("other", ADD, "sm_80")
