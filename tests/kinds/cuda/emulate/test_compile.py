"""Libraries of kernels: found again, bounded in number, refused with one line."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

import pytest

from tests.kinds.cuda.emulate.arrays import aligned, pointers
from tests.kinds.cuda.emulate.kernels import IN_PLACE, MATMUL, product
from tilework.errors import TargetError
from tilework.kinds.cuda.emulate import compile as compilation
from tilework.kinds.cuda.emulate.compile import compile_text, compiler, library_text
from tilework.kinds.cuda.emulate.run import Emulated
from tilework.kinds.cuda.source.nvrtc import compile_text as compile_for_device


@pytest.mark.usefixtures("needs_compiler")
def test_a_library_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = compile_text([("in_place", IN_PLACE)])
    assert first.parent == tmp_path / "tilework" / "emulate"
    with monkeypatch.context() as patch:
        patch.setattr(compilation.subprocess, "run", None)
        assert compile_text([("in_place", IN_PLACE)]) == first
    other = compile_text([("in_place", IN_PLACE)], checked=True)
    assert other != first
    assert sorted(first.parent.iterdir()) == sorted((first, other))  # no unfinished work is left


@pytest.mark.usefixtures("needs_compiler")
def test_text_that_is_no_code_is_refused_with_its_line():
    broken = IN_PLACE.replace("const float x", "const flaot x")
    with pytest.raises(TargetError, match=r"in_place:3.*flaot"):
        compile_text([("in_place", broken)])


@pytest.mark.usefixtures("needs_compiler")
def test_buffers_lie_within_the_memory_of_their_block():
    over = MATMUL.replace("TW_BLOCK_STATIC(4096)", "TW_BLOCK_STATIC(4080)")
    for checked in (False, True):
        with pytest.raises(TargetError, match="b_s does not lie within the block"):
            compile_text([("matmul", over)], checked)


def test_the_compiler_of_a_wheel_serves_where_the_system_has_none(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert compiler() == [sys.executable, "-m", "ziglang", "c++"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TargetError, match=r"g\+\+ or clang.*pip install 'tilework\[emulate\]'"):
        compiler()


def test_what_was_used_longest_ago_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "KEPT_FILES", 3)
    paths = [tmp_path / f"kernels-{i}.so" for i in range(5)]
    for i, path in enumerate(paths):
        path.write_bytes(b"x" * 100)
        os.utime(path, ns=(i * 10**9, i * 10**9))
    compilation._drop_oldest(tmp_path, keep=paths[0])
    assert sorted(tmp_path.iterdir()) == [paths[0], *paths[2:]]
    monkeypatch.setattr(compilation, "KEPT_BYTES", 250)
    compilation._drop_oldest(tmp_path, keep=paths[4])
    assert sorted(tmp_path.iterdir()) == paths[3:]


def test_granules_are_as_large_as_the_smallest_element():
    assert library_text([("a", "TW_SHARED(float, s, 4, 0);")]).startswith("#define TW_GRANULE 4")
    mixed = "TW_SHARED(double, s, 4, 0); TW_SHARED(tw_bf16, t, 4, 32);"
    assert library_text([("a", mixed)]).startswith("#define TW_GRANULE 2")
    assert library_text([("a", "TW_SHARED(bool, s, 4, 0);")]).startswith("#define TW_GRANULE 1")


@pytest.mark.usefixtures("needs_nvrtc")
def test_the_same_text_is_code_for_devices():
    tensor = "".join(product(f"p_{t}", t) for t in ("tw_bf16", "tw_f16", "float"))
    everything = EVERY_NAME + tensor
    for arch in ("sm_80", "sm_90"):
        assert compile_for_device(everything, arch, "names").spilled["p_float"] == 0
    assert compile_for_device(MATMUL, "sm_75", "matmul").cubin


EVERY_NAME = """\
extern "C" __global__ void __launch_bounds__(32, 2) names(TW_IN(tw_bf16, a, 4096), TW_SAME(tw_f16, h, 4096), TW_OUT(float, c, 4096), TW_OUT(tw_f16, o, 4096), TW_TEMP(int8_t, t, 100), TW_IN(int64_t, q, 100), TW_OUT(int32_t, n, 32), TW_OUT(tw_bf16, b, 64)) {
  TW_BLOCK_DYNAMIC(65536);
  TW_SHARED(tw_bf16, a_s, 1024, 0);
  TW_SHARED(float, f_s, 1024, 4096);
  const int tid = (int)threadIdx.x;
  uint32_t r[4];
  TW_ASSUME(tid >= 0 && tid < 32);
  TW_CP_ASYNC16(a_s, tid * 8, a, tid * 8, tid < 31);
  TW_CP_ASYNC4(a_s, 512 + tid * 2, a, tid * 2, true);
  TW_CP_ASYNC8(a_s, 640 + tid * 4, a, tid * 4, true);
  TW_CP_COMMIT();
  TW_CP_WAIT(0);
  __syncthreads();
  TW_LDMATRIX_X4_TRANS(r, a_s, tid * 8);
  const float4 v = TW_LD4(h, tid * 4), zero = TW_ZERO4;
  const float2 w = TW_LD2(a_s, 2 * tid), none = TW_ZERO2;
  __syncwarp();
  TW_ST2(a_s, 2 * tid, w.x, w.y);
  TW_ST4(f_s, 4 * tid, v.x, v.y, zero.x, none.y);
  TW_ST4(o, tid * 4, v.x, v.y, v.z, v.w);
  TW_ST2(b, tid * 2, v.x, TW_ROUND_BF16(v.y));
  TW_ST(t, tid, TW_LD(q, tid));
  TW_ST4(n, tid % 8 * 4, min(3, tid), max(3, tid), (int)r[0], (int)r[3]);
  TW_ST(c, tid, TW_SHFL_XOR(TW_LD(a, tid), 1) + fmaxf(TW_LD(h, tid), -TW_INF) + TW_ROUND_F16(v.y) + rsqrtf(v.z) + __uint_as_float(TW_ROUND_TF32(v.w)));
}
"""  # noqa: E501


@pytest.mark.cuda_full
def test_kernels_by_a_wheel_run(monkeypatch):
    """The first time it builds a C++ library, for a minute or more."""
    pytest.importorskip("ziglang")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "ziglang" in compiler()
    for checked in (False, True):
        x = aligned((256,), fill=1.0)
        kernels = Emulated(compile_text([("in_place", IN_PLACE)], checked))
        kernels.launch("in_place", 4, 64, 0, pointers(x, x))
        assert (x == 2).all()
