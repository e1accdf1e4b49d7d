"""The side of a nursery that is asked: it imports, and forks what has all that imported.

It only imports: no thread is started, no device touched and nothing computed, so that a fork of it
is as good as a fresh process. It knows of its children what `waitpid` tells, and tells it on.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from tilework.measure.worker import main

IDLE_S = 300.0
_OURS = "tilework."
WORD = struct.Struct("i")
"""What is told of a child: its process id, then its exit code or minus a signal."""


def serve(control: int) -> NoReturn:
    """Fork a worker for each message, until the other end closes or nobody asks any more.

    A message names modules and brings three descriptors: the worker's connection, its standard
    error, and where its process id and later its exit code are to be written. Modules that are not
    ours may do anything when they are imported, which is for the worker to suffer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    ends, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ends_of: dict[int, int] = {}
    asked = socket.socket(fileno=control)
    heard: list[Any] = [asked, ends]
    while True:
        ready, _, _ = select.select(heard, [], [], IDLE_S)
        if ends in ready:
            os.read(ends, 4096)
        _bury(ends_of)
        if asked in ready:
            names, descriptors, _, _ = socket.recv_fds(asked, 65536, 3)
            if len(descriptors) < 3:
                os._exit(0)
            _import(names.decode().split())
            connection, errors, tells = descriptors
            pid = os.fork()
            if not pid:
                for descriptor in (control, ends, woken, tells, *ends_of.values()):
                    os.close(descriptor)
                _live(connection, errors)
            ends_of[pid] = tells
            _tell(tells, pid)
            os.close(connection)
            os.close(errors)
        elif not ready and not ends_of:
            os._exit(0)


def _import(names: list[str]) -> None:
    new = [n for n in names if n.startswith(_OURS) and n not in sys.modules]
    for name in new:
        with suppress(Exception):  # the worker imports it again, and tells
            importlib.import_module(name)
    if new:
        gc.collect()
        gc.freeze()  # what all workers share is written to by no collection


def _bury(ends_of: dict[int, int]) -> None:
    """Tell how children ended that have."""
    while ends_of:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        tells = ends_of.pop(pid)
        _tell(tells, os.waitstatus_to_exitcode(status))
        os.close(tells)


def _tell(descriptor: int, word: int) -> None:
    with suppress(OSError):  # nobody wants to know
        os.write(descriptor, WORD.pack(word))


def _live(connection: int, errors: int) -> NoReturn:
    """Be a worker, from here on."""
    code = 1
    try:
        os.dup2(errors, 2)
        os.close(errors)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        main(connection)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)
