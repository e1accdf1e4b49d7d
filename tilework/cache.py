"""A small cache that any thread may use: the values of the keys that were asked for last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from tilework.locks import Lock

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key; what was asked for longest ago goes when there is more than allowed.

    The value used last stays, however much it weighs.

    Args:
        limit: what all values may weigh together.
        weight: what one value weighs, such as its bytes; by default 1, so that values are counted.
    """

    def __init__(self, limit: float, weight: Callable[[V], float] | None = None) -> None:
        self._limit = limit
        self._weight = weight
        self._lock = Lock()
        self._values: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._total = 0.0

    def get(self, key: K) -> V | None:
        """The value of a key, which is thereby the one used last; None where there is none."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value in place of what the key had."""
        weight = 1.0 if self._weight is None else self._weight(value)
        with self._lock:
            self._drop(key)
            self._values[key] = value, weight
            self._total += weight
            while self._total > self._limit and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made where there is none.

        Nothing is locked while it is made: threads that ask for one key at once may all make it,
        and all get the value that was ready first.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value = make()
        with self._lock:
            if key in self._values:
                return self._values[key][0]
            self.put(key, value)
            return value

    def items(self) -> list[tuple[K, V]]:
        """What is kept, the value used longest ago first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._values.items()]

    def discard(self, key: K) -> None:
        """Forget a key, if it is there."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._total = 0.0

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._values

    def __len__(self) -> int:
        with self._lock:
            return len(self._values)

    def _drop(self, key: K) -> None:
        entry = self._values.pop(key, None)
        if entry is not None:
            self._total -= entry[1]
