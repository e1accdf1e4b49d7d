"""One measuring run at a time per device, whoever starts it: a flow, a schedule, a command.

Two runs on one device disturb each other's times. So whoever measures holds the device's lock: an
advisory lock (``flock``) on a file in the machine's temporary directory, which all its users can
open. The system frees it when its holder ends, however it ends. What the file says of the holder
is for people. Its name has the device's id, so that a CPU and a GPU of one machine have one each.

Devices whose times are no times (interpreted, emulated, simulated) are not locked. Containers and
services with a temporary directory of their own do not see each other's locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tasks.patience import Tell
from tilework.errors import Passing
from tilework.target.identity import DeviceIdentity

FOLDER = Path(tempfile.gettempdir()) / "tilework-devices"
"""Where the lock files are."""

_LOOK_S = 1.0

_held: ContextVar[frozenset[str]] = ContextVar("held devices", default=frozenset())


class DeviceBusy(Passing):
    """Another run measures on the device."""


@dataclass(frozen=True)
class Holder:
    """Who holds a device.

    Attributes:
        who: what it does, such as ``tune resnet-18``.
        user, pid: of the process.
        since: when it began.
    """

    who: str
    user: str
    pid: int
    since: datetime

    def __str__(self) -> str:
        minutes = max(0, int((datetime.now(UTC) - self.since).total_seconds() // 60))
        time = f"{minutes} min" if minutes else "less than a minute"
        return f"`{self.who}` (process {self.pid} of {self.user}, for {time})"


@contextlib.contextmanager
def hold_device(
    device: DeviceIdentity | None,
    who: str,
    *,
    wait: bool = True,
    tell: Tell = lambda _: None,
) -> Iterator[None]:
    """Hold a device while the block runs; a block within one that holds it holds it, too.

    Args:
        device: None, or one whose times are no times, is not locked.
        who: what the block does, for whoever waits.
        wait: until the device is free, however long that takes.
        tell: gets one line for each holder that is waited for, or if nothing can be locked here.

    Raises:
        DeviceBusy: another run holds it, and ``wait`` is not set.
    """
    if device is None or not device.timed or device.id in _held.get():
        yield
        return
    try:
        file = _open(device)
    except OSError as error:
        tell(f"{FOLDER}: {error.strerror or error}: other runs on {device.name} cannot be told "
             "that this one measures")  # fmt: skip
        yield
        return
    with contextlib.closing(_Descriptor(file)):
        _acquire(file, device, wait, tell)
        _write(file, who)
        token = _held.set(_held.get() | {device.id})
        try:
            yield
        finally:
            _held.reset(token)
            os.ftruncate(file, 0)


def holder_of(device: DeviceIdentity) -> Holder | None:
    """Who holds a device now; None if nobody does, or if it does not say."""
    try:
        file = os.open(_path(device), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with contextlib.closing(_Descriptor(file)):
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(file)
        return None


@dataclass(frozen=True)
class _Descriptor:
    """A file descriptor that can be closed as other things are; that frees its lock."""

    number: int

    def close(self) -> None:
        os.close(self.number)


def _path(device: DeviceIdentity) -> Path:
    return FOLDER / f"{device.id}.lock"


def _open(device: DeviceIdentity) -> int:
    """The device's lock file, open; made where there is none, so that all users can open it."""
    with contextlib.suppress(FileExistsError):
        FOLDER.mkdir()
        FOLDER.chmod(0o1777)
    path, flags = _path(device), os.O_RDWR | os.O_NOFOLLOW
    while True:
        # systems refuse O_CREAT in shared folders for a file that is another user's
        try:
            file = os.open(path, flags)
        except FileNotFoundError:
            try:
                file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
            os.fchmod(file, 0o666)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(f"{path} is not a file")
        return file


def _acquire(file: int, device: DeviceIdentity, wait: bool, tell: Tell) -> None:
    said, looks = "", 0
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _read(file)
        looks += 1
        if holder is None and looks == 1:  # it has just begun, or somebody looks (`holder_of`)
            time.sleep(0.05)
            continue
        busy = f"{device.name} is held by {holder or 'another run'}"
        if not wait:
            raise DeviceBusy(f"{busy}: two runs would disturb each other's measurements")
        # who lets go takes back its name first, which is no other holder
        if (holder or not said) and said != (said := f"{holder and (holder.pid, holder.who)}"):
            tell(f"waiting: {busy}")
        time.sleep(_LOOK_S)


def _write(file: int, who: str) -> None:
    document = {
        "who": who,
        "user": _user(),
        "pid": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(document).encode(), 0)


def _read(file: int) -> Holder | None:
    try:
        document = json.loads(os.pread(file, 4096, 0))
        since = datetime.fromisoformat(document["since"])
        return Holder(str(document["who"]), str(document["user"]), int(document["pid"]), since)
    except (ValueError, KeyError, TypeError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return str(os.getuid())
