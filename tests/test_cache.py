"""The bounded cache: what goes first, and that threads do not harm it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tilework.cache import BoundedCache


def test_what_was_used_longest_ago_goes():
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [k for k, _ in cache.items()] == ["a", "c"]
    assert cache.get("b") is None
    assert "b" not in cache


def test_values_may_be_weighed():
    cache: BoundedCache[int, bytes] = BoundedCache(10, len)
    for key in range(4):
        cache.put(key, bytes(4))
    assert [k for k, _ in cache.items()] == [2, 3]
    cache.put(3, bytes(1))
    cache.put(4, bytes(5))
    assert [k for k, _ in cache.items()] == [2, 3, 4]
    cache.put(5, bytes(99))  # too heavy, and still the one in use
    assert [k for k, _ in cache.items()] == [5]


def test_a_value_is_made_once():
    cache: BoundedCache[str, list[int]] = BoundedCache(2)
    first = cache.get_or_make("a", list)
    assert cache.get_or_make("a", list) is first
    none: BoundedCache[str, None] = BoundedCache(2)
    made: list[int] = []
    for _ in range(2):
        none.get_or_make("a", lambda: made.append(1))
    assert made == [1]


def test_threads_share_it():
    """Twelve threads ask for and drop keys at once; without the lock this raises KeyError."""
    cache: BoundedCache[int, list[int]] = BoundedCache(8)
    together = Barrier(12)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        together.wait()
        for _ in range(4000):
            key = rng.randrange(24)
            assert cache.get_or_make(key, lambda key=key: [key]) == [key]
            other = cache.get(rng.randrange(24))
            assert other is None or len(other) == 1

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))
    assert len(cache) == 8


def test_threads_that_make_a_value_at_once_get_one():
    cache: BoundedCache[str, object] = BoundedCache(8)
    together = Barrier(4)

    def make() -> object:
        together.wait()
        return object()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: cache.get_or_make("a", make), range(4)))
    assert len(set(map(id, found))) == 1
