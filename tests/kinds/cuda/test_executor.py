"""Modules for GPUs: run on the emulation, and through CuPy's calls on a made-up CUDA."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.kinds.cuda.cuda_api import FakeCuda, cubin
from tests.kinds.cuda.images import MINUS, N, X, Y, Z, image
from tilework import compile, load_module, zoo
from tilework.errors import ModuleError
from tilework.kinds.cuda import executor
from tilework.kinds.cuda.images import code_piece, plan_piece
from tilework.kinds.cuda.probe import Found, FoundDevice
from tilework.kinds.cuda.target import CudaTarget
from tilework.record import MemoryHistory
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.runtime.module import Module

EMULATED, REAL = "cuda -model=a100 -run=emulated", "cuda -model=a100"
A100 = FoundDevice("NVIDIA A100-SXM4-40GB", "sm_80", 108, 1.41, 40 << 20)
pytestmark = pytest.mark.usefixtures("needs_compiler")


@pytest.fixture
def cuda(monkeypatch):
    """A made-up CUDA with an A100."""
    fake = FakeCuda(CudaTarget(REAL)).install(monkeypatch)
    monkeypatch.setattr(executor, "look", lambda: Found((A100,), (13, 0)))
    executor._driver.cache_clear()
    yield fake
    executor._driver.cache_clear()


@pytest.fixture(params=[EMULATED, REAL])
def module(request, cuda):
    return Module(image(request.param))


def test_a_module_runs_saves_and_loads(module, tmp_path):
    module.save(tmp_path / "tiny.tw")
    for one in (module, load_module(tmp_path / "tiny.tw")):
        for x in (X, 3 * X):
            y, z = one.run(x)
            np.testing.assert_allclose(y, 2 * (x + Y / 2 - X), rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(z.reshape(-1), y - x, rtol=1e-6)


def test_bound_calls_read_and_write_the_callers_arrays(module):
    x, outputs = (
        aligned_copy(X),
        [aligned_empty((N,), "float32"), aligned_empty((10, 100), "float32")],
    )
    call = module.bind({"x": x}, outputs)
    other = module.bind()
    assert all(map(np.shares_memory, call(), outputs)) and call.inputs["x"] is x
    np.testing.assert_allclose(outputs[0], Y, rtol=1e-6)
    np.testing.assert_allclose(outputs[1].reshape(-1), Z, rtol=1e-6)
    other.inputs["x"][...] = 0
    assert np.isfinite(other()[0]).all()
    x *= 2
    np.testing.assert_allclose(call()[0], Y + 2 * X, rtol=1e-5, atol=1e-5)


def test_threads_of_the_host_run_one_module_side_by_side(module):
    found = []

    def work():
        found.append(all(np.allclose(module.run(X)[0], Y) for _ in range(5)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3


def test_profile_and_kernels_alone(module):
    times = module.profile(repeat=1)
    assert [t.name for t in times] == ["first", "second", "third"]
    assert all(t.time_ms > 0 and t.roofline > 0 for t in times)
    assert set(module.kernels_alone()) == {"sum", "difference"}
    assert module.benchmark(repeat=1, min_repeat_ms=1).min > 0


class OnDevice:
    """An array that says it lies in a GPU's memory; to the emulation it does."""

    def __init__(self, array, **changes):
        self.array = array
        self.__dict__["changes"] = changes

    @property
    def __cuda_array_interface__(self):
        said = self.array.__array_interface__
        return (
            {k: said[k] for k in ("typestr", "shape", "data", "strides")}
            | {"version": 3}
            | self.changes
        )


class Lent:
    """The same by DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self):
        return self.array.__dlpack__()


@pytest.mark.parametrize("kind", [OnDevice, Lent])
def test_arrays_of_a_device_are_used_where_they_lie(module, kind):
    x, y, z = aligned_copy(X), aligned_empty((N,), "float32"), aligned_empty((10, 100), "float32")
    given = {"x": kind(x)}
    call = module.bind(given, [kind(y), kind(z)])
    assert call.inputs["x"] is given["x"]
    out = call()
    assert out[0].array is y
    np.testing.assert_allclose(y, Y, rtol=1e-6)
    x += 1
    call()
    np.testing.assert_allclose(z.reshape(-1), Z + 1, rtol=1e-5, atol=1e-5)
    mixed = module.bind(given)
    np.testing.assert_allclose(mixed()[0], Y + 2, rtol=1e-5, atol=1e-5)


def test_arrays_of_a_device_that_cannot_be_used(module):
    whole = aligned_empty((4 * N + 64,), "float32")
    y, z = aligned_empty((N,), "float32"), aligned_empty((10, 100), "float32")
    cases = [
        ({"x": OnDevice(whole[: 2 * N : 2])}, None, "must be contiguous"),
        ({"x": OnDevice(whole[1 : N + 1])}, None, "multiple of 16 bytes"),
        ({"x": OnDevice(whole[:10])}, None, r"expected float32\[1000\], got float32\[10\]"),
        ({"x": Lent(aligned_empty((N,), "float64"))}, None, "got float64"),
        ({"x": OnDevice(y)}, [OnDevice(y), OnDevice(z)], "overlap in memory"),
        ({}, [OnDevice(y, data=(y.ctypes.data, True)), OnDevice(z)], "read-only"),
        ({"x": object()}, None, "expected a NumPy array, got object"),
    ]
    for inputs, outputs, said in cases:
        with pytest.raises(ModuleError, match=said):
            module.bind(inputs, outputs)
    with pytest.raises(ModuleError, match=r"input x: the array lies in a GPU.s memory; bind it"):
        module.run(OnDevice(y))


def _without(whole, name):
    return {k: v for k, v in whole.items() if k != name}


@pytest.mark.parametrize("target", [EMULATED, REAL])
def test_damaged_modules_are_refused(cuda, target):
    whole = image(target)
    plan, piece = (
        plan_piece("sum"),
        code_piece("minus", "emulated" if "emul" in target else "device"),
    )
    good = whole.code[plan]
    cases = [
        (_without(whole.code, plan), "has no kernel sum"),
        (_without(whole.code, piece), "has no code of minus"),
        (whole.code | {piece: b"garbage"}, "module tiny: the code of minus is damaged"),
        (whole.code | {plan: good[:-3]}, "kernel sum of module tiny is damaged"),
        (
            whole.code | {plan: good.replace(b"cuda-launches-1", b"cuda-launches-9")},
            "its format is",
        ),
        (whole.code | {plan: good.replace(b",64,", b",-64,")}, "makes no sense"),
        (whole.code | {plan: good.replace(b'"argument",2', b'"argument",7')}, "with argument 7"),
        (whole.code | {plan: good.replace(b"256", b"99999")}, "with workspace 99999"),
        (whole.code | {plan: good.replace(b"50176", b"200000")}, "200000 bytes of shared memory"),
    ]
    for code, said in cases:
        with pytest.raises(ModuleError, match=said):
            Module(replace(whole, code=code)).run(X)


def test_code_for_another_device_is_no_code(cuda):
    whole = image(REAL)
    piece = code_piece("minus", "device")
    other = whole.code | {piece: cubin(MINUS, arch=90)}
    with pytest.raises(ModuleError, match="the code of minus is for sm_90, not sm_80"):
        Module(replace(whole, code=other)).run(X)
    other = whole.code | {piece: whole.code[code_piece("copy_on", "device")]}
    with pytest.raises(ModuleError, match="there is no function minus in its code"):
        Module(replace(whole, code=other)).run(X)


def test_modules_that_cannot_run_here(cuda, monkeypatch):
    cases = [
        (
            {"target": "cuda -model=h100"},
            r"compiled for sm_90; this device is sm_80 \(NVIDIA A100",
        ),
        ({"target": "cuda -model=h100 -run=simulated"}, "nothing runs on a simulated device"),
        ({"target": "cuda -model=q100"}, "unknown model 'q100'"),
        ({"needs": ("cuda-launches-7",)}, "needs cuda-launches-7, which this version"),
    ]
    for changes, said in cases:
        with pytest.raises(ModuleError, match=said) as error:
            Module(image(**{"target": REAL, **changes})).run(X)
        assert "\n" not in str(error.value) and "tiny" in str(error.value)
    with pytest.raises(ModuleError, match="has no number of threads to set"):
        Module(image(REAL)).set_threads(2)
    monkeypatch.setattr(executor, "look", lambda: Found(why_none="there is no NVIDIA driver"))
    with pytest.raises(ModuleError, match="no CUDA device is here: there is no NVIDIA driver"):
        Module(image(REAL)).run(X)


@pytest.mark.parametrize(
    ("call", "number", "said"),
    [
        ("getDeviceCount", 35, "cannot run here: the NVIDIA driver is too old"),
        ("setDevice", 46, "another program has the device for itself"),
        ("moduleLoadData", 209, "module tiny: loading twice_sum: error of moduleLoadData"),
        ("malloc", 2, r"the device has no 0.00 GiB left: 16.00 of 16.0 GiB are free"),
        ("launchKernel", 701, "launching 16 blocks of 64 threads: error of launchKernel"),
        ("streamSynchronize", 700, "this process can use the device no more, start it again"),
    ],
)
def test_errors_of_cuda_say_what_befell_which_module(cuda, call, number, said):
    cuda.errors[call] = number
    with pytest.raises(ModuleError, match=said) as error:
        Module(image(REAL)).run(X)
    assert "\n" not in str(error.value)


def test_what_was_taken_is_given_back(cuda):
    module = Module(image(REAL))
    module.run(X)
    module.bind()()
    module.kernels_alone()
    assert cuda.host.memory.available()[0] < cuda.host.memory.available()[1]
    del module
    executor._driver.cache_clear()
    free, total = cuda.host.memory.available()
    assert free == total and not cuda.host.streams._graphs and not cuda._modules


def test_a_compiled_network_is_whole_and_of_its_architecture(needs_nvrtc, tmp_path, monkeypatch):
    monkeypatch.setattr(executor, "look", lambda: Found(why_none="there is no NVIDIA driver"))
    net = zoo.get("mlp")
    whole = compile(net, REAL, MemoryHistory())
    executor.EXECUTOR.check_code(whole.image)
    with pytest.raises(ModuleError, match=r"is for sm_80, not sm_90"):
        executor.EXECUTOR.check_code(replace(whole.image, target="cuda -model=h100"))
    whole.save(tmp_path / "mlp.tw")
    with pytest.raises(ModuleError, match=r"mlp.tw was compiled for sm_80, and no CUDA"):
        load_module(tmp_path / "mlp.tw")
    text = {n: c for n, c in whole.image.code.items() if n.endswith(".cubin")}
    for name, code in list(text.items())[:1]:
        for damaged in (code[: len(code) // 2], code[:100], b"", b"\x7fELF" + bytes(60)):
            broken = {**whole.image.code, name: damaged}
            with pytest.raises(ModuleError, match="is damaged"):
                executor.EXECUTOR.check_code(replace(whole.image, code=broken))
