"""Where unpublished items wait: a file of JSON lines for each process, locked while it lives."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from flows.shell.items import Item

CHUNK = 500  # items that are read, sent and marked as sent at a time


def folder_of(url: str) -> Path:
    """Where items for the API at ``url`` wait, below Prefect's own folder.

    The address is hashed, since it may hold a password.
    """
    from prefect.settings import get_current_settings

    digest = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16]
    return get_current_settings().home / "tilework" / "outbox" / digest


class Journal:
    """A file of items that are still to be sent, and how many of its bytes are done with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._done = path.with_suffix(".done")

    @classmethod
    def new(cls, folder: Path) -> Journal:
        """A journal of this process; its file appears with the first item."""
        name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(3).hex()}.jsonl"
        return cls(folder / name)

    @staticmethod
    def paths(folder: Path) -> list[Path]:
        """The journals of all processes, the oldest first."""
        return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []

    @classmethod
    def left_behind(cls, path: Path) -> Journal | None:
        """The journal of a process that has ended, locked for us; None while the process lives."""
        journal = cls(path)
        try:
            journal._open("r+b")
        except OSError:  # it is held, or another has just finished with it
            return None
        if not path.exists():
            journal.close()
            return None
        return journal

    def append(self, items: Iterable[Item]) -> None:
        """Keep ``items``; they survive the end of the process, however it ends.

        Raises:
            OSError: the disk is full or cannot be written.
        """
        lines = "".join(item.line() + "\n" for item in items if not item.fleeting).encode()
        if not lines:
            return
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open("a+b")
        assert self._file is not None
        self._file.seek(0, os.SEEK_END)
        self._file.write(lines)
        self._file.flush()

    def chunks(self) -> Iterator[list[Item]]:
        """What is to be sent, in order; a chunk counts as sent when the next one is asked for."""
        if self._file is None:
            return
        at = self._read_done()
        while True:
            self._file.seek(at)
            items = []
            for _ in range(CHUNK):
                line = self._file.readline()
                if not line.endswith(b"\n"):
                    break
                at += len(line)
                item = Item.of_line(line.decode(errors="replace"))
                items += [] if item is None else [item]
            if not items:
                return
            yield items
            self._done.write_text(str(at))

    def clear(self) -> None:
        """All is sent: begin anew with an empty file."""
        if self._file is not None:
            self._file.truncate(0)
        self._done.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file; one without items is removed."""
        if self._file is None:
            return
        if self._file.seek(0, os.SEEK_END) == 0:
            self.path.unlink(missing_ok=True)
            self._done.unlink(missing_ok=True)
        self._file.close()
        self._file = None

    def _open(self, mode: str) -> None:
        file = self.path.open(mode)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        self._file = file

    def _read_done(self) -> int:
        try:
            return int(self._done.read_text())
        except (OSError, ValueError):
            return 0
