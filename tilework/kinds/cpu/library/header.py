"""The header of a network's library: names, shapes and types for whoever writes against it."""

from __future__ import annotations

import re
from pathlib import Path

from tilework.errors import ModuleError
from tilework.kinds.cpu.library.tables import ABI, MADE_BY, SYMBOLIC_ABI
from tilework.runtime.image import Image, Value

SOURCES = Path(__file__).parent / "sources"
_TAKEN = {
    "value", "level", "description", "tensor", "functions", "symbol", "symbols", "room",
    "symbolic_functions",
}  # fmt: skip
"""Names that with ``tw_`` before them are types of every header."""


def identifier(name: str) -> str:
    """A network's or file's name as a part of C names: ``resnet-18`` gives ``resnet_18``.

    Raises:
        ModuleError: nothing of it can stand in a C name, or the name is taken.
    """
    word = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if not word:
        raise ModuleError(f"'{name}' has no letters or digits for the names of C functions")
    if word in _TAKEN:
        raise ModuleError(
            f"'{name}' cannot be a library's name: tw_{word} is a type of its header"
        )
    return word


def header_text(name: str, title: str, image: Image) -> str:
    """The header of the library whose functions begin with ``tw_NAME_``."""
    values = [
        *(_row("input ", i, v) for i, v in enumerate(image.inputs)),
        *(_row("output", i, v) for i, v in enumerate(image.outputs)),
        *(_comment(f" *   {s.name} is {s.low} to {s.high}") for s in image.symbols),
    ]
    text = (SOURCES / "net.h").read_text(encoding="utf-8")
    more = (SOURCES / "symbolic.h").read_text(encoding="utf-8") if image.symbols else ""
    text = text.replace("@SYMBOLIC@", more)
    words = {
        "TITLE": _comment(f"{title}: a compiled network"),
        "VALUES": "\n".join(values),
        "MADE_BY": MADE_BY,
        "NAME": name,
        "ABI": str(ABI),
        "SYMBOLIC_ABI": str(SYMBOLIC_ABI),
    }
    return re.sub("@([A-Z_]+)@", lambda match: words[match[1]], text)


def _row(word: str, number: int, value: Value) -> str:
    return _comment(f" *   {word} {number}  {value.name}  {value.dtype}{list(value.shape)}")


def _comment(text: str) -> str:
    """Text that ends no comment, whatever names a network's author gave."""
    return text.replace("*/", "* /").replace("\n", " ").replace("\r", " ")
