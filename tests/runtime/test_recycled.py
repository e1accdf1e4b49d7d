"""Memory of results comes back when nobody has them any more, and not before."""

from __future__ import annotations

import threading

import numpy as np
from onnx import TensorProto, helper

import tilework as tw
from tilework.runtime.arrays import ALIGN, address, aligned_copy, aligned_empty
from tilework.runtime.bound import _RESULTS
from tilework.runtime.recycled import Recycled


def test_memory_is_used_again_once_all_views_are_gone():
    memory = Recycled()
    a = memory.empty((300, 1000), "float32")
    assert a.shape == (300, 1000) and a.dtype == np.float32 and address(a) % ALIGN == 0
    at, part = address(a), a[10:].reshape(-1)[5:]
    part[...] = 3
    del a
    b = memory.empty((300, 1000), "float32")
    b[...] = 4
    assert address(b) != at and (part == 3).all()
    del part
    assert memory.waiting
    c = memory.empty((1000, 299), "float32")  # about as large
    assert address(c) == at and not memory.waiting


def test_small_arrays_are_new_and_few_bytes_wait():
    memory = Recycled(most=1 << 21)
    memory.empty((10, 10), "float32")
    assert not memory.waiting
    for size in (1 << 19, 1 << 20, 1 << 21, 1 << 22):
        memory.empty((size,), "uint8")
        assert memory.waiting <= 1 << 21
    memory.empty((1 << 21,), "uint8")
    assert memory.waiting == 1 << 21
    assert memory.empty((0, 5), "int64").size == 0


def test_threads_share_it():
    memory, wrong = Recycled(), []

    def work(number):
        for n in range(300):
            a = memory.empty((40000 + 4000 * (n % 3),), "int32")
            a[...] = number
            b = memory.empty((50000,), "int32")
            b[...] = -number
            if (a != number).any() or (b != -number).any():
                wrong.append((number, n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_module_has_its_results_there():
    """A run writes where the result of the run before lay, if nobody has that any more."""
    shape = [256, 512]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    module = tw.compile(tw.from_onnx(model), "llvm -mcpu=native -num-cores=1")
    given = aligned_copy(np.ones((256, 512), np.float32))
    (kept,) = module.run({"x": given})
    (other,) = module.run({"x": aligned_copy(given + 1)})
    assert (kept == 2).all() and (other == 4).all()
    at = address(other)
    del other
    assert address(module.run({"x": given})[0]) == at
    apart = aligned_empty((256 * 512 + 4,), "float32")[4:].reshape(256, 512)
    apart[...] = 5  # where kernels cannot take it: its copy lies there, too
    waiting = []
    for _ in range(3):
        assert (module.run({"x": apart})[0] == 10).all()
        waiting.append(_RESULTS.waiting)
    assert waiting[0] == waiting[1] == waiting[2] > 0
