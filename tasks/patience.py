"""Trying again what may pass by itself: a full disk, a network that is away.

The search keeps what it has measured while it waits, so an error of the disk costs the wait and
nothing else. What a user has to mend is raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilework.errors import Passing

Result = TypeVar("Result")

DELAYS_S = (1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0)
"""Waits between attempts: a second's fault costs a second, an outage of a quarter of an hour no
more than twice that. Then the run ends, with its finished rounds in the store."""

_TO_MEND = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError,
            NotADirectoryError)  # fmt: skip


def may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed in a while, with nothing changed by a user."""
    if isinstance(error, Passing):
        return True
    return isinstance(error, OSError) and not isinstance(error, _TO_MEND)


def patiently(
    call: Callable[[], Result],
    tell: Callable[[str], None],
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
