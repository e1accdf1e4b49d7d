"""What a failure of a filesystem means for the user: it may pass, or somebody has to mend it."""

from __future__ import annotations

import errno
import re

from storage.uris import shown, without_secrets
from tilework.errors import StoreBusy, StoreError

_MEND = {
    errno.EROFS: "the filesystem is read-only: choose another store",
    errno.EACCES: "permission denied: change the permissions, or choose another store",
    errno.EPERM: "permission denied: change the permissions, or choose another store",
    errno.ENOTDIR: "a part of the path is a file: choose another store",
    errno.EISDIR: "the path is a directory: choose another store",
    errno.EEXIST: "the path is a file, not a directory: choose another store",
}
_PASS = {
    errno.ENOSPC: "the disk is full: free some space, or choose another store",
    errno.EDQUOT: "the disk quota is used up: free some space, or choose another store",
    errno.EIO: "the device failed: check the disk",
    errno.ESTALE: "the network filesystem lost the file",
}
_AWAY = "the filesystem does not answer now: check the network"
_PASS |= dict.fromkeys(
    (
        errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
        errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE,
        errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET,
        errno.ENOTCONN, errno.EREMOTEIO, errno.ENOLCK,
    ),
    _AWAY,
)  # fmt: skip
_REMOTE_PASS = re.compile(
    "NETWORK_CONNECTION|SLOW_DOWN|SlowDown|THROTTLING|Throttl|REQUEST_TIMEOUT|RequestTimeout"
    "|INTERNAL_FAILURE|InternalError|SERVICE_UNAVAILABLE|ServiceUnavailable"
    "|HTTP status (code )?(5|429)|curlCode|timed out|[Cc]onnection (reset|refused|closed|aborted)"
    "|[Cc]ould not (resolve|connect)|[Tt]emporar(y|ily)",
)
"""How the filesystems of Arrow say that an object store, or the way to it, is out of order."""
_REMOTE_MEND = (
    ("ACCESS_DENIED|AccessDenied|HTTP status (code )?403", _MEND[errno.EACCES]),
    ("NO_SUCH_BUCKET|NoSuchBucket", "there is no such bucket: check the name"),
    ("INVALID_ACCESS_KEY|InvalidAccessKey|SIGNATURE_DOES_NOT_MATCH|[Cc]redential|OAuth2",
     "the credentials are refused or missing: check them"),
)  # fmt: skip


def remote_may_pass(said: str) -> bool:
    """Whether what a remote filesystem said is a fault that may pass by itself."""
    return bool(_REMOTE_PASS.search(said))


def failure(action: str, text: str, error: Exception) -> StoreError:
    """The error to raise when ``action`` ("read", "write to") failed in the store ``text``.

    A `StoreBusy` if it may pass by itself, such as a full disk or a lost network; else a plain
    `StoreError`. Its message names the store without credentials, the cause and what to do.
    """
    said = without_secrets(" ".join(str(error).split())[:400], text)
    code = getattr(error, "errno", None) or 0  # what some filesystems of Arrow raise has none
    remote = "" if code else said
    kind, hint = StoreError, _MEND.get(code, "check the path, or choose another store")
    if code in _PASS or remote_may_pass(remote):
        kind, hint = StoreBusy, _PASS.get(code, _AWAY)
    for pattern, meant in _REMOTE_MEND:
        if kind is StoreError and re.search(pattern, remote):
            hint = meant
    return kind(f"cannot {action} the record store {shown(text)!r}: {hint} ({said})")
