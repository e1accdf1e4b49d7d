"""Trying again what may pass by itself: a full disk, a network that is away.

The search keeps what it has measured while it waits, so an error of the disk costs the wait and
nothing else. What a user has to mend is raised at once.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilework.errors import ModuleError, Passing

Result = TypeVar("Result")

Tell = Callable[[str], None]
"""Gets a line for whoever watches."""

DELAYS_S = (1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0)
"""Waits between attempts: a second's fault costs a second, an outage of a quarter of an hour no
more than twice that. Then the run ends, with its finished rounds in the store."""

_TO_MEND = frozenset({
    errno.ENOENT, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR,
    errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENODEV, errno.ENXIO,
})  # fmt: skip


def may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed in a while, with nothing changed by a user.

    A `ModuleError` may if what made the file unwritable may; other errors of ours say it by being
    `Passing`.
    """
    if isinstance(error, Passing):
        return True
    if isinstance(error, ModuleError):
        return error.__cause__ is not None and may_pass(error.__cause__)
    return isinstance(error, OSError) and error.errno not in _TO_MEND


class SearchClock:
    """Seconds that count for a search: those that it waited for something to pass do not."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._waited_s = 0.0

    def __call__(self) -> float:
        """Seconds since some moment, without the waits."""
        return self._clock() - self._waited_s

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass that do not count."""
        began = self._clock()
        self._sleep(seconds)
        self._waited_s += self._clock() - began


def patiently(
    call: Callable[[], Result],
    tell: Tell,
    delays: Sequence[float] = DELAYS_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """The result of ``call``, which is made again after each delay while its error may pass.

    Args:
        call: may be made more than once.
        tell: gets a line for each failed attempt that is followed by another one.
        delays: seconds before the second attempt, the third, and so on.
        sleep: waits so many seconds.

    Raises:
        Exception: what the last attempt raised, or the first that a user has to mend.
    """
    for delay in delays:
        try:
            return call()
        except Exception as error:
            if not may_pass(error):
                raise
            tell(f"{error}: trying again in {delay:g} s")
        sleep(delay)
    return call()
