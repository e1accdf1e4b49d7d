"""The header of a network's library: names, shapes and types for whoever writes against it."""

from __future__ import annotations

import re
from pathlib import Path

from tilework.errors import ModuleError
from tilework.kinds.cpu.library.tables import ABI
from tilework.runtime.image import Image, Value

SOURCES = Path(__file__).parent / "sources"


def identifier(name: str) -> str:
    """A network's or file's name as a part of C names: ``resnet-18`` gives ``resnet_18``.

    Raises:
        ModuleError: nothing of it can stand in a C name.
    """
    word = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if not word:
        raise ModuleError(f"'{name}' has no letters or digits for the names of C functions")
    return word


def header_text(name: str, title: str, made_by: str, image: Image) -> str:
    """The header of the library whose functions begin with ``tw_NAME_``."""
    values = [
        *(_row("input ", i, v) for i, v in enumerate(image.inputs)),
        *(_row("output", i, v) for i, v in enumerate(image.outputs)),
    ]
    text = (SOURCES / "net.h").read_text(encoding="utf-8")
    words = {
        "TITLE": _comment(f"{title}: a compiled network"),
        "VALUES": "\n".join(values),
        "MADE_BY": made_by,
        "NAME": name,
        "ABI": str(ABI),
    }
    return re.sub("@([A-Z_]+)@", lambda found: words[found[1]], text)


def _row(word: str, number: int, value: Value) -> str:
    return _comment(f" *   {word} {number}  {value.name}  {value.dtype}{list(value.shape)}")


def _comment(text: str) -> str:
    """Text that ends no comment, whatever names a network's author gave."""
    return text.replace("*/", "* /").replace("\n", " ").replace("\r", " ")
