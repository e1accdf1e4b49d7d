"""Whole files on any Arrow filesystem: a reader sees all of a file or none of it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from storage.errors import failure
from storage.names import SUFFIX
from storage.opening import open_path, open_uri
from storage.uris import is_uri, shown
from tilework.whole import sync

Result = TypeVar("Result")

_UNFINISHED = ".tmp"
"""Files that are not whole yet do not end as files of records do: some readers take any."""
_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.ENOENT)


@dataclass(frozen=True)
class Location:
    """A directory on a filesystem.

    Attributes:
        text: what the user wrote, for messages, without credentials.
        filesystem: where it lies.
        path: the directory inside `filesystem`.
        local: whether files go through the operating system.
        uri: what the user wrote. It may hold a password: never show it.
    """

    text: str
    filesystem: pafs.FileSystem = field(repr=False)
    path: str
    local: bool
    uri: str = field(repr=False)

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None
    ) -> Location:
        """Resolves a local path, or a URI such as `s3://bucket/records` or `file:///records`.

        Raises:
            StoreBusy: the server of a URI does not answer now.
            StoreError: a URI of an unknown scheme, of one that needs a package that is missing,
                or one that cannot be opened.
        """
        text = os.fspath(path)
        if filesystem is not None:
            local = isinstance(filesystem, pafs.LocalFileSystem)
            return cls(shown(text), filesystem, text, local, text)
        opened, inner = open_uri(text) if is_uri(text) else open_path(text)
        return cls(shown(text), opened, inner, isinstance(opened, pafs.LocalFileSystem), text)

    def within(self, folder: str) -> Location:
        """A folder of this one. Messages speak of the whole."""
        return replace(self, path=self.join(folder))

    def join(self, name: str) -> str:
        """The path of a file of this directory inside `filesystem`."""
        return f"{self.path.rstrip('/')}/{name}"

    def is_there(self) -> bool:
        """Whether the directory exists.

        Raises:
            StoreError: that cannot be found out.
        """
        with self._as_store_errors("read"):
            (info,) = self.filesystem.get_file_info([self.path])
        return bool(info.type == pafs.FileType.Directory)

    def has(self, name: str) -> bool:
        """Whether the file is there.

        Raises:
            StoreError: that cannot be found out.
        """
        with self._as_store_errors("read"):
            (info,) = self.filesystem.get_file_info([self.join(name)])
        return bool(info.type == pafs.FileType.File)

    def names(self) -> list[str]:
        """The files right in this directory, sorted; names that begin with `.` or `_` are hidden.

        A missing directory has none.

        Raises:
            StoreError: it cannot be listed.
        """
        if self.local:
            return sorted(self._scan())
        selector = pafs.FileSelector(self.path, allow_not_found=True)
        with self._as_store_errors("read"):
            infos = self.filesystem.get_file_info(selector)
        names = (i.base_name for i in infos if i.type == pafs.FileType.File)
        return sorted(name for name in names if not is_hidden(name))

    def read(self, name: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: it is not there.
            StoreError: it cannot be read.
        """
        with self._as_store_errors("read"):
            if self.local:
                return Path(self.join(name)).read_bytes()
            with self.filesystem.open_input_file(self.join(name)) as file:
                return bytes(file.read())

    def create(self, name: str, content: bytes | memoryview, *, durable: bool = True) -> bool:
        """Writes a whole file unless there is one of this name, which is left as it is.

        For names that say what is inside, so that who came first does not matter. Of local
        files nothing is left behind, whenever the writer is killed. Object stores show an object
        when its upload is complete; there a file of this name is written again, equal.

        Args:
            durable: return only when the content has reached the disk.

        Returns:
            Whether this call wrote it.

        Raises:
            StoreError: it cannot be written; nothing visible is left behind.
        """
        if not self.local:
            self._put(name, content)
            return True
        with self._as_store_errors("write to"):
            return self._in_folder(lambda: _create_local(self._folder, name, content, durable))

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Writes a whole file, in place of an older one of this name.

        Raises:
            StoreError: it cannot be written; the older file stays.
        """
        if not self.local:
            self._put(name, content)
            return
        with self._as_store_errors("write to"):
            self._in_folder(lambda: _replace_local(self._folder, name, content, durable))

    def remove(self, name: str) -> None:
        """Removes a file; one that is not there is no error.

        Raises:
            StoreError: it cannot be removed.
        """
        with self._as_store_errors("delete from"):
            try:
                if self.local:
                    os.unlink(self.join(name))
                else:
                    self.filesystem.delete_file(self.join(name))
            except FileNotFoundError:
                pass

    def check_writable(self) -> None:
        """Creates the directory and proves that a file can be written to it and removed.

        Raises:
            StoreError: it cannot; the message names the path, the cause and what to do.
        """
        probe = f".probe-{secrets.token_hex(4)}{_UNFINISHED}"
        self.create(probe, b"x")
        self.remove(probe)

    def error(self, action: str, error: OSError) -> Exception:
        """The error to raise for a failure of the filesystem, see `storage.errors.failure`."""
        return failure(action, self.uri, error)

    @property
    def _folder(self) -> Path:
        return Path(self.path)

    @contextmanager
    def _as_store_errors(self, action: str) -> Iterator[None]:
        """Failures of the filesystem are told as errors of the store; a missing file is itself."""
        try:
            yield
        except FileNotFoundError:
            if action == "write to":
                raise failure(action, self.uri, OSError(errno.ENOENT, self.path)) from None
            raise
        except (OSError, pa.ArrowException) as error:
            raise failure(action, self.uri, error) from error

    def _scan(self) -> list[str]:
        with self._as_store_errors("read"):
            try:
                with os.scandir(self.path) as entries:
                    return [e.name for e in entries if not is_hidden(e.name) and e.is_file()]
            except FileNotFoundError:
                return []

    def _put(self, name: str, content: bytes | memoryview) -> None:
        with self._as_store_errors("write to"):
            if self.filesystem.type_name not in ("s3", "gcs"):  # those have no folders
                self.filesystem.create_dir(self.path, recursive=True)
            with self.filesystem.open_output_stream(self.join(name)) as stream:
                stream.write(content)

    def _in_folder(self, act: Callable[[], Result]) -> Result:
        """Calls ``act``, once more with the folder made if it was missing."""
        try:
            return act()
        except FileNotFoundError:
            os.makedirs(self.path, exist_ok=True)
            return act()


def is_hidden(name: str) -> bool:
    """Whether readers of a dataset pass over this file or folder."""
    return name.startswith((".", "_"))


def _create_local(folder: Path, name: str, content: bytes | memoryview, durable: bool) -> bool:
    """Makes a file that has no name until it is whole; a hidden one where that cannot be."""
    if (folder / name).exists():
        return False
    handle = _open_unnamed(folder)
    if handle is None:
        return _create_by_name(folder, name, content, durable)
    try:
        _fill(handle, content, durable)
        if not _link(handle, folder, name):
            return False
    finally:
        os.close(handle)
    if durable:
        _sync_folder(folder)
    return True


def _replace_local(folder: Path, name: str, content: bytes, durable: bool) -> None:
    temporary = _temporary(name, SUFFIX)  # whole from the start: any reader may meet it
    if _create_local(folder, temporary, content, durable=False) is False:
        raise FileExistsError(errno.EEXIST, str(folder / temporary))
    try:
        if durable:
            sync(folder / temporary)
        os.replace(folder / temporary, folder / name)
    except BaseException:
        (folder / temporary).unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(folder)


def _create_by_name(folder: Path, name: str, content: bytes | memoryview, durable: bool) -> bool:
    temporary = folder / _temporary(name, _UNFINISHED)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            _fill(handle, content, durable)
        finally:
            os.close(handle)
        try:
            os.link(temporary, folder / name)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.replace(temporary, folder / name)  # equal names are equal content
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _sync_folder(folder)
    return True


def _temporary(name: str, ending: str) -> str:
    return f".{name.removesuffix(SUFFIX)}.{secrets.token_hex(4)}{ending}"


def _open_unnamed(folder: Path) -> int | None:
    """A new file without a name in a folder; None where the system has no such files."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None:
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in _NO_UNNAMED:
            return None
        raise


def _link(handle: int, folder: Path, name: str) -> bool:
    """Gives a file its name; False if another has it."""
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # a descriptor for the folder makes Python follow the link in /proc to the file
        os.link(f"/proc/self/fd/{handle}", name, dst_dir_fd=where, follow_symlinks=True)
    except FileExistsError:
        return False
    finally:
        os.close(where)
    return True


def _fill(handle: int, content: bytes | memoryview, durable: bool) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]
    if durable:
        os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    """Makes the name itself durable, where the system can open a directory."""
    with suppress(OSError):
        sync(folder)
