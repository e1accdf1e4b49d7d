"""Operating systems: where Tilework runs, and where it says that it does not."""

from __future__ import annotations

import sys

from tilework.errors import TargetError

_REFUSED = {"win32": "Windows", "cygwin": "Windows"}
"""Systems that lack what Tilework is built on (forks, locks of files, ELF), by Python's names."""


def require_system() -> None:
    """Refuse systems on which nothing works; others than Linux that may work are let be.

    Raises:
        TargetError: this is such a system.
    """
    name = _REFUSED.get(sys.platform)
    if name:
        raise TargetError(
            f"Tilework runs on Linux, and this is {name}: use it in WSL 2, or in a container"
        )
