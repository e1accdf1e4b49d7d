"""What is to be said where a run decides what has to be known before."""

from __future__ import annotations

from tilework.index.symbols import Undecided


def told(e: Undecided) -> str:
    """An undecided comparison as the reason of an error, with what to do about it."""
    return (
        f"it depends on whether {e}, which differs from run to run; give the symbol a number "
        "(--shape SYMBOL=64), or a range in which it does not"
    )
