"""What only a GPU can tell: CuPy does what is expected of it, and errors are what they are."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tilework import Target, compile, extract_tasks, zoo
from tilework.errors import DeviceError, LaunchError
from tilework.kinds.cuda.drivers.cupy_driver import CupyDriver
from tilework.kinds.cuda.drivers.memory import Memory
from tilework.kinds.cuda.drivers.stream import GraphStopwatch, Stream
from tilework.kinds.cuda.source.nvrtc import cubin
from tilework.measure import Candidate, Measurer
from tilework.measure.device import device_of
from tilework.record import MemoryHistory, Status
from tilework.space import SearchSpace

pytestmark = pytest.mark.gpu
N = 1 << 20
TEXT = f"""
extern "C" __global__ void __launch_bounds__(256)
twice(TW_IN(float, a, {N}), TW_OUT(float, b, {N})) {{
  const int i = (int)(blockIdx.x * 256 + threadIdx.x);
  TW_ST(b, i, 2.0f * TW_LD(a, i));
}}
"""
_ASTRAY = """
import sys
from tests.kinds.cuda.test_gpu import TEXT, N, opened
driver, stream, function = opened()
from tilework.errors import DeviceError
for turn in range(2):
    try:
        address = driver.memory.allocate(4 * N)
        driver.launch(function, N // 256, 256, 0, (4096, address), stream.number)
        driver.streams.synchronize(stream.number)
    except DeviceError as e:
        print(e.fatal, e)
"""


def opened(text=TEXT):
    """The driver of the device that is here, a stream, and the kernel ``twice``."""
    target = Target("cuda")
    driver = CupyDriver(target.arch)
    code = driver.load({"twice": cubin(text, target.arch, "twice")})
    stream = Stream(driver)
    stream.code = code
    return driver, stream, code.function("twice")


def test_the_driver_copies_launches_and_times():
    driver, stream, function = opened()
    facts = driver.facts()
    assert (
        facts.arch == Target("cuda").arch and facts.sms > 0 and facts.shared_per_block >= 48 << 10
    )
    assert 0 < driver.memory.available()[0] <= driver.memory.available()[1] == facts.memory_bytes
    a, b = Memory(driver, 4 * N), Memory(driver, 4 * N)
    x, y = np.random.default_rng(0).standard_normal(N, np.float32), np.empty(N, np.float32)
    driver.memory.write(a.address, x, stream.number)
    driver.memory.fill(b.address, 0xFF, b.nbytes, stream.number)

    def call():
        driver.launch(function, N // 256, 256, 0, (a.address, b.address), stream.number)

    call()
    driver.memory.read(y, b.address, stream.number)
    np.testing.assert_array_equal(y, 2 * x)
    with GraphStopwatch(stream) as watch:
        one, many = watch.time(call, 1).seconds, watch.time(call, 1000).seconds
    assert 0 < one < 1e-2 and 1e-6 < many / 1000 < 1e-3
    driver.streams.after_others(stream.number)
    driver.memory.copy(a.address, b.address, a.nbytes, stream.number)
    driver.memory.read(y, a.address, stream.number)
    np.testing.assert_array_equal(y, 2 * x)


def test_what_the_device_refuses():
    driver, stream, function = opened()
    with pytest.raises(LaunchError):
        driver.launch(function, 1, 2048, 0, (0, 0), stream.number)
    with pytest.raises(LaunchError):
        driver.allow_shared(function, 1 << 20)
    with pytest.raises(LaunchError):
        driver.load({"twice": b"\x7fELF garbage"})
    with pytest.raises(DeviceError, match="GiB left") as error:
        driver.memory.allocate(1 << 50)
    assert not error.value.fatal
    driver.streams.synchronize(stream.number)  # none the worse


def test_an_illegal_address_is_fatal_to_its_process_alone():
    run = subprocess.run([sys.executable, "-c", _ASTRAY], capture_output=True, text=True)
    assert run.stdout.count("True ") == 2 and "llegal" in run.stdout, run.stdout + run.stderr
    opened()


def test_candidates_of_a_layer_are_right_and_calibration_is_steady():
    target = Target("cuda")
    task = extract_tasks(zoo.get("resnet-18", image_shape=(64, 64, 3)), target)[0][3]
    device = device_of(target)
    readings = [device.calibration_s() for _ in range(5)]
    assert max(readings) < 1.2 * min(readings)
    sketches = SearchSpace.of(task).sketches
    rng = np.random.default_rng(0)
    rows = [(s.id, s.sample(rng, 1)[0]) for s in sketches for _ in range(4)]
    candidates = [Candidate(i, tuple(int(n) for n in row), 0.0, "") for i, row in rows]
    with Measurer(target) as measurer:
        found = measurer.measure(task, candidates)
    assert {m.status for m in found} <= {Status.ok, Status.unfit}, [m.error for m in found]
    assert any(m.status == Status.ok for m in found)


@pytest.mark.parametrize("precision", ["f32", "bf16", "f16", "tf32"])
def test_a_network_on_the_device_equals_the_emulation(precision):
    target = Target("cuda")
    if precision != "f32" and not target.limits.mma:
        pytest.skip(f"{target.arch} has no such tensor cores")
    net = zoo.get("resnet-18", image_shape=(64, 64, 3))
    x = np.random.default_rng(0).standard_normal((1, 64, 64, 3), np.float32)
    words = str(target).replace(" -run=device", "")
    module = compile(net, target, MemoryHistory(), precision=precision)
    emulated = compile(net, f"{words} -run=emulated", MemoryHistory(), precision=precision)
    (got,), (want,) = module.run(x), emulated.run(x)
    # Factors are rounded 36 times, one after the other. A sum in another order rounds to another
    # neighbour, and after a few layers all of these roundings differ: schedules that the emulator
    # runs differ by as much.
    unit = {"f32": 1e-3 / 6, "bf16": 2.0**-8}.get(precision, 2.0**-11)
    assert np.abs(got - want).max() <= 6 * unit * np.abs(want).max()
    assert module.benchmark(repeat=1, min_repeat_ms=50).min > 0
    assert all(t.time_ms > 0 for t in module.profile())


def test_arrays_of_cupy_are_used_where_they_lie():
    cupy = pytest.importorskip("cupy")
    net = zoo.get("mlp")
    module = compile(net, "cuda", MemoryHistory())
    (name,) = module.inputs
    x = np.random.default_rng(0).standard_normal(module.inputs[name].shape, np.float32)
    (want,) = module.run(x)
    given, out = cupy.asarray(x), cupy.empty(want.shape, cupy.float32)
    call = module.bind({name: given}, [out])
    assert call()[0] is out
    np.testing.assert_array_equal(cupy.asnumpy(out), want)
    given *= 2  # on the default stream, which a call waits for
    call()
    np.testing.assert_array_equal(cupy.asnumpy(out), module.run(2 * x)[0])
