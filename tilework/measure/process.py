"""The parent side of a worker process: start it, ask it, notice its death, end it."""

from __future__ import annotations

import contextlib
import signal
import socket
import tempfile
import time
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from tilework.measure.error_text import shorten
from tilework.measure.nursery import NURSERY
from tilework.measure.worker import born

START_TIMEOUT_S = 60.0

Job = TypeVar("Job")


class WorkerDied(Exception):
    """The process ended while it was starting or had a job.

    Attributes:
        lost: it was killed from outside, by SIGKILL or SIGTERM: for want of memory, by a person.
    """

    def __init__(self, text: str, *, lost: bool) -> None:
        super().__init__(text)
        self.lost = lost


class Worker(Generic[Job]):
    """One worker process and the job it has.

    A worker is starting until its first reply, then idle or busy with one job. `connection` is
    readable when there is a reply to `receive`, or the process has died.

    Attributes:
        job: what the caller attached to the request in progress; None when starting or idle.
        deadline: when (`time.monotonic`) the caller loses patience with the present state.
        jobs_done: replies so far.
    """

    def __init__(
        self,
        *,
        nice: int = 0,
        preload: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts a process that imports the modules `preload`, at reduced priority if `nice`.

        The process has this one's environment; `environment` adds what that does not set.
        """
        ours, theirs = socket.socketpair()
        modules = tuple(preload)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `kill`
        self.connection = Connection(ours.detach())
        with theirs:
            self._process = NURSERY.fork(modules, theirs.fileno(), self._errors.fileno())
        with contextlib.suppress(OSError):  # it is dead already: see `receive`
            self.connection.send(born(nice, modules, environment or {}))
        self.ready = False
        self.job: Job | None = None
        self.deadline = time.monotonic() + START_TIMEOUT_S
        self.jobs_done = 0

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def idle(self) -> bool:
        """Whether it may be given a job."""
        return self.ready and self.job is None

    def ask(self, job: Job, timeout_s: float, function: str, *args: Any) -> None:
        """Sends a request: call `function` ("module:function") with these arguments.

        A worker that is dead already is noticed by the next `receive`.
        """
        assert self.idle
        self.job = job
        self.deadline = time.monotonic() + timeout_s
        with contextlib.suppress(OSError):
            self.connection.send((function, args))

    def receive(self) -> tuple[bool, Any]:
        """The reply that `connection` has ready: (True, value), or (False, error text).

        The reply that ends the start is `(True, None)`. The worker is idle afterwards.

        Raises:
            WorkerDied: there is no reply and never will be.
        """
        try:
            succeeded, value = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        self.jobs_done += self.ready
        self.ready, self.job = True, None
        return succeeded, value

    def kill(self) -> None:
        """Ends the process now and frees what belongs to it. It may be called again."""
        self._process.kill()
        if not self._process.pid:  # the nursery hangs, or has ended: the next worker has another
            NURSERY.close()
        self.connection.close()
        self._errors.close()

    def _died(self) -> WorkerDied:
        if not self._process.pid:
            return WorkerDied(f"the worker was not started: {NURSERY.close()}", lost=False)
        code = self._process.wait(timeout=5)
        if code is None:
            return WorkerDied("the worker closed its pipe", lost=False)
        self._errors.seek(0)
        said = self._errors.read()[-4096:].decode(errors="replace").strip()
        tail = shorten(said, 240)
        text = f"the worker {_describe_exit(code)}" + (f"; it said: {tail}" if tail else "")
        return WorkerDied(text, lost=code in (-signal.SIGKILL, -signal.SIGTERM))


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


def wait_for(workers: Iterable[Worker[Any]]) -> tuple[list[Worker[Any]], list[Worker[Any]]]:
    """Sleeps until a worker that is not idle has a reply or died, or the first deadline passes.

    Returns:
        The workers to `receive` from, and those past their deadline without a reply.
    """
    pending = {worker.connection: worker for worker in workers if not worker.idle}
    if not pending:
        return [], []
    patience = min(worker.deadline for worker in pending.values()) - time.monotonic()
    replied = [pending[c] for c in wait(list(pending), timeout=max(0.0, patience))]  # type: ignore[index]
    now = time.monotonic()
    late = [w for w in pending.values() if w.deadline <= now and w not in replied]
    return replied, late
