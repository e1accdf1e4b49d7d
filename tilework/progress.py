"""A line on the terminal for what takes over two seconds: how far it is, how long it takes yet.

It stands on stderr where that is a terminal, is written over, and goes when all is done.
"""

from __future__ import annotations

import sys
import time

from tilework.locks import Lock

QUIET_S = 2.0
"""Nothing is said of what takes less."""
_EACH_S = 0.2
_line = Lock()


class Progress:
    """The progress of something that consists of parts; a context manager.

    Args:
        what: what is done, such as ``compiling resnet-18``.
        parts: their number.
        unit: what to call them.
    """

    def __init__(self, what: str, parts: int, unit: str) -> None:
        self._what, self._parts, self._unit = what, parts, unit
        self._done = 0
        self._began = time.monotonic()
        self._due = self._began + QUIET_S
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._say("")

    def step(self) -> None:
        """One more part is done."""
        self._done += 1
        now = time.monotonic()
        if now < self._due:
            return
        if sys.stderr is None or not sys.stderr.isatty():
            self._due = float("inf")  # asking the system costs a turn of Python's lock
            return
        self._due = now + _EACH_S
        self._shown = True
        self._say(self._text(now - self._began))

    def _text(self, passed_s: float) -> str:
        left_s = passed_s * max(0, self._parts - self._done) / self._done
        return (
            f"{self._what}: {self._done} of {self._parts} {self._unit}, "
            f"about {max(1, round(left_s))} s left"
        )

    def _say(self, text: str) -> None:
        """Write over the line; a terminal that is gone is no reason to stop."""
        with _line:
            try:
                sys.stderr.write(f"\r\033[K{text}")
                sys.stderr.flush()
            except (OSError, ValueError):
                self._due = float("inf")
