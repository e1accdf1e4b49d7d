"""Values in C sources."""

from __future__ import annotations

from collections.abc import Iterable


def listed(items: Iterable[object]) -> str:
    """An initialiser; C has no empty one."""
    return "{" + (", ".join(map(str, items)) or "0") + "}"


def text(words: str) -> str:
    """A C string of any text, in ASCII."""
    out = ""
    for byte in words.encode("utf-8", "surrogateescape"):
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        out += chr(byte) if plain else f"\\{byte:03o}"
    return f'"{out}"'
