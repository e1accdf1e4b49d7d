"""Machine code of kernels: compiled without a GPU, and read without NVIDIA's tools."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilework.errors import TargetError
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.source.cubin import Resources, resources
from tilework.kinds.cuda.source.elf import CubinError, padded, read_cubin
from tilework.kinds.cuda.source.nvrtc import BuildError
from tilework.kinds.cuda.source.sass import accesses, multiply_adds, opcode_counts

needs_nvrtc = pytest.mark.usefixtures("needs_nvrtc")

PRODUCT = """
extern "C" __global__ void __launch_bounds__(256) product(
    TW_IN(float, a, 65536), TW_IN(float, b, 65536), TW_OUT(float, c, 65536)) {
  __shared__ float as[1024];
  __shared__ float bs[1024];
  const int tid = (int)threadIdx.x, bx = (int)blockIdx.x % 4, by = (int)blockIdx.x / 4;
  float acc[16];
#pragma unroll
  for (int i = 0; i < 16; i++) acc[i] = 0.f;
  for (int k0 = 0; k0 < 256; k0 += 16) {
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const int f = q * 256 + tid;
      as[f] = a[(by * 64 + f / 16) * 256 + k0 + f % 16];
      bs[f] = b[(k0 + f / 64) * 256 + bx * 64 + f % 64];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          acc[i * 4 + j] += as[(tid / 16 * 4 + i) * 16 + k] * bs[k * 64 + tid % 16 * 4 + j];
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      c[(by * 64 + tid / 16 * 4 + i) * 256 + bx * 64 + tid % 16 * 4 + j] = acc[i * 4 + j];
}
extern "C" __global__ void wide(TW_IN(float, a, 4096), TW_OUT(float, c, 4096)) {
  __shared__ __align__(16) float s[512];
  const int t = (int)threadIdx.x;
  *(float4*)(s + 4 * t) = *(const float4*)(a + 4 * t);
  __syncthreads();
  *(float2*)(c + 2 * t) = *(float2*)(s + 2 * (t ^ 5));
  float own[40];
  for (int i = 0; i < 40; i++) own[i] = a[i * t];
  for (int i = 0; i < (int)a[1]; i++) own[i * 7 % 40] += own[(int)a[i] % 40];
  c[1000 + t] = own[(int)s[t] % 40] + __shfl_xor_sync(~0u, s[t ^ 1], 4);
}
"""
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(
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


@lru_cache
def product(arch: str) -> nvrtc.Compiled:
    return nvrtc.compile_text(PRODUCT, arch, "product")


_INSTRUCTION = r"\s+/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)"


def disassembler() -> str | None:
    """NVIDIA's, from its wheel or the system."""
    for folder in (Path(p) / "nvidia" for p in sys.path):
        found = next(iter(sorted(folder.glob("*/bin/nvdisasm"))), None)
        if found:
            return str(found)
    return shutil.which("nvdisasm")


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_what_a_kernel_takes(arch):
    compiled = product(arch)
    found = resources(compiled.cubin)
    assert set(found) == {"product", "wide"}
    assert found["product"].shared_bytes == 8192 and found["wide"].shared_bytes == 2048
    assert found["product"].max_threads == 256 and found["wide"].max_threads == 0
    assert found["product"].stack_bytes == 0 and compiled.spilled == {"product": 0, "wide": 0}
    assert 40 <= found["product"].registers <= 80
    assert read_cubin(compiled.cubin).arch == int(arch[3:])
    assert found["wide"].stack_bytes >= 160  # an array that data index is no spilled register


@needs_nvrtc
def test_instructions_of_a_kernel():
    for arch in ("sm_80", "sm_100"):
        counts = opcode_counts(product(arch).cubin)
        assert multiply_adds(counts["product"]) == 4 * 4 * 16
        assert counts["product"]["BAR"] == 2
        assert accesses(counts["product"], "STG") == 16
        wide = counts["wide"]
        assert (wide["LDG.128"], wide["STS.128"], wide["LDS.64"], wide["STG.64"]) == (1, 1, 1, 1)
        assert wide["SHFL"] == 1 and accesses(wide, "LDL") > 0


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_instructions_are_those_of_the_disassembler(arch, tmp_path):
    tool = disassembler()
    if tool is None:
        pytest.skip("nvdisasm is not here")
    file = tmp_path / "product.cubin"
    file.write_bytes(product(arch).cubin)
    text = subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True).stdout
    expected: dict[str, Counter[str]] = {}
    for line in text.splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            counts = expected.setdefault(found[1], Counter())
        elif found := re.match(_INSTRUCTION, line):
            name, *parts = found[1].split(".")
            width = next((f".{p}" for p in parts if p in ("64", "128")), "")
            wide = name in ("LDG", "LDS", "STG", "STS", "LDL", "STL")
            counts[name + (width if wide else "")] += 1
    found = opcode_counts(product(arch).cubin)
    known = {name: +Counter(counts) for name, counts in found.items()}
    for name, counts in expected.items():
        counts.pop("NOP", None)  # what fills up is not always shown
        known[name].pop("NOP", None)
        assert known[name] == counts


@needs_nvrtc
def test_spilled_registers_are_told():
    compiled = nvrtc.compile_text(SPILLING, "sm_80", "spilling")
    assert compiled.spilled["spilling"] > 0
    found = resources(compiled.cubin)["spilling"]
    assert found.stack_bytes > 0 and found.registers <= 32 and found.max_threads == 1024


@needs_nvrtc
def test_an_error_of_the_compiler_is_one_line_of_the_kernels_text():
    with pytest.raises(BuildError) as caught:
        nvrtc.cubin('extern "C" __global__ void k() {\n  int x = y;\n}', "sm_80", "k")
    assert str(caught.value) == 'k for sm_80: k.cu(2): error: identifier "y" is undefined'
    big = 'extern "C" __global__ void k(float* p) { __shared__ float s[20000];\n'
    big += "s[threadIdx.x] = p[0]; __syncthreads(); p[1] = s[255 - threadIdx.x]; }"
    with pytest.raises(BuildError, match=r"^k for sm_80: ptxas error.*too much shared data"):
        nvrtc.cubin(big, "sm_80", "k")


@needs_nvrtc
def test_an_unknown_architecture_says_where_it_is_known():
    with pytest.raises(TargetError, match=r"makes no code for sm_999 .*pip install -U"):
        nvrtc.cubin("", "sm_999", "k")


def test_old_architectures_need_the_compiler_of_cuda_12(monkeypatch):
    class Nvrtc13:
        getSupportedArchs = staticmethod(lambda: (75, 80, 90))
        getVersion = staticmethod(lambda: (13, 0))

    monkeypatch.setattr(nvrtc, "_nvrtc", Nvrtc13)
    monkeypatch.setattr(nvrtc, "_available", lambda: None)
    with pytest.raises(TargetError) as caught:
        nvrtc.cubin("", "sm_70", "k")
    assert "NVRTC 13.0 makes no code for sm_70 (it knows sm_75 to sm_90)" in str(caught.value)
    assert "tilework[cuda12]" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [ImportError("No module named 'cupy'"), OSError("a\nb")])
def test_without_the_wheels_one_line_says_what_to_install(error, monkeypatch):
    def nothing():
        raise error

    monkeypatch.setattr(nvrtc, "_nvrtc", nothing)
    nvrtc._available.cache_clear()
    try:
        message = nvrtc.available()
        assert message is not None and "pip install 'tilework[cuda13]'" in message
        assert "\n" not in message
        with pytest.raises(TargetError, match="pip install"):
            nvrtc.cubin("", "sm_80", "k")
    finally:
        nvrtc._available.cache_clear()


# --- damaged bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"MZ" * 50])
def test_what_is_no_cubin_is_refused(code):
    with pytest.raises(CubinError):
        resources(code)


@needs_nvrtc
@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_bytes_give_an_error_or_an_answer(data):
    whole = product("sm_80").cubin
    if data.draw(st.booleans()):
        code = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        code = bytearray(whole)
        areas = st.one_of(st.integers(0, 2048), st.integers(len(whole) - 2048, len(whole) - 1))
        for at in data.draw(st.lists(areas, min_size=1, max_size=8)):
            code[at] = data.draw(st.integers(0, 255))
    try:
        for one in resources(bytes(code)).values():
            assert isinstance(one, Resources)
        opcode_counts(bytes(code))
    except CubinError as e:
        assert "\n" not in str(e)


@needs_nvrtc
def test_a_cut_off_zero_is_put_back():
    whole = product("sm_90").cubin
    assert padded(whole) == whole and padded(whole[:-1]) == whole and whole[-1] == 0
