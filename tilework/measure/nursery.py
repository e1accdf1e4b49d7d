"""The side of a nursery that asks: a process that has everything imported, and forks workers.

A worker that starts from a bare interpreter takes 0.4 s of a processor until it can be asked
anything; one that is forked from a process that has the modules, a hundredth of it. So candidates
that kill their process cost little. A nursery is started at the first worker, ends with this
process however that comes, and by itself after some minutes without any.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable

from tilework.measure.error_text import shorten
from tilework.measure.forks import WORD

_BOOT = "import sys; sys.path[:] = {path!r}; from tilework.measure.forks import serve; serve({fd})"
PATIENCE_S = 20.0
"""For a nursery that says nothing: it may be importing, or hang."""


class Child:
    """A process that a nursery was asked for.

    Args:
        told: what the nursery writes to: the process's id, and how it ended.
    """

    def __init__(self, exit_end: int) -> None:
        self._exit_end = exit_end
        self._words: list[int] = []
        self._silent = False

    @property
    def pid(self) -> int:
        """Its process id; 0 if it was not born in time. Waits for the nursery to start."""
        self._listen(1, PATIENCE_S)
        return self._words[0] if self._words else 0

    def wait(self, timeout: float | None = None) -> int | None:
        """How it ended: its exit code, or minus a signal; None if that is not to be known (yet).

        Args:
            timeout: seconds; None waits for the end.
        """
        self._listen(2, timeout)
        return self._words[1] if len(self._words) > 1 else None

    def kill(self) -> None:
        """End it now, and wait until it has ended, but not for a nursery that hangs."""
        if self.pid and self.wait(0) is None and not self._silent:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._words[0], signal.SIGKILL)
            self.wait(PATIENCE_S)
        if self._exit_end >= 0:
            os.close(self._exit_end)
            self._exit_end, self._silent = -1, True

    def _listen(self, words: int, timeout: float | None) -> None:
        """Read so many words, unless the nursery has ended or the time is over."""
        while len(self._words) < words and not self._silent:
            if timeout is not None and not select.select([self._exit_end], [], [], timeout)[0]:
                return
            word = os.read(self._exit_end, WORD.size)
            self._silent = not word
            self._words += WORD.unpack(word) if word else ()


class Nursery:
    """One process to fork from, started when it is first asked, and the socket to ask it on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def fork(self, modules: Iterable[str], connection: int, errors: int) -> Child:
        """A worker (`tilework.measure.worker.main`), which may not be born yet.

        Args:
            modules: to be imported beforehand, once for all workers to come, if they are ours.
            connection: the descriptor that it talks on.
            errors: the descriptor of its standard error.

        Raises:
            OSError: no process can be started here.
        """
        asked = " ".join(["-", *modules]).encode()
        with self._lock:
            hears, tells = os.pipe()
            try:
                with open(tells, "wb"):
                    self._ask(asked, [connection, errors, tells])
            except OSError:
                os.close(hears)
                raise
        return Child(hears)

    def close(self) -> str:
        """End it; its workers go on.

        Returns:
            What it said at last.
        """
        with self._lock:
            return self._end()

    def forget(self) -> None:
        """In a process that was forked from the one that started it: it is not this one's."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.returncode = 0  # nothing to wait for
        self._lock, self._process, self._socket = threading.Lock(), None, None

    def _ask(self, text: bytes, descriptors: list[int]) -> None:
        try:
            self._send(text, descriptors)
        except OSError:  # it has ended: of idleness, or by another's hand
            self._end()
            self._send(text, descriptors)

    def _send(self, text: bytes, descriptors: list[int]) -> None:
        if self._socket is None:
            self._start()
        assert self._socket is not None
        socket.send_fds(self._socket, [text], descriptors)

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_end`
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT.format(path=sys.path, fd=theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
            )
        self._socket = ours

    def _end(self) -> str:
        if self._socket is None or self._process is None:
            return ""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._socket = self._process = None
        with self._errors as errors:
            errors.seek(0)
            said = errors.read()[-4096:]
        return shorten(said.decode(errors="replace").strip(), 240)


NURSERY = Nursery()
atexit.register(NURSERY.close)
os.register_at_fork(after_in_child=NURSERY.forget)
