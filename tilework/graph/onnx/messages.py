"""Texts of errors, short enough for one line."""

from __future__ import annotations

from collections.abc import Sequence

_MAX_LISTED = 20  # nodes of one problem


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
        shown = ", ".join(names[:_MAX_LISTED])
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        parts.append(f"{text} (node{'s' if len(names) > 1 else ''} {shown}{more})")
    return f"unsupported: {'; '.join(parts)}"
