"""Targets of GPUs: what their text means, what is refused, and what is asked of the driver."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilework import kinds
from tilework.errors import TargetError
from tilework.kinds.cuda import probe
from tilework.kinds.cuda import target as target_module
from tilework.kinds.cuda.architectures import ARCHITECTURES
from tilework.kinds.cuda.emulate.compile import compiler
from tilework.kinds.cuda.models import MODELS, model_of, representative
from tilework.kinds.cuda.probe import Found, FoundDevice
from tilework.kinds.cuda.target import RUNS, CudaTarget
from tilework.target import Target

H200 = FoundDevice("NVIDIA H200", "sm_90", 132, 1.98, 60 << 20)


@pytest.fixture
def here(monkeypatch):
    """Says which devices are here."""

    def put(*devices: FoundDevice, why: str = "there is no NVIDIA driver"):
        monkeypatch.setattr(
            target_module, "look", lambda: Found(devices, (13, 0), "" if devices else why)
        )

    put()
    return put


@given(
    where=st.one_of(
        st.sampled_from(sorted(MODELS)).map(lambda m: (f"-model={m}", MODELS[m].arch)),
        st.sampled_from(sorted(ARCHITECTURES)).map(lambda a: (f"-arch={a}", a)),
    ),
    run=st.sampled_from(["", *RUNS]),
    redundant=st.booleans(),
    swapped=st.booleans(),
)
def test_the_text_is_canonical(where, run, redundant, swapped):
    option, arch = where
    words = [option, *([f"-run={run}"] if run else [])]
    words += [f"-arch={arch}"] if redundant and "-model" in option else []
    target = Target(" ".join(["cuda", *(reversed(words) if swapped else words)]))
    tail = "" if run in ("", "device") else f" -run={run}"
    assert str(target) == f"cuda {option}{tail}"
    again = Target(str(target))
    assert again == target and hash(again) == hash(target) and str(again) == str(target)
    assert pickle.loads(pickle.dumps(target)) == target
    assert (target.arch, target.run) == (arch, run or "device")
    assert target.limits is ARCHITECTURES[arch] and target.device.arch == arch


def test_what_an_engine_may_ask():
    target = CudaTarget("cuda -model=a100")
    assert (target.num_cores, target.lanes(), target.platform) == (1, 4, "cuda")
    assert (target.device.sms, target.limits.shared_per_block) == (108, 163 << 10)
    assert target.chain_limits() is None
    assert CudaTarget.of(target) is target
    assert CudaTarget("cuda -arch=sm_80").device is target.device
    assert target.with_cores(1) is target
    with pytest.raises(TargetError, match="no number of threads to set"):
        target.with_cores(4)
    with pytest.raises(TargetError, match="is no GPU"):
        CudaTarget.of(Target("llvm"))


@pytest.mark.parametrize(
    "text, message",
    [
        ("cuda -model=4090", "unknown model '4090'; did you mean rtx4090"),
        ("cuda -model=A100-80G", "did you mean a100-80gb"),
        ("cuda -arch=sm80", "unknown architecture 'sm80'; did you mean sm_80"),
        ("cuda -arch=sm_60", "unknown architecture 'sm_60'; did you mean sm_"),
        ("cuda -arch=volta", "unknown architecture 'volta'; known: sm_70, sm_75"),
        ("cuda -model=a100 -run=emulate", "unknown way to run 'emulate'; did you mean emulated"),
        ("cuda -model=a100 -run=x", "unknown way to run 'x'; known: device, emulated, simulated"),
        ("cuda -model=a100 -arch=sm_90", "a100 is a device of sm_80, not of sm_90: leave out one"),
        ("cuda -num-cores=2", "unknown option '-num-cores'; known options: -model, -arch, -run"),
        ("cuda a100", "'a100' is not an option"),
        ("cud -arch=sm_80", "unknown kind 'cud'; did you mean 'cuda'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(text, message):
    with pytest.raises(TargetError) as caught:
        Target(text)
    assert message in str(caught.value) and text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["cuda", "cuda -arch=native", "cuda -run=emulated"])
def test_native_needs_a_device(text, here):
    with pytest.raises(TargetError, match=r"no CUDA device is here, .* -model=a100.*emulated"):
        Target(text)
    here(FoundDevice("Tesla K80", "sm_37", 13, 0.8, 0))
    with pytest.raises(TargetError, match=r"Tesla K80, is of sm_37, which is not supported"):
        Target(text)


def test_native_is_the_first_device(here):
    here(H200, FoundDevice("NVIDIA A100-SXM4-40GB", "sm_80", 108, 1.41, 40 << 20))
    assert str(Target("cuda")) == str(Target("cuda -arch=native")) == "cuda -model=h200"
    assert str(Target("cuda -run=simulated")) == "cuda -model=h200 -run=simulated"
    assert Target("cuda").missing_on_host() == []
    assert Target("cuda -model=h100").missing_on_host() == []
    assert Target("cuda -model=l4").missing_on_host() == ["a CUDA device of sm_89"]
    assert Target("cuda -model=l4 -run=emulated").missing_on_host() == []
    with pytest.raises(TargetError, match="-model=l4 is a device of sm_89, not of sm_90"):
        Target("cuda -arch=native -model=l4")
    here(FoundDevice("NVIDIA H200 MIG 1g.18gb", "sm_90", 16, 1.98, 0))
    assert str(Target("cuda")) == "cuda -arch=sm_90"


def test_models_are_known_by_what_the_driver_calls_them():
    assert model_of("NVIDIA A100-SXM4-80GB", "sm_80", 108).name == "a100-80gb"
    assert model_of("NVIDIA A100-SXM4-40GB", "sm_80", 108).name == "a100"
    assert model_of("NVIDIA H100 80GB HBM3", "sm_90", 132).name == "h100"
    assert model_of("NVIDIA H100 PCIe", "sm_90", 114).name == "h100-pcie"
    assert model_of("NVIDIA RTX 6000 Ada Generation", "sm_89", 142).name == "rtx6000ada"
    assert model_of("NVIDIA L40S", "sm_89", 142).name == "l40s"
    assert model_of("NVIDIA GeForce RTX 4090 D", "sm_89", 114) is None
    for name, model in MODELS.items():
        assert model.name == name and model.arch in ARCHITECTURES
    assert {representative(arch).arch for arch in ARCHITECTURES} == set(ARCHITECTURES)


def test_records_serve_alike_devices_run_in_the_same_way():
    target = Target("cuda -model=h200 -run=emulated")
    found = [str(t) for t in target.relatives()]
    assert found[:2] == ["cuda -arch=sm_90 -run=emulated", "cuda -model=h100 -run=emulated"]
    assert str(target) not in found
    plain = [str(t) for t in Target("cuda -arch=sm_90").relatives()]
    assert plain[0] == "cuda -model=h100" and all("-run" not in t for t in plain)
    for name in MODELS:
        for other in Target(f"cuda -model={name}").relatives():
            assert other.limits == Target(f"cuda -model={name}").limits and other.run == "device"


def test_narrow_precisions_need_tensor_cores():
    Target("cuda -model=a100").require_precision("bf16")
    Target("cuda -model=t4").require_precision("f32")
    with pytest.raises(TargetError, match=r"precision bf16 needs tensor cores of sm_80 or later"):
        Target("cuda -model=t4").require_precision("bf16")


def test_the_usage_names_the_options():
    with pytest.raises(TargetError, match=r"cuda \[-model=NAME\] \[-arch=sm_NN\]"):
        Target("vulkan")
    assert kinds.known_kind("cuda").target.endswith(":CudaTarget")


# --- what is asked of the driver -----------------------------------------------------------------


def test_an_answer_of_the_driver():
    answer = json.dumps(
        [0, 13010, [["NVIDIA H200", 141 << 30, 9, 0, 132, 1980000, 60 << 20, 3201000, 6016]]]
    )
    found = probe.ask([sys.executable, "-c", f"print({answer!r})"])
    h200 = replace(H200, memory_bytes=141 << 30, memory_ghz=3.201, memory_bits=6016)
    assert found == Found((h200,), (13, 1), "")


DRIVER = """
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuDeviceGetCount(int *count) { *count = 3; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 70 + ordinal; return ordinal == 1; }
int cuDeviceGetName(char *name, int size, int device) {
  strncpy(name, device == 70 ? "NVIDIA H200" : "Old GPU", size);
  return 0;
}
int cuDeviceTotalMem_v2(size_t *nbytes, int device) {
  *nbytes = (size_t)(device == 70 ? 141 : 8) << 30;
  return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device) {
  switch (which) {
    case 75: *value = device == 70 ? 9 : 6; return 0;
    case 76: *value = device == 70 ? 0 : 1; return 0;
    case 16: *value = 132; return 0;
    case 13: *value = 1980000; return 0;
    case 38: *value = 60 << 20; return 0;
    case 36: *value = 3201000; return device != 70;
    case 37: *value = 6016; return 0;
  }
  return 1;
}
"""


def test_a_driver_is_asked_for_all_of_it(tmp_path, needs_compiler):
    """Against a library with the functions of `cuda.h`, one of whose devices cannot be had."""
    (tmp_path / "cuda.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so"
    words = [*compiler(), "-x", "c", "-shared", "-fPIC", "-w", str(tmp_path / "cuda.c"), "-o"]
    subprocess.run([*words, str(library)], check=True)
    asked = probe._ASK.format(library=str(library), wanted=probe._WANTED)
    found = probe.ask([sys.executable, "-I", "-c", asked])
    h200 = replace(H200, memory_bytes=141 << 30, memory_ghz=3.201, memory_bits=6016)
    assert found.driver == (12, 4) and not found.why_none
    assert found.devices[0] == h200 and len(found.devices) == 2
    old = dict(found.devices[1].facts())
    assert old["arch"] == "sm_61" and old["memory"] == "8 GiB" and "memory clock" not in old


@pytest.mark.parametrize(
    "program, why",
    [
        ("print('[100, 12020, []]')", "error 100"),
        ("print('[0, 12020, []]')", "finds no device"),
        ("raise SystemExit(3)", "exit code 3"),
        ("raise OSError('libcuda is odd')", "libcuda is odd"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
    ],
)
def test_no_answer_is_told_in_one_line(program, why):
    found = probe.ask([sys.executable, "-c", program])
    assert not found.devices and why in found.why_none and "\n" not in found.why_none


def test_looking_says_what_is_here_or_why_nothing_is():
    compile(probe._ASK.format(library="libcuda.so.1", wanted=probe._WANTED), "ask", "exec")
    found = probe.look()
    assert bool(found.devices) != bool(found.why_none)
