"""Files and folders that take their names when they are whole: a reader meets all of one, or none.

They are written beside their place, on the same file system, under hidden names of their own, and
then renamed. A writer that is killed leaves such a name behind; whoever writes to that place once
no such writer can be alive any more clears it away.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_STALE_S = 86400.0
"""What is not whole after so long belongs to no process that is still alive."""
_ENDING = r"(\.\w+\.part)+"


def beside(place: Path) -> Path:
    """A name for what is to take a place; what killed writers left of such is cleared away."""
    name = re.compile(rf"\.+{re.escape(place.name)}{_ENDING}")
    with contextlib.suppress(OSError):
        for left in place.parent.iterdir():
            if name.fullmatch(left.name) and time.time() - left.lstat().st_mtime > _STALE_S:
                remove(left)
    return place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")


@contextmanager
def replacing(place: Path) -> Iterator[IO[bytes]]:
    """A file to be written, which then takes a place; the disk has all of it by then.

    Raises:
        OSError: it cannot be written; what has the name stays.
    """
    part = beside(place)
    try:
        with open(part, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)


def write_whole(place: Path, content: bytes) -> None:
    """Write a file, in place of what has its name.

    Raises:
        OSError: it cannot be written; what has the name stays.
    """
    with replacing(place) as out:
        out.write(content)


@contextmanager
def folder_beside(place: Path) -> Iterator[Path]:
    """A folder for what is to take a place; whatever is still in it at the end goes with it.

    Raises:
        OSError: it cannot be made.
    """
    part = beside(place)
    part.mkdir()
    try:
        yield part
    finally:
        remove(part)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; nothing happens where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Return when the disk has a file, or the names that a folder gives.

    Raises:
        OSError: it cannot be opened, or it does not get there.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
