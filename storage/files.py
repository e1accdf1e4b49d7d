"""Whole files on any Arrow filesystem: a reader sees all of a file or none of it."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

from tilework.errors import StoreError

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space, or choose another store",
    errno.EDQUOT: "the disk quota is used up: free some space, or choose another store",
    errno.EROFS: "the filesystem is read-only: choose another store",
    errno.EACCES: "permission denied: change the permissions, or choose another store",
    errno.EPERM: "permission denied: change the permissions, or choose another store",
    errno.ENOTDIR: "a part of the path is a file: choose another store",
    errno.EEXIST: "the path is a file, not a directory: choose another store",
}
_STALE_TEMP_S = 3600.0


@dataclass(frozen=True)
class Location:
    """A directory on a filesystem.

    Attributes:
        text: what the user wrote, for messages.
        filesystem: where it lies.
        path: the directory inside `filesystem`.
        local: whether files go through the operating system (temporary name, fsync, rename).
    """

    text: str
    filesystem: pafs.FileSystem
    path: str
    local: bool

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None
    ) -> Location:
        """Resolves a local path, or a URI such as `s3://bucket/records` or `file:///records`.

        Raises:
            StoreError: a URI of a scheme that Arrow does not know, or that it cannot open.
        """
        text = os.fspath(path)
        if filesystem is not None:
            return cls(text, filesystem, text, isinstance(filesystem, pafs.LocalFileSystem))
        if "://" not in text:
            return cls(text, pafs.LocalFileSystem(), str(Path(text).expanduser().absolute()), True)
        try:
            found, inner = pafs.FileSystem.from_uri(text)
        except (ValueError, OSError, NotImplementedError) as error:
            raise StoreError(
                f"cannot open the record store {text!r}: {error}. "
                "Give a directory, or a URI of a filesystem that Arrow opens (s3://, file://)"
            ) from error
        return cls(text, found, inner, isinstance(found, pafs.LocalFileSystem))

    def list(self) -> dict[str, tuple[int, int]]:
        """The visible files below the directory: relative name -> (bytes, time of change in ns).

        Names (of files or folders) that begin with `.` or `_` are hidden, as in Arrow datasets.

        Raises:
            StoreError: the path is a file or cannot be listed. A missing directory is empty.
        """
        selector = pafs.FileSelector(self.path, allow_not_found=True, recursive=True)
        try:
            infos = self.filesystem.get_file_info(selector)
        except OSError as error:
            raise self._error("read", error) from error
        files = {}
        for info in infos:
            name = info.path[len(self.path.rstrip("/")) + 1 :]
            hidden = any(part.startswith((".", "_")) for part in name.split("/"))
            if info.type == pafs.FileType.File and not hidden:
                files[name] = (info.size or 0, info.mtime_ns or 0)
        return files

    def join(self, name: str) -> str:
        """The path of a file of this directory inside `filesystem`."""
        return f"{self.path.rstrip('/')}/{name}"

    def exists(self, name: str) -> bool:
        """Whether the file is there."""
        try:
            info = self.filesystem.get_file_info(self.join(name))
        except OSError as error:
            raise self._error("read", error) from error
        return bool(info.type == pafs.FileType.File)

    def write(self, name: str, content: bytes) -> None:
        """Writes one whole file, replacing an older one of this name.

        Local files are written under a hidden temporary name, synced and renamed. Object stores
        show an object only when its upload is complete.

        Raises:
            StoreError: it cannot be written; nothing visible is left behind.
        """
        try:
            self.filesystem.create_dir(self.path, recursive=True)
            if self.local:
                _write_local(Path(self.path), name, content)
            else:
                with self.filesystem.open_output_stream(self.join(name)) as stream:
                    stream.write(content)
        except OSError as error:
            raise self._error("write to", error) from error

    def check_writable(self) -> None:
        """Creates the directory and proves that a file can be written to it.

        Raises:
            StoreError: it cannot; the message names the path, the cause and what to do.
        """
        probe = f".probe-{os.getpid()}"
        self.write(probe, b"x")
        try:
            self.filesystem.delete_file(self.join(probe))
        except OSError as error:
            raise self._error("delete from", error) from error
        if self.local:
            _remove_stale(Path(self.path))

    def _error(self, action: str, error: OSError) -> StoreError:
        hint = _HINTS.get(error.errno or 0, "check the path, or choose another store")
        return StoreError(f"cannot {action} the record store {self.text!r}: {hint} ({error})")


def _write_local(folder: Path, name: str, content: bytes) -> None:
    temporary = folder / f".{name}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable, where the system can open a directory."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _remove_stale(folder: Path) -> None:
    """Removes temporary files that a killed writer left behind long ago."""
    for leftover in folder.glob(".*.tmp"):
        try:
            if time.time() - leftover.stat().st_mtime > _STALE_TEMP_S:
                leftover.unlink()
        except OSError:
            continue
