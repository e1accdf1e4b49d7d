"""Symbols of object files for Linux: renamed, and hidden from whoever loads what they become.

Kernels are named after what they compute, so that two libraries, or two levels of one, define the
same names with different code. A prefix tells levels apart; hidden symbols, libraries.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tilework.errors import ModuleError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB = 2
_HIDDEN = 2
_UNDEFINED = 0


def hidden_objects(code: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    """Object files that belong together, with their common names prefixed and hidden.

    Names that none of them defines, such as those of the C library, stay what they are.

    Args:
        code: objects as LLVM writes them, by file name.
        prefix: of the new names.

    Raises:
        ModuleError: one is no object file of 64 bits for Linux.
    """
    tables = {name: _symbols(name, data) for name, data in code.items()}
    own = {s for symbols in tables.values() for s, defined in symbols if defined}
    return {name: _renamed(data, own, prefix) for name, data in code.items()}


def _symbols(name: str, code: bytes) -> list[tuple[str, bool]]:
    """Global symbols of an object, and whether it defines them."""
    if code[:7] != b"\x7fELF\x02\x01\x01":
        raise ModuleError(f"{name} is no object file of 64 bits for Linux: it cannot be linked")
    try:
        table, texts = _tables(code)
        return [
            (_text(code, texts, fields[0]), fields[3] != _UNDEFINED)
            for _, fields in _entries(code, table)
            if fields[1] >> 4 and fields[0]
        ]
    except (struct.error, ValueError, IndexError) as e:
        raise ModuleError(f"object file {name} is damaged: {e}") from e


def _renamed(code: bytes, own: set[str], prefix: str) -> bytes:
    table, texts = _tables(code)
    out = bytearray(code)
    offset, size = _place(code, texts)
    strings = bytearray(code[offset : offset + size])
    for at, (name, info, other, *rest) in _entries(code, table):
        text = _text(code, texts, name) if info >> 4 and name else ""
        if text in own:
            _SYMBOL.pack_into(out, at, len(strings), info, other & ~3 | _HIDDEN, *rest)
            strings += f"{prefix}{text}\0".encode()
    out += b"\0" * (-len(out) % 8)
    # the table of texts, to which the new names were added, goes to the end of the file
    struct.pack_into("<QQ", out, texts + 24, len(out), len(strings))
    return bytes(out + strings)


def _tables(code: bytes) -> tuple[int, int]:
    """Where the headers of the symbol table and of its texts stand."""
    head = _HEADER.unpack_from(code, 0)
    sections, count = head[6], head[12]
    for i in range(count):
        at = sections + i * _SECTION.size
        fields = _SECTION.unpack_from(code, at)
        if fields[1] == _SYMTAB:
            return at, sections + fields[6] * _SECTION.size
    raise ValueError("it has no symbol table")


def _place(code: bytes, section: int) -> tuple[int, int]:
    fields = _SECTION.unpack_from(code, section)
    return int(fields[4]), int(fields[5])


def _entries(code: bytes, table: int) -> list[tuple[int, tuple[int, ...]]]:
    """The symbols, each with its place in the file."""
    offset, size = _place(code, table)
    places = range(offset, offset + size, _SYMBOL.size)
    return [(at, _SYMBOL.unpack_from(code, at)) for at in places]


def _text(code: bytes, texts: int, at: int) -> str:
    begin = _place(code, texts)[0] + at
    return code[begin : code.index(b"\0", begin)].decode()
