"""What a user is told once in a process."""

from __future__ import annotations

import warnings

_SAID: set[str] = set()


def say(text: str) -> None:
    """Warn with ``text``, unless that was said before."""
    if text not in _SAID:
        _SAID.add(text)
        warnings.warn(f"tilework: {text}", UserWarning, stacklevel=2)
