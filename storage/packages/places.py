"""Packages in any file or at any URI; for this machine's folders see `folders`."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

from storage.files import Location
from storage.packages.folders import ENDING
from storage.packages.manifest import NotPackage
from storage.packages.package import LARGEST, Package, decode
from storage.uris import is_uri, shown
from tilework.errors import StoreBusy, StoreError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_PATIENCE_S = 30.0


def is_package(text: str) -> bool:
    """Whether what a user wrote names a package's file; else it names a store."""
    return text.partition("?")[0].endswith(ENDING)


def name_of(text: str) -> str:
    """The name under which a file is installed: its own, without folder and ending.

    Raises:
        StoreError: that is no name.
    """
    stem = text.partition("?")[0].replace("\\", "/").rpartition("/")[2].removesuffix(ENDING)
    if _NAME.fullmatch(stem) is None:
        raise StoreError(
            f"{shown(text)!r} has no name that a package can be installed under: use letters, "
            f"digits, '.', '_' and '-', up to 80, before {ENDING!r}"
        )
    return stem


def read_package(text: str) -> Package:
    """The package in a file or at a URI.

    Raises:
        StoreError: it is missing, cannot be read, or is no package that makes sense.
    """
    return opened(read_bytes(text), text)


def opened(content: bytes, text: str) -> Package:
    """The package in the content of a file.

    Raises:
        StoreError: there is none that makes sense; ``text`` is named.
    """
    try:
        return decode(content)
    except NotPackage as error:
        raise StoreError(f"{shown(text)!r} is not a usable package: {error}") from None


def read_bytes(text: str) -> bytes:
    """The content of a file or of what is at a URI, if it is not too large for a package.

    Raises:
        StoreBusy: its server does not answer now.
        StoreError: it is missing, too large, or cannot be read.
    """
    if text.startswith(("http://", "https://")):
        return _fetched(text)
    place, name = split(text)
    try:
        (info,) = place.filesystem.get_file_info([place.join(name)])
        if (info.size or 0) > LARGEST:
            raise StoreError(
                f"{shown(text)!r} has {info.size} bytes, and a package has at most {LARGEST}"
            )
        if not info.is_file:
            raise FileNotFoundError
        return place.read(name)
    except FileNotFoundError:
        raise StoreError(f"there is no file {shown(text)!r}") from None
    except OSError as error:
        raise place.error("read", error) from error


def exists(text: str) -> bool:
    """Whether there is such a file.

    Raises:
        StoreError: that cannot be found out.
    """
    place, name = split(text)
    return place.has(name)


def write_bytes(text: str, content: bytes) -> None:
    """Writes a file whole, in place of an older one.

    Raises:
        StoreError: it cannot be written; an older file stays.
    """
    place, name = split(text)
    place.write(name, content)


def split(text: str) -> tuple[Location, str]:
    """The folder of a file, and the file's name.

    Raises:
        StoreError: the URI cannot be opened.
    """
    if is_uri(text):
        path, mark, query = text.partition("?")
        folder, _, name = path.rpartition("/")
        return Location.of(folder + mark + query), name
    path_here = Path(text).expanduser()
    return Location.of(path_here.parent), path_here.name


def _fetched(text: str) -> bytes:
    try:
        with urllib.request.urlopen(text, timeout=_PATIENCE_S) as answer:
            content: bytes = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            raise StoreError(f"there is no file {shown(text)!r}") from None
        kind = StoreBusy if error.code >= 500 else StoreError
        raise kind(f"cannot read {shown(text)!r}: its server says {error.code}") from None
    except (OSError, ValueError) as error:
        raise StoreBusy(f"cannot read {shown(text)!r}: its server does not answer") from error
    if len(content) > LARGEST:
        raise StoreError(
            f"{shown(text)!r} is larger than a package, which has up to {LARGEST} bytes"
        )
    return content
