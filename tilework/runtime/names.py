"""Arrays that a caller gives by name or in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilework.errors import ModuleError


def in_order(
    who: str, names: Sequence[str], typed: Sequence[str], given: Mapping[str, Any] | Sequence[Any]
) -> list[Any]:
    """What was given for each of ``names``.

    Args:
        who: takes the inputs, for the message.
        names, typed: the inputs, and how to write them in the message.
        given: by name, or in order.

    Raises:
        ModuleError: inputs are missing or unknown.
    """
    if isinstance(given, Mapping):
        missing = [n for n in names if n not in given]
        unknown = [str(n) for n in given if n not in names]
    else:
        missing = list(names[len(given) :])
        unknown = [f"number {i + 1}" for i in range(len(names), len(given))]
        given = dict(zip(names, given, strict=False))
    if missing or unknown:
        told = [f"missing {', '.join(missing)}"] if missing else []
        told += [f"unknown {', '.join(unknown)}"] if unknown else []
        raise ModuleError(f"{who} takes the inputs {', '.join(typed)}; {' and '.join(told)}")
    return [given[n] for n in names]
