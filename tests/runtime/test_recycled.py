"""Memory of results comes back when nobody has them any more, and not before."""

from __future__ import annotations

import threading

import numpy as np

from tilework.runtime.arrays import ALIGN, address
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
