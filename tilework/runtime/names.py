"""Arrays that a caller gives by name or in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilework.errors import ModuleError


def in_order(
    names: Sequence[str], given: Mapping[str, Any] | Sequence[Any], wanted: Callable[[], str]
) -> list[Any]:
    """What was given for each of ``names``.

    Args:
        names: of the inputs, in order.
        given: by name, or in order.
        wanted: says what is taken; begins the message.

    Raises:
        ModuleError: inputs are missing or unknown.
    """
    if isinstance(given, dict | Mapping):  # of the former nobody has to ask
        if len(given) == len(names) and all(map(given.__contains__, names)):
            return [given[n] for n in names]
        missing = [n for n in names if n not in given]
        unknown = [str(n) for n in given if n not in names]
    else:
        if len(given) == len(names):
            return list(given)
        missing = list(names[len(given) :])
        unknown = [f"number {i + 1}" for i in range(len(names), len(given))]
        given = dict(zip(names, given, strict=False))
    if missing or unknown:
        wrong = [f"missing {', '.join(missing)}"] if missing else []
        wrong += [f"unknown {', '.join(unknown)}"] if unknown else []
        raise ModuleError(f"{wanted()}; {' and '.join(wrong)}")
    return [given[n] for n in names]


def all_given(inputs: Any, more: Sequence[Any]) -> Mapping[str, Any] | Sequence[Any]:
    """What ``run(inputs, *more)`` was given: arrays by name, or one and the others after it."""
    if not more and isinstance(inputs, dict | Mapping):
        return inputs
    return [] if inputs is None else [inputs, *more]
