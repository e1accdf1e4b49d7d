"""Locks in forked children."""

from __future__ import annotations

import os
import threading

import pytest

from tilework.cache import BoundedCache
from tilework.locks import Lock


def test_one_thread_at_a_time_and_again_in_the_same():
    lock, inside, most = Lock(), 0, 0

    def enter():
        nonlocal inside, most
        for _ in range(200):
            with lock, lock:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_lock_that_another_thread_held_is_free_in_a_child():
    lock, cache, held, done = (
        Lock(),
        BoundedCache[int, int](4),
        threading.Event(),
        threading.Event(),
    )

    def hold():
        with lock, cache._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        free = lock.now.acquire(timeout=5)
        os._exit(0 if free and cache.get_or_make(1, lambda: 2) == 2 else 1)
    done.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
