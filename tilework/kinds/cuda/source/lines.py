"""Lines of text, indented by their depth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    """Text that grows line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1

    def add(self, line: str) -> None:
        """One more line."""
        self._lines.append("  " * self._depth + line)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Lines of a block of statements."""
        self._depth += 1
        yield
        self._depth -= 1

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines) + "\n" if self._lines else ""
