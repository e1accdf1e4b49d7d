"""Rewritings that fail: the network stays as it was, which costs speed and nothing else.

What failed is a line in the log of ``tilework.graph``, which the command line shows with
``--verbose``. Tests have it raised.
"""

from __future__ import annotations

import logging

log = logging.getLogger("tilework.graph")

strict = False
"""Whether a failure is raised. Tests set it, since what nobody sees nobody mends."""


def left_alone(what: str, error: Exception) -> None:
    """Note that a rewriting failed and that its result is done without.

    Args:
        what: the rewriting and its network or node, as the beginning of a sentence.

    Raises:
        Exception: ``error``, if failures are to be raised.
    """
    if strict:
        raise error
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    log.info("%s failed and is left out: %s", what, text)
