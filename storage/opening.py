"""From what a user wrote to a filesystem."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as pafs

from storage.errors import remote_may_pass
from storage.uris import ADDED, shown, without_secrets
from tilework.errors import StoreBusy, StoreError


def open_uri(text: str) -> tuple[pafs.FileSystem, str]:
    """The filesystem of a URI, and the path in it.

    Arrow's own filesystems come first, then those that fsspec knows.

    Raises:
        StoreBusy: its server does not answer now.
        StoreError: the scheme is unknown, needs a package that is missing, or cannot be opened.
    """
    try:
        return _open_by_arrow(_quoted(text))
    except (ValueError, OSError, NotImplementedError) as error:
        if "nrecognized filesystem" not in str(error) and "not built with" not in str(error):
            raise _cannot_open(text, str(error)) from None
    except ImportError as error:
        raise _needs(text, error) from None
    try:
        return _open_by_fsspec(text)
    except ImportError as error:
        raise _needs(text, error) from None
    except Exception as error:  # what a third party's filesystem raises is not ours to list
        raise _cannot_open(text, str(error)) from None


def _open_by_arrow(text: str) -> tuple[pafs.FileSystem, str]:
    option = ADDED.get(text.partition("://")[0], "")
    name = option.partition("=")[0]
    opened: tuple[pafs.FileSystem, str]
    if option and name not in text:
        try:
            opened = pafs.FileSystem.from_uri(text + ("&" if "?" in text else "?") + option)
            return opened
        except ValueError as error:
            if name not in str(error):
                raise
    opened = pafs.FileSystem.from_uri(text)
    return opened


def _open_by_fsspec(text: str) -> tuple[pafs.FileSystem, str]:
    import fsspec

    scheme = text.partition("://")[0]
    if scheme not in fsspec.available_protocols():
        raise ValueError(
            f"the scheme {scheme}:// is unknown; give a directory, or a URI of a filesystem that "
            "Arrow or fsspec opens (s3://, gs://, abfss://, file://)"
        )
    filesystem, inner = fsspec.core.url_to_fs(text)
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), str(inner)


def _quoted(text: str) -> str:
    """A local URI with blanks in it is meant as it stands."""
    return text.replace(" ", "%20") if text.startswith("file://") else text


def _needs(text: str, error: ImportError) -> StoreError:
    return _cannot_open(text, f"a package is missing that this scheme needs ({error})")


def _cannot_open(text: str, reason: str) -> StoreError:
    kind = StoreBusy if remote_may_pass(reason) else StoreError
    reason = without_secrets(" ".join(reason.split())[:300], text)
    return kind(f"cannot open the record store {shown(text)!r}: {reason}")


def open_path(text: str) -> tuple[pafs.FileSystem, str]:
    """A local directory."""
    return pafs.LocalFileSystem(), str(Path(text).expanduser().absolute())
