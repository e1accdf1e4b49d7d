"""Errors that a user can act on: each message names what is wrong, where, and what to do."""

from __future__ import annotations


class TileworkError(Exception):
    """Base of every error that Tilework raises for bad input or an impossible request."""


class TargetError(TileworkError):
    """A target string that does not name a machine Tilework can generate code for."""


class NetworkError(TileworkError):
    """A network that is unknown, unreadable, or uses something unsupported."""


class ScheduleError(TileworkError):
    """A schedule (sketch and decision row) that does not belong to its task."""


class UnknownExtent(TileworkError):
    """An extent that a run decides, where it has to be known when a network is compiled."""


class Passing(TileworkError):
    """What may pass by itself: a full disk, a network that is away. Worth trying again.

    A base beside another one, so that a caller can ask for either: `StoreBusy` is a `StoreError`.
    """


class StoreError(TileworkError):
    """A record store that cannot be read or written."""


class StoreBusy(StoreError, Passing):
    """A record store that cannot be read or written now, and may be in a while."""


class RunFailed(TileworkError):
    """A run that did all its work, and whose outcome must not be used; the message says why."""


class ModuleError(TileworkError):
    """A compiled module that cannot be loaded or run here."""


class ShapeError(ModuleError):
    """Shapes that a module was not compiled for; one that was would run."""


class DeviceError(TileworkError):
    """What a device, or its driver, says went wrong.

    Attributes:
        fatal: this process can use the device no more; another one may.
    """

    def __init__(self, text: str, *, fatal: bool = False) -> None:
        super().__init__(text)
        self.fatal = fatal


class LaunchError(DeviceError):
    """Code that the device refuses to load or to launch."""


class DeviceLost(DeviceError):
    """The device is not there, or not to be had, whatever was to run on it."""

    def __init__(self, text: str) -> None:
        super().__init__(text, fatal=True)
