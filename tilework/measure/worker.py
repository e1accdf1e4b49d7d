"""The child side of a worker process: calls functions by name until its parent is gone.

It starts from an interpreter that has imported modules of ours alone (nothing of the parent's main
module; see `tilework.measure.nursery`), and loads what the called functions load. A thread reads
requests, so that the end of the parent is noticed at any time: the pipe closes and the process
ends at once, whatever the main thread does.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from tilework.frozen import frozen
from tilework.measure.error_text import describe_exception


@frozen
class Birth:
    """What a worker has from the process that asks it: the first message of both.

    Attributes:
        path: where it imports from.
        environment: all variables.
        folder: the working directory; None if that is gone.
        cores: which it may use; empty where that cannot be told.
        nice: what to add to its priority.
        preload: modules to import before it is ready.
    """

    path: tuple[str, ...]
    environment: dict[str, str]
    folder: str | None
    cores: frozenset[int]
    nice: int
    preload: tuple[str, ...]

    def live(self) -> None:
        """Be such a process."""
        sys.path[:] = self.path
        os.environ.clear()
        os.environ.update(self.environment)
        with contextlib.suppress(OSError):  # it is gone, or was taken away
            if self.folder is not None:
                os.chdir(self.folder)
        with contextlib.suppress(OSError):  # they were taken away since
            if self.cores:
                os.sched_setaffinity(0, self.cores)
        if self.nice:
            os.nice(self.nice)
        importlib.invalidate_caches()
        for module in self.preload:
            importlib.import_module(module)


def born(nice: int, preload: Iterable[str], environment: Mapping[str, str]) -> Birth:
    """What a worker of this process has from it.

    Args:
        environment: adds what this process's does not set.
    """
    try:
        folder = os.getcwd()
    except OSError:
        folder = None
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    variables = {**environment, **os.environ}
    return Birth(tuple(sys.path), variables, folder, frozenset(cores), nice, tuple(preload))


def main(handle: int) -> None:
    """Serves requests on a socket until its other end closes.

    The first message is its `Birth`. A request is `(function name, arguments)`, its reply
    `(True, value)` or `(False, error text)`. The first reply, to no request, says that the worker
    is ready.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _no_core_dumps()
    connection = Connection(handle)
    try:
        birth: Birth = connection.recv()
    except (EOFError, OSError):
        return
    birth.live()
    requests: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
    connection.send((True, None))
    while True:
        name, args = requests.get()
        connection.send(_answer(name, args))


def resolve(name: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _answer(name: str, args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, resolve(name)(*args)
    except Exception as error:
        return False, describe_exception(name.partition(":")[2], error)


def _receive(connection: Connection, requests: SimpleQueue[tuple[str, tuple[Any, ...]]]) -> None:
    while True:
        try:
            requests.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)


def _no_core_dumps() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
