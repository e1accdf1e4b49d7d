"""Which files a store holds, without looking again where nothing can have changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.fs as pafs

from storage.files import Location, is_hidden
from storage.names import RoundName, is_compact

_REMOTE_S = 5.0
"""Folders of an object store are listed at most this often, unless a look is forced."""
_TICK_S = 0.05
"""A folder that changes twice within a tick of its filesystem's clock shows one time for both."""
_OLD_S = 2.0
_SHARE = 5
"""While a listing cannot be trusted yet, at most one part in so many of the time goes on it."""
_DEEPEST = 8


Stamp = tuple[int, ...]
"""Changes with a file's content: empty where the name changes with it."""


@dataclass(frozen=True)
class Changes:
    """What a look found: relative names, folders included.

    A file that was written anew is in both.
    """

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


@dataclass
class _Folder:
    """A local folder as it was listed last.

    Attributes:
        changed_ns: its time of change before the listing.
        since_s: when this time of change was first seen, on the monotonic clock.
        listed_s: when it was listed, on the same clock.
        took_s: how long the listing took.
        trusted: nothing can have changed since without another time of change.
    """

    changed_ns: int = -1
    since_s: float = 0.0
    listed_s: float = 0.0
    took_s: float = 0.0
    trusted: bool = False
    files: Mapping[str, Stamp] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@dataclass
class Listing:
    """The visible files below a directory.

    Names (of files or folders) that begin with `.` or `_` are hidden, as in Arrow datasets.

    Attributes:
        files: the files found so far, relative to the directory.
    """

    place: Location
    files: Mapping[str, Stamp] = field(default_factory=dict)
    _folders: dict[str, _Folder] = field(default_factory=dict)
    _looked_s: float = -1e9
    _written: set[str] = field(default_factory=set)

    def look(self, *, force: bool = False) -> Changes:
        """Lists again what may have changed since the last look.

        Raises:
            StoreError: the path is a file or cannot be listed. A missing directory is empty.
        """
        now = self._local(force) if self.place.local else self._remote(force)
        old, self.files = self.files, now
        if now is old:
            return Changes()
        added, removed = now.keys() - old.keys(), old.keys() - now.keys()
        anew = {name for name, stamp in now.items() if stamp and old.get(name, stamp) != stamp}
        return Changes(frozenset(added | anew), frozenset(removed | anew))

    def wrote(self, name: str) -> None:
        """Counts a file that this process wrote as found at the next look."""
        if not self.place.local:
            self._written.add(name)
            return
        folder = self._folders.get(name.rpartition("/")[0])
        if folder is not None:
            folder.changed_ns = -1  # it may show the time of change that it had before

    def _remote(self, force: bool) -> Mapping[str, Stamp]:
        now = time.monotonic()
        if not force and now - self._looked_s < _REMOTE_S:
            new = {name: () for name in self._written if name not in self.files}
            return {**self.files, **new} if new else self.files
        self._looked_s = now
        self._written.clear()
        selector = pafs.FileSelector(self.place.path, allow_not_found=True, recursive=True)
        try:
            infos = self.place.filesystem.get_file_info(selector)
        except (OSError, pa.ArrowException) as error:
            raise self.place.error("read", error) from error
        start = len(self.place.path.rstrip("/")) + 1
        stamps = {}
        for info in infos:
            name = info.path[start:]
            if info.type == pafs.FileType.File and not any(map(is_hidden, name.split("/"))):
                stamp = () if _says_all(name) else (info.mtime_ns or 0, info.size or 0)
                stamps[name] = stamp
        return stamps

    def _local(self, force: bool) -> Mapping[str, Stamp]:
        folders = list(self._below("", force, 0))
        if len(folders) == 1:
            return folders[0].files
        return {name: stamp for folder in folders for name, stamp in folder.files.items()}

    def _below(self, name: str, force: bool, depth: int) -> Iterator[_Folder]:
        """A folder, and those below it."""
        try:
            folder = self._folder(name, force)
        except (FileNotFoundError, NotADirectoryError) as error:
            self._folders.pop(name, None)
            if isinstance(error, NotADirectoryError) and not name:
                raise self.place.error("read", error) from None
            return
        except OSError as error:
            raise self.place.error("read", error) from error
        yield folder
        for inner in folder.folders if depth < _DEEPEST else ():
            yield from self._below(inner, force, depth + 1)

    def _folder(self, name: str, force: bool) -> _Folder:
        path = self.place.join(name) if name else self.place.path
        changed, now = os.stat(path).st_mtime_ns, time.monotonic()
        known = self._folders.setdefault(name, _Folder())
        if changed != known.changed_ns:
            known.changed_ns, known.since_s, known.trusted = changed, now, False
        elif not force and known.trusted:
            return known
        elif not force and now - known.listed_s < _SHARE * known.took_s:
            return known  # listed a moment ago
        files: dict[str, Stamp] = {}
        folders = []
        prefix = f"{name}/" if name else ""
        with os.scandir(path) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                if entry.is_dir():
                    folders.append(prefix + entry.name)
                elif entry.is_file():
                    inner = prefix + entry.name
                    files[inner] = () if known.files.get(inner) == () else _stamp(entry)
        known.files, known.folders = files, tuple(folders)
        settled = time.time() - changed / 1e9 > _OLD_S or now - known.since_s > _TICK_S
        known.trusted, known.listed_s = settled, now
        known.took_s = time.monotonic() - now
        return known


def _stamp(entry: os.DirEntry[str]) -> Stamp:
    if _says_all(entry.name):
        return ()
    try:
        status = entry.stat()
    except FileNotFoundError:
        return ()
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _says_all(name: str) -> bool:
    """Whether equal names of this form mean equal content."""
    return RoundName.parse(name) is not None or is_compact(name)
