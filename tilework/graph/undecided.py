"""What is to be said where a run decides what has to be known before."""

from __future__ import annotations

import re

from tilework.index.symbols import Undecided

_EQUAL = re.compile(r"([^\W\d]\w*) == ([^,]+), where|([^,]+) == ([^\W\d]\w*), where")


def undecided_reason(e: Undecided) -> str:
    """An undecided comparison as the reason of an error, with what to do about it."""
    text = f"it depends on whether {e}, which differs from run to run; give a symbol a number "
    equal = _EQUAL.match(str(e))
    if equal is None:
        return f"{text}(--shape SYMBOL=64), or a range in which it does not"
    name, other = (equal[1], equal[2]) if equal[1] else (equal[4], equal[3])
    return f"{text}(--shape {name}=64), or say that they are equal (--shape '{name}={other}')"
