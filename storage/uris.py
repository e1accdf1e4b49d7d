"""From what a user wrote to a filesystem, without repeating a password to anyone."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pyarrow.fs as pafs

from tilework.errors import StoreError

_AT_ONCE = "allow_delayed_open=true"
_STRUCK = "***"
_SECRET_KEY = re.compile("key|secret|token|sig|sas|password")


def is_uri(text: str) -> bool:
    """Whether a text names a filesystem, such as `s3://bucket/records`; else it is a path."""
    return "://" in text


def shown(text: str) -> str:
    """A path or URI as messages may show it: without user, password and query."""
    if not is_uri(text):
        return text
    scheme, _, rest = text.partition("://")
    rest = rest.partition("?")[0]
    return f"{scheme}://{rest if _is_azure(text) else rest.rpartition('@')[2]}"


def has_credentials(text: str) -> bool:
    """Whether a URI holds a user, a password, or a key in its query."""
    return bool(_user(text)) or bool(_secret_values(text))


def without_secrets(message: str, text: str) -> str:
    """A message about the URI `text`, with whatever is secret in it struck out."""
    message = message.replace(f"?{_AT_ONCE}", "").replace(f"&{_AT_ONCE}", "")
    message = message.replace(text, shown(text))
    for secret in _secrets(text):
        message = message.replace(secret, _STRUCK)
    return message


def _secrets(text: str) -> list[str]:
    """What must not be repeated, as it is written and as it is meant, the longest first."""
    user = _user(text)
    query = text.partition("?")[2] if is_uri(text) else ""
    found = [user, *user.split(":", 1), query, *_secret_values(text)]
    both = {form for part in found for form in (part, unquote(part)) if len(form) > 2}
    return sorted(both, key=len, reverse=True)


def _user(text: str) -> str:
    """User and password of a URI; a secret may hold a slash that was not quoted."""
    if not is_uri(text) or _is_azure(text):
        return ""
    return text.partition("://")[2].partition("?")[0].rpartition("@")[0]


def _secret_values(text: str) -> list[str]:
    pairs = [pair.partition("=") for pair in text.partition("?")[2].split("&")]
    return [value for key, _, value in pairs if is_uri(text) and _SECRET_KEY.search(key.lower())]


def _is_azure(text: str) -> bool:
    """There `container@account` names a place, and no user."""
    return text.startswith(("abfs://", "abfss://"))


def open_uri(text: str) -> tuple[pafs.FileSystem, str]:
    """The filesystem of a URI, and the path in it.

    Arrow's own filesystems come first, then those that fsspec knows.

    Raises:
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
    if text.startswith("s3://"):  # a small file is one request, instead of three
        try:
            return pafs.FileSystem.from_uri(text + ("&" if "?" in text else "?") + _AT_ONCE)
        except ValueError as error:
            if "allow_delayed_open" not in str(error):
                raise
    return pafs.FileSystem.from_uri(text)


def _open_by_fsspec(text: str) -> tuple[pafs.FileSystem, str]:
    import fsspec

    scheme = text.partition("://")[0]
    if scheme not in fsspec.available_protocols():
        raise ValueError(
            f"the scheme {scheme}:// is unknown; give a directory, or a URI of a filesystem that "
            "Arrow or fsspec opens (s3://, gs://, abfss://, file://)"
        )
    found, inner = fsspec.core.url_to_fs(text)
    return pafs.PyFileSystem(pafs.FSSpecHandler(found)), str(inner)


def _quoted(text: str) -> str:
    """A local URI with blanks in it is meant as it stands."""
    return text.replace(" ", "%20") if text.startswith("file://") else text


def _needs(text: str, error: ImportError) -> StoreError:
    return _cannot_open(text, f"a package is missing that this scheme needs ({error})")


def _cannot_open(text: str, reason: str) -> StoreError:
    reason = without_secrets(" ".join(reason.split())[:300], text)
    return StoreError(f"cannot open the record store {shown(text)!r}: {reason}")


def open_path(text: str) -> tuple[pafs.FileSystem, str]:
    """A local directory."""
    return pafs.LocalFileSystem(), str(Path(text).expanduser().absolute())
