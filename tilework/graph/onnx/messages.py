"""Texts of errors, short enough for one line."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_LIST = 200  # characters of the names of nodes with one problem


def first_line(e: BaseException) -> str:
    """The first line of an error's message; its kind where it has none."""
    lines = str(e).strip().splitlines()
    return lines[0] if lines else type(e).__name__


def one_line(e: BaseException) -> str:
    """An error's message with its line breaks taken out."""
    return " ".join(str(e).split())


def summary(problems: Sequence[tuple[str, str, str]]) -> str:
    """All problems in one sentence.

    Args:
        problems: the operator, the node, and the reason or an empty text.
    """
    nodes: dict[str, list[str]] = {}
    for op, where, reason in problems:
        text = f"{op}: {reason}" if reason else op
        nodes.setdefault(text, []).append(f"'{where}'")
    parts = []
    for text, names in nodes.items():
        parts.append(f"{text} (node{'s' if len(names) > 1 else ''} {_listed(names)})")
    return f"unsupported: {'; '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    """As many names as are good to read, at least one, and how many there are besides."""
    shown = names[0][:_LONGEST_LIST]
    count = 1
    while count < len(names) and len(shown) + len(names[count]) < _LONGEST_LIST - 2:
        shown += f", {names[count]}"
        count += 1
    return shown + (f" and {len(names) - count} more" if count < len(names) else "")
