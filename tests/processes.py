"""Processes that tests start: none outlives its test, and Ctrl-C reaches each.

A shell starts background jobs with SIGINT ignored, and their children inherit that: a test run
with ``&`` or ``nohup`` would start processes that cannot be interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any


@contextmanager
def started(
    words: Sequence[str], *, background: bool = False, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process with a group of its own, which is gone when the block ends; output in pipes.

    Args:
        words: the command.
        background: ignore SIGINT, as a job that a shell started in the background.
        options: of `subprocess.Popen`.
    """
    handler = signal.SIG_IGN if background else signal.SIG_DFL
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, handler), **options,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
