"""Bound calls: fixed arrays, nothing allocated, nothing copied."""

from __future__ import annotations

import resource
import threading
import tracemalloc

import numpy as np
import pytest

from tilework import compile as compile_network
from tilework.errors import ModuleError
from tilework.graph import Builder
from tilework.runtime.arrays import aligned_copy, aligned_empty


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bound_call_gives_what_a_run_gives(mlp_module, image, threads):
    expected = mlp_module.run(image)[0]
    call = mlp_module.bind(threads=threads)
    call.inputs["data"][...] = image
    (out,) = call()
    assert out is call.outputs[0]
    assert np.array_equal(out, expected)
    call.inputs["data"][...] = -image
    call()
    assert np.array_equal(out, mlp_module.run(-image)[0])


def test_the_callers_arrays_are_used(mlp_module, image):
    given = aligned_copy(image)
    out = aligned_empty(mlp_module.outputs[0].shape, "float32")
    call = mlp_module.bind({"data": given}, [out])
    assert call.inputs["data"] is given and np.shares_memory(call.outputs[0], out)
    call()
    assert np.array_equal(out, mlp_module.run(image)[0])


def test_bound_calls_of_one_module_do_not_disturb_each_other(mlp_module, image):
    calls = [mlp_module.bind({"data": aligned_copy(image * k)}) for k in (1, 2, 3)]
    expected = [mlp_module.run(image * k)[0] for k in (1, 2, 3)]
    for _ in range(3):
        for call, right in zip(calls, expected, strict=True):
            assert np.array_equal(call()[0], right)


def test_several_threads_may_call(mlp_module, image):
    calls = [mlp_module.bind({"data": aligned_copy(image * k)}, threads=2) for k in (1, 2, 3)]
    expected = [mlp_module.run(image * k)[0] for k in (1, 2, 3)]
    wrong = []

    def work(call, right):
        wrong.extend(1 for _ in range(30) if not np.array_equal(call()[0], right))

    workers = [threading.Thread(target=work, args=p) for p in zip(calls, expected, strict=True)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_outputs_that_share_memory(target):
    b = Builder("several")
    x = b.input("x", (2, 6))
    y = b.op("relu", x)
    z = b.op("reshape", y, shape=(3, 4))
    module = compile_network(b.finish([y, z]), target)
    call = module.bind()
    call.inputs["x"][...] = np.linspace(-1, 1, 12).reshape(2, 6)
    a, c = call()
    assert c.shape == (3, 4) and np.array_equal(a.ravel(), c.ravel()) and a.max() == 1
    arrays = [aligned_empty((2, 6), "float32"), aligned_empty((3, 4), "float32")]
    with pytest.raises(ModuleError, match=r"shares its memory with output .*without outputs"):
        module.bind(outputs=arrays)


def unaligned(array):
    out = np.empty(array.size + 17, np.float32)
    start = 1 if out.ctypes.data % 64 != 60 else 2
    view = out[start : start + array.size].reshape(array.shape)
    view[...] = array
    return view


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda x: {"x": x}, r"has no input x; it has data"),
        (lambda x: {"data": x.astype("float64")}, r"input data: expected float32.*got float64"),
        (lambda x: {"data": x[:, :-1]}, r"input data: expected float32\[2, "),
        (lambda x: {"data": unaligned(x)}, "64-byte boundary"),
        (lambda x: {"data": np.asfortranarray(x)}, "contiguous"),
        (lambda x: {"data": x.tolist()}, "expected a NumPy array, got list"),
    ],
)
def test_arrays_that_cannot_be_bound(mlp_module, image, change, told):
    with pytest.raises(ModuleError, match=told):
        mlp_module.bind(change(aligned_copy(image)))


def test_outputs_that_cannot_be_bound(mlp_module, image):
    shape = mlp_module.outputs[0].shape
    with pytest.raises(ModuleError, match="has 1 outputs, got 0"):
        mlp_module.bind(outputs=[])
    fixed = aligned_empty(shape, "float32")
    fixed.flags.writeable = False
    with pytest.raises(ModuleError, match="read-only"):
        mlp_module.bind(outputs=[fixed])
    given = aligned_copy(image)
    size = int(np.prod(shape))
    inside = given.reshape(-1)[:size].reshape(shape)
    with pytest.raises(ModuleError, match=r"output .* and input data overlap"):
        mlp_module.bind({"data": given}, [inside])
    with pytest.raises(ModuleError, match="at least 1"):
        mlp_module.bind(threads=0)


@pytest.mark.parametrize("threads", [1, 2])
def test_no_allocation_and_no_page_fault_after_the_first_call(mlp_module, threads):
    call = mlp_module.bind(threads=threads)
    for _ in range(3):
        call()
    faults = [faults_of(lambda: [call() for _ in range(100)]) for _ in range(5)]
    assert min(faults) == 0  # of the whole process; other threads may have some of their own
    tracemalloc.start()
    try:
        call()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            call()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 512  # numbers held by this test itself


def faults_of(run):
    """Page faults of the process while ``run`` runs."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    run()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
