"""The child side of a worker process: calls functions by name until its parent is gone.

It starts from a bare interpreter (nothing of the parent's main module is imported) and loads only
what the called functions load. A thread reads requests, so that the end of the parent is noticed
at any time: the pipe closes and the process ends at once, whatever the main thread does.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from tilework.measure.error_text import describe_exception


def main(handle: int, nice: int, preload: list[str]) -> None:
    """Serves requests on a socket until its other end closes.

    A request is `(function name, arguments)`, its reply `(True, value)` or `(False, error text)`.
    The first reply, to no request, says that the worker is ready.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _no_core_dumps()
    if nice:
        os.nice(nice)
    for module in preload:
        importlib.import_module(module)
    connection = Connection(handle)
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
