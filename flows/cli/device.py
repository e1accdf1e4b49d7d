"""Holding the device of a target while a command measures on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilework.target import Target


@contextmanager
def held(target: Target, who: str) -> Iterator[None]:
    """Hold the target's device (`tasks.device_lock`); waiting for it is said on stderr."""
    from flows.cli.output import warn
    from tasks.device_lock import hold_device
    from tilework.target.identity import device_here

    with hold_device(device_here(target), who, tell=warn):
        yield
