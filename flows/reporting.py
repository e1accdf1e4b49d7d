"""How a running pipeline tells whoever watches: the terminal, a log, or nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from tasks.report import Progress
from tilework.errors import RunFailed

Outcome = TypeVar("Outcome")


class PipelineFailed(RunFailed, Generic[Outcome]):
    """A run that came to its end and has failed; ``outcome`` is what it came to."""

    def __init__(self, reason: str, outcome: Outcome) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Reporter:
    """Receives what happens in a tuning run; this base class ignores it all."""

    def stage(self, text: str) -> None:
        """A stage begins, for instance ``compiling``."""

    def note(self, text: str) -> None:
        """Something worth one line, for instance that finished rounds were found."""

    def warn(self, text: str) -> None:
        """Something that should not be and that the run lives with, such as a full disk."""
        self.note(f"warning: {text}")

    def progress(self, progress: Progress) -> None:
        """A round is finished and stored (or was found finished)."""

    def close(self) -> None:
        """Nothing more will be reported before the final summary."""


_current: ContextVar[Reporter | None] = ContextVar("reporter", default=None)


def current_reporter() -> Reporter:
    """The reporter of the surrounding `reporting` block; one that ignores all outside of any."""
    return _current.get() or Reporter()


@contextmanager
def reporting(reporter: Reporter) -> Iterator[Reporter]:
    """Make ``reporter`` the one that pipelines of this block report to, and close it after."""
    token = _current.set(reporter)
    try:
        yield reporter
    finally:
        _current.reset(token)
        reporter.close()
