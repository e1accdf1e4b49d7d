"""A circuit breaker: after a failure nothing is tried but, at growing intervals, one attempt."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Closed while the other side answers; open from a failure until an attempt succeeds."""

    def __init__(
        self,
        first_s: float = 0.5,
        longest_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wait ``first_s`` before a new attempt, then twice as long, up to ``longest_s``."""
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        self._delay_s = 0.0
        self._next = 0.0

    @property
    def closed(self) -> bool:
        """Whether things are sent as they come."""
        return self._delay_s == 0.0

    @property
    def due_s(self) -> float:
        """Seconds until an attempt is allowed; 0: now."""
        return 0.0 if self.closed else max(0.0, self._next - self._clock())

    def failed(self, least_s: float = 0.0) -> None:
        """The other side did not answer; it is left alone for ``least_s`` at least."""
        self._delay_s = min(self._longest_s, max(self._first_s, 2 * self._delay_s))
        self._delay_s = max(self._delay_s, least_s)
        self._next = self._clock() + self._delay_s

    def succeeded(self) -> None:
        """It answered."""
        self._delay_s = 0.0
