"""Files by key in a folder of bounded size: what caches on disk have in common.

Any number of processes and threads may use one folder at once. An entry is one file, written under
a temporary name and renamed; who reads it while another one replaces or removes it keeps what it
opened. What cannot be used, for whatever reason, is a miss, and what cannot be kept is not kept:
a cache never makes a program fail.

Entries hold code, or decide which code runs. So a folder counts only where nobody else can have
written: it belongs to this user or root, and neither its group nor others may write. A folder for
all users of a machine is read beside it (`SHARED_VARIABLE`) where it belongs to root, or to the
administrator that `OWNER_VARIABLE` names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from tilework.errors import TileworkError

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

FOLDER_VARIABLE = "TILEWORK_CACHE"
BYTES_VARIABLE = "TILEWORK_CACHE_BYTES"
SHARED_VARIABLE = "TILEWORK_CACHE_SHARED"
OWNER_VARIABLE = "TILEWORK_CACHE_OWNER"
OFF = "off"
"""As the folder: nothing is kept."""
LIMIT_BYTES = 8 << 30
"""What a folder may hold by default: some 50 forms of a ResNet-50."""

NOTE = ".note"
PART = ".part"
_LOCK = ".lock-"
_PATIENCE_S = 600.0
_STALE_S = 3600.0
"""Temporary files this old belong to no writer that is still at work."""
_KEY = re.compile(r"[0-9a-f]{64}")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

Read = TypeVar("Read")

log = logging.getLogger(__name__)


class Usage(NamedTuple):
    """What a folder holds."""

    files: int
    nbytes: int


def key_of(*parts: bytes | str) -> str:
    """A key that says all of ``parts``, in their order: what an entry follows from."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def keeps() -> bool:
    """Whether anything is kept where nobody names a folder."""
    return os.environ.get(FOLDER_VARIABLE) != OFF


def default_folder(name: str = "") -> Path:
    """Where something is kept unless a folder is given.

    ``$TILEWORK_CACHE``, or else ``tilework/modules`` in ``$XDG_CACHE_HOME`` (``~/.cache``). What
    has a ``name`` lies within the former, or beside the latter.
    """
    given = os.environ.get(FOLDER_VARIABLE)
    if given and given != OFF:
        return Path(given).expanduser() / name
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tilework" / (name or "modules")


def shared_folder(name: str = "") -> Path | None:
    """The same of all users of this machine, laid out as ``$TILEWORK_CACHE`` is."""
    given = os.environ.get(SHARED_VARIABLE)
    return Path(given).expanduser() / name if given else None


def allowed_bytes() -> int:
    """``$TILEWORK_CACHE_BYTES``, or 8 GiB.

    Raises:
        TileworkError: it is no positive whole number.
    """
    given = os.environ.get(BYTES_VARIABLE) or str(LIMIT_BYTES)
    limit = int(given) if given.isascii() and given.isdecimal() else 0
    if limit <= 0:
        raise TileworkError(
            f"{BYTES_VARIABLE} must be a number of bytes, a positive one, not {given!r}"
        )
    return limit


class KeptFiles:
    """Entries by key and kind, in a folder of bounded size.

    When there is more than the limit, what was asked for longest ago goes. The entry that was
    written last stays, however large it is.

    Args:
        folder: made when something is first kept.
        limit: bytes that it may hold.
        what: that is kept, as messages name it: ``compiled forms``.
        kinds: endings of the files that are entries.
        shared: another folder to read from.

    Raises:
        TileworkError: the limit is not positive.
    """

    def __init__(
        self, folder: Path, limit: int, what: str, kinds: tuple[str, ...],
        shared: Path | None = None,
    ) -> None:  # fmt: skip
        if limit <= 0:
            raise TileworkError(f"the cache's limit must be positive, not {limit} bytes")
        self.folder, self.limit, self.shared = folder, limit, shared
        self._what, self._kinds = what, (*kinds, NOTE)
        self._warned: set[Path] = set()

    def read(self, key: str, kind: str, read: Callable[[Path], Read]) -> Read | None:
        """What ``read`` makes of an entry's file; None if there is none that can be used.

        Args:
            read: may raise `OSError`, `TileworkError`, `MemoryError`, `ValueError`.
        """
        for folder in (self.folder, self.shared):
            if folder is None:
                continue
            path = self._path(folder, key, kind)
            try:
                if not self._trusted(folder):
                    continue
                content = read(path)
            except FileNotFoundError:
                continue
            except (OSError, TileworkError, MemoryError, ValueError, RecursionError) as e:
                log.debug("%s is not used: %s", path, e)
                continue
            with contextlib.suppress(OSError):
                os.utime(path)  # it was used now
            return content
        return None

    def write(
        self, key: str, kind: str, write: Callable[[IO[bytes]], object], *, prune: bool = True
    ) -> None:
        """Write an entry in place of what was there, or leave that as it is.

        Args:
            prune: whether to look at the folder's size; else whoever writes many does so.
        """
        part = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._trusted(self.folder):
                return
            path = self._path(self.folder, key, kind)
            handle, part = tempfile.mkstemp(
                prefix=f".{path.name[:16]}.", suffix=PART, dir=self.folder
            )
            with open(handle, "wb") as out:
                os.fchmod(handle, os.stat(self.folder).st_mode & 0o666)
                write(out)
            os.replace(part, path)
            part = None
            if prune:
                self.prune(path)
        except (OSError, MemoryError) as e:
            self._warn(self.folder, f"{self._what} could not be kept in {self.folder}: {e}")
        finally:
            if part is not None:
                with contextlib.suppress(OSError):
                    os.unlink(part)

    def note(self, key: str) -> Any:
        """The JSON value that was kept under a key; None if there is none."""

        def read(path: Path) -> Any:
            return json.loads(without_digest(path.read_bytes(), key))

        return self.read(key, NOTE, read)

    def put_note(self, key: str, value: Any, *, prune: bool = True) -> None:
        """Keep a small JSON value under a key; notes and other entries do not share keys."""
        text = with_digest(json.dumps(value).encode(), key)
        self.write(key, NOTE, lambda out: out.write(text), prune=prune)

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[bool]:
        """While one process makes what belongs under a key, others that want to make it wait.

        The system frees the lock when its holder ends, however it ends; who waited for very long
        goes on without it. Other keys rarely wait: there are sixteen locks.

        Yields:
            Whether this one waited, so that it may be there now.
        """
        path = self.folder / f"{_LOCK}{key[:1]}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            yield False
            return
        try:
            yield _waited(handle)
        finally:
            if fcntl is not None:
                with contextlib.suppress(OSError):  # a child that was forked has it, too
                    fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def clear(self) -> Usage:
        """Remove everything that was kept; returns what it was."""
        gone = Usage(0, 0)
        for path, _, size in self._entries():
            with contextlib.suppress(OSError):
                path.unlink()
                gone = Usage(gone.files + 1, gone.nbytes + size)
        return gone

    def usage(self) -> Usage:
        """What there is."""
        sizes = [size for path, _, size in self._entries() if path.suffix != PART]
        return Usage(len(sizes), sum(sizes))

    def refused(self, folder: Path | None = None) -> str:
        """Why a folder, by default the own one, is not used; empty if it is, or is not there."""
        folder = folder or self.folder
        try:
            about = os.stat(folder)
        except OSError:
            return ""
        if not hasattr(os, "geteuid"):
            return ""
        owners = {0, os.geteuid()} if folder == self.folder else {0, _administrator()}
        if about.st_uid not in owners:
            return "it belongs to another user"
        return "others may write there" if about.st_mode & _OTHERS_WRITE else ""

    def prune(self, newest: Path | None = None) -> None:
        """Remove what was used longest ago until the rest is within the limit."""
        kept = sorted(self._entries(), key=lambda one: one[1])
        total = sum(size for _, _, size in kept)
        for path, used, size in kept:
            stale = path.suffix == PART and time.time() - used * 1e-9 > _STALE_S
            if stale or (total > self.limit and path != newest and path.suffix != PART):
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size

    def _path(self, folder: Path, key: str, kind: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key: use `key`")
        return folder / f"{key}{kind}"

    def _trusted(self, folder: Path) -> bool:
        """Whether nobody but its owner can have written what is in a folder."""
        why = self.refused(folder)
        if why:
            self._warn(folder, f"{self._what} are not kept in {folder}: {why}")
        return not why

    def _warn(self, folder: Path, message: str) -> None:
        if folder not in self._warned:
            self._warned.add(folder)
            log.warning("%s", message)

    def _entries(self) -> list[tuple[Path, int, int]]:
        """Files of the cache: path, when it was used last in nanoseconds, bytes."""
        files = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for one in entries:
                if one.name.endswith((*self._kinds, PART)):
                    with contextlib.suppress(OSError):
                        about = one.stat(follow_symlinks=False)
                        files.append((Path(one.path), about.st_mtime_ns, about.st_size))
        return files


def with_digest(data: bytes, key: str) -> bytes:
    """Data behind a line with the SHA-256 of its key and itself."""
    return _digest(data, key) + b"\n" + data


def without_digest(data: bytes, key: str) -> bytes:
    """The data of `with_digest`.

    Raises:
        ValueError: it is not whole, or has another key.
    """
    digest, _, rest = data.partition(b"\n")
    if _digest(rest, key) != digest:
        raise ValueError("it has a wrong checksum")
    return rest


def _digest(data: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + data).hexdigest().encode()


def folder_state(path: str) -> str:
    """A digest of the names, sizes and times of all files in a folder; or of one file.

    What is hidden does not count.
    """
    digest = hashlib.sha256()
    for line in sorted(_files(path)):
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _administrator() -> int:
    """The user that `OWNER_VARIABLE` names; root if there is none."""
    name = os.environ.get(OWNER_VARIABLE)
    if not name:
        return 0
    import pwd

    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except KeyError:
        return 0


def _waited(handle: int) -> bool:
    """Take a lock; returns whether another process had it at first."""
    until = time.monotonic() + _PATIENCE_S
    waited = False
    while fcntl is not None and time.monotonic() < until:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            waited = True
            time.sleep(0.02)
        except OSError:  # a filesystem without locks
            break
    return waited


def _files(path: str) -> Iterator[str]:
    try:
        about = os.stat(path)
        if not os.path.isdir(path):
            yield f"{about.st_size} {about.st_mtime_ns}"
            return
        with os.scandir(path) as entries:
            for one in entries:
                if one.name.startswith("."):
                    continue
                if one.is_dir():
                    yield from (f"{one.name}/{line}" for line in _files(one.path))
                else:
                    about = one.stat()
                    yield f"{one.name} {about.st_size} {about.st_mtime_ns}\n"
    except OSError:
        return
