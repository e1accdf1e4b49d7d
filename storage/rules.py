"""Which version of the sketch rules a record must be of to mean something today."""

from __future__ import annotations


def present_rules(target: str) -> int | None:
    """Version of the sketch rules for targets such as ``target``; None if there is no such kind.

    Every kind of machine has rules of its own, whatever the rest of the target's text says.
    """
    from tilework import kinds

    kind = target.partition(" ")[0]
    return kinds.rules_version(kind) if kind in kinds.KINDS else None
