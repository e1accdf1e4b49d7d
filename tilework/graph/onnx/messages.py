"""Texts of errors, short enough for one line."""

from __future__ import annotations


def first_line(e: BaseException) -> str:
    """The first line of an error's message; its kind where it has none."""
    lines = str(e).strip().splitlines()
    return lines[0] if lines else type(e).__name__


def one_line(e: BaseException) -> str:
    """An error's message with its line breaks taken out."""
    return " ".join(str(e).split())
