"""Tells Prefect of a tuning run: a line a round, warnings as warnings, one live page."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from flows.reporting import PipelineFailed, Reporter, reporting
from flows.shell.pages import live_page
from flows.texts import round_line

if TYPE_CHECKING:
    from flows.shell.published import PublishedRun
    from tasks.report import Progress

Outcome = TypeVar("Outcome")

PAGE_S = 5.0  # the page is written anew after so many seconds, and at the end
WARNINGS = 8  # of the last warnings, on the page


class RunReporter(Reporter):
    """Publishes what happens, and passes every event on to another reporter.

    Attributes:
        first: where the run stood when it began; None before that.
    """

    def __init__(self, run: PublishedRun, key: str, title: str, inner: Reporter) -> None:
        """``key`` is the live page's, ``title`` its heading."""
        self.first: Progress | None = None
        self._run = run
        self._key = key
        self._title = title
        self._inner = inner
        self._state = "**starting**"
        self._progress: Progress | None = None
        self._failed = self._measured = 0
        self._warnings: deque[str] = deque(maxlen=WARNINGS)
        self._written = 0.0

    def stage(self, text: str) -> None:
        """Log it, show it as the run's state."""
        self._state = f"**{text}**"
        self._run.info(text)
        self._inner.stage(text)
        self._write()

    def note(self, text: str) -> None:
        """Log it."""
        self._run.info(text)
        self._inner.note(text)

    def warn(self, text: str) -> None:
        """Log it as a warning, and show it."""
        self._warnings.append(text)
        self._run.warning(text)
        self._inner.warn(text)
        self._write()

    def progress(self, progress: Progress) -> None:
        """Log the round's line, and show where the run stands."""
        self._progress = progress
        if self.first is None:
            self.first = progress
        if progress.current is not None:
            self._failed += progress.failed
            self._measured += progress.measured
            self._run.info(round_line(progress))
        self._inner.progress(progress)
        if time.monotonic() - self._written >= PAGE_S:
            self._write()

    def ended(self, text: str) -> None:
        """Show how the run ended."""
        self._state = text
        self._write()

    def of(self, pipeline: Callable[[], Outcome], publish: Callable[[Outcome], None]) -> Outcome:
        """What a pipeline comes to, which is published, be it a failure; of others the page tells.

        Raises:
            Exception: what ``pipeline`` raises.
        """
        try:
            with reporting(self):
                outcome = pipeline()
        except PipelineFailed as error:
            publish(error.outcome)
            raise
        except Exception as error:
            self.ended(f"failed: {error}")
            raise
        publish(outcome)
        return outcome

    def _write(self) -> None:
        self._written = time.monotonic()
        text = live_page(
            self._title,
            self._state,
            self._progress,
            self.first,
            failed=self._failed,
            measured=self._measured,
            warnings=list(self._warnings),
            now=datetime.now(UTC),
        )
        self._run.page(self._key, text, f"{self._title}: {self._state.replace('**', '')}")
