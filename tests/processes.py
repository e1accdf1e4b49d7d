"""Processes that tests start: none outlives its test, and Ctrl-C reaches each.

A shell starts background jobs with SIGINT ignored, and their children inherit that: a test run
with ``&`` or ``nohup`` would start processes that cannot be interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
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


def alive(pid: int) -> bool:
    """Whether a process is there and runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def wait_until_dead(pids: Sequence[int], seconds: float = 5.0) -> bool:
    """Whether all of them end in time."""
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)
