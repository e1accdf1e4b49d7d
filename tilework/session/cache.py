"""Compiled networks in a folder, by key: the cache of compiled forms.

Any number of processes and threads may use one folder at once. An entry is one file, written under
a temporary name and renamed; who reads it while another one replaces or removes it keeps what it
opened. What cannot be used, for whatever reason, is a miss, and what cannot be kept is not kept:
a cache never makes a program fail.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from tilework.errors import ModuleError, TileworkError
from tilework.runtime.manifest import from_json, to_json
from tilework.runtime.module import Module
from tilework.runtime.other import OtherPart
from tilework.runtime.parts import PartedModule
from tilework.runtime.parts_list import ListedPart, PartsList, image_of, listed, other_part
from tilework.session.entry import read_entry, read_other, write_entry, write_other

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

FOLDER_VARIABLE = "TILEWORK_CACHE"
BYTES_VARIABLE = "TILEWORK_CACHE_BYTES"
LIMIT_BYTES = 8 << 30
"""What a folder may hold by default: some 50 forms of a ResNet-50."""

_ENDING = ".entry"
_NOTE = ".note"
_PART = ".part"
_LOCK = ".lock-"
_PATIENCE_S = 600.0
_STALE_S = 3600.0
"""Temporary files this old belong to no writer that is still at work."""
_KEY = re.compile(r"[0-9a-f]{64}")

Read = TypeVar("Read")

log = logging.getLogger(__name__)


def default_folder() -> Path:
    """Where compiled forms are kept unless a folder is given.

    ``$TILEWORK_CACHE``, or else ``tilework/modules`` in ``$XDG_CACHE_HOME`` (``~/.cache``).
    """
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tilework" / "modules"


class ModuleCache:
    """Modules by key, in a folder of bounded size.

    When there is more than the limit, what was asked for longest ago goes. The entry that was
    written last stays, however large it is.

    Args:
        folder: made when something is first kept; by default `default_folder`.
        limit_bytes: what the folder may hold; by default ``$TILEWORK_CACHE_BYTES``, or 8 GiB.

    Raises:
        TileworkError: the limit is no positive whole number.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, limit_bytes: int | None = None
    ) -> None:
        self.folder = default_folder() if folder is None else Path(folder).expanduser()
        self.limit_bytes = _limit() if limit_bytes is None else limit_bytes
        self._warned = False
        if self.limit_bytes <= 0:
            raise TileworkError(
                f"the cache's limit must be positive, not {self.limit_bytes} bytes"
            )

    @staticmethod
    def key(*parts: bytes | str) -> str:
        """A key that says all of ``parts``, in their order: what a compiled form follows from."""
        found = hashlib.sha256()
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            found.update(len(data).to_bytes(8, "little"))
            found.update(data)
        return found.hexdigest()

    def get(self, key: str) -> Module | None:
        """The module that was kept under a key; None if there is none that can be used."""
        image = self._read(key, read_entry)
        return None if image is None else Module(image)

    def put(self, key: str, module: Module) -> None:
        """Keep a module under a key, in place of what was there, or leave that as it is."""
        image = replace(module.image, num_threads=module.num_threads)
        self._write(self._path(key, _ENDING), lambda out: write_entry(out, key, image))

    def parted(self, told: Any, keys: Any) -> PartedModule | None:
        """A network whose parts were kept; None if one cannot be used.

        Args:
            told: its list, as `put_parted` returned it.
            keys: of its parts.
        """
        try:
            found = from_json(PartsList, told, "list")
            runners = [self._part(p, k, found) for p, k in zip(found.parts, keys, strict=True)]
            image = image_of(found, [r for r in runners if r is not None])
        except (TypeError, ValueError) as e:
            log.debug("a cached form in parts is not used: %s", e)
            return None
        return PartedModule(image, found.num_threads)

    def put_parted(self, keys: Sequence[str], module: PartedModule) -> Any:
        """Keep the parts of a network, each under a key; returns its list, a JSON value."""
        for key, part in zip(keys, module.image.parts, strict=True):
            if isinstance(part.runner, Module):
                self.put(key, part.runner)
            else:
                model = part.runner.model
                self._write(self._path(key, _ENDING), partial(write_other, key=key, model=model))
        return to_json(listed(module.image, module.num_threads))

    def _part(self, told: ListedPart, key: str, all_: PartsList) -> Module | OtherPart | None:
        if told.kind == "module":
            return self.get(key)
        kept = self._read(key, read_other)
        return None if kept is None else other_part(told, *kept, all_.num_threads)

    def _read(self, key: str, read: Callable[[Path, str], Read]) -> Read | None:
        """What was kept under a key; None if there is none that can be used."""
        path = self._path(key, _ENDING)
        try:
            if not self._trusted():
                return None
            found = read(path, key)
        except FileNotFoundError:
            return None
        except (OSError, ModuleError, MemoryError) as e:
            log.debug("the cached form %s is not used: %s", path, e)
            return None
        _touch(path)
        return found

    def note(self, key: str) -> Any:
        """The JSON value that was kept under a key; None if there is none."""
        path = self._path(key, _NOTE)
        try:
            if not self._trusted():
                return None
            digest, _, text = path.read_bytes().partition(b"\n")
            if hashlib.sha256(text).hexdigest().encode() != digest:
                return None
            value = json.loads(text)
        except (OSError, ValueError, RecursionError):
            return None
        _touch(path)
        return value

    def put_note(self, key: str, value: Any) -> None:
        """Keep a small JSON value under a key; notes and modules do not share keys."""
        text = json.dumps(value).encode()
        whole = hashlib.sha256(text).hexdigest().encode() + b"\n" + text
        self._write(self._path(key, _NOTE), lambda out: out.write(whole))

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
            os.close(handle)

    def clear(self) -> None:
        """Remove everything that was kept."""
        for path, _, _ in self._kept():
            with contextlib.suppress(OSError):
                path.unlink()

    def _path(self, key: str, ending: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key: use ModuleCache.key")
        return self.folder / f"{key}{ending}"

    def _trusted(self) -> bool:
        """Whether nobody but this user (or root) can have written what is in the folder.

        Entries hold code, which whoever opens them runs.
        """
        if not hasattr(os, "geteuid"):
            return True
        about = os.stat(self.folder)
        good = about.st_uid in (os.geteuid(), 0) and not about.st_mode & stat.S_IWOTH
        if not good and not self._warned:
            self._warned = True
            log.warning("compiled forms are not kept in %s: others may write there", self.folder)
        return good

    def _write(self, path: Path, write: Callable[[IO[bytes]], object]) -> None:
        part = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._trusted():
                return
            handle, part = tempfile.mkstemp(
                prefix=f".{path.name[:16]}.", suffix=_PART, dir=self.folder
            )
            with open(handle, "wb") as out:
                write(out)
            os.replace(part, path)
            part = None
            self._prune(path)
        except OSError as e:
            log.warning("a compiled form could not be kept in %s: %s", self.folder, e)
        finally:
            if part is not None:
                with contextlib.suppress(OSError):
                    os.unlink(part)

    def _prune(self, newest: Path) -> None:
        """Remove what was used longest ago until the rest is within the limit."""
        kept = sorted(self._kept(), key=lambda one: one[1])
        total = sum(size for _, _, size in kept)
        for path, used, size in kept:
            stale = path.suffix == _PART and time.time() - used * 1e-9 > _STALE_S
            if stale or (total > self.limit_bytes and path != newest and path.suffix != _PART):
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size

    def _kept(self) -> list[tuple[Path, int, int]]:
        """Files of the cache: path, when it was used last in nanoseconds, bytes."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for one in entries:
                if one.name.endswith((_ENDING, _NOTE, _PART)):
                    with contextlib.suppress(OSError):
                        about = one.stat(follow_symlinks=False)
                        found.append((Path(one.path), about.st_mtime_ns, about.st_size))
        return found


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


def _touch(path: Path) -> None:
    """Note that a file was used now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _limit() -> int:
    given = os.environ.get(BYTES_VARIABLE)
    if not given:
        return LIMIT_BYTES
    try:
        return int(given)
    except ValueError:
        raise TileworkError(f"{BYTES_VARIABLE} must be a number of bytes, not {given!r}") from None
