"""Sections of a cubin: an ELF file of NVIDIA's, read with care, since it may come from a file."""

from __future__ import annotations

import struct

from tilework.frozen import frozen

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_MACHINE = 190  # EM_CUDA
_NOBITS = 8
_WIDE_FLAGS = 8
"""From this version of the ABI on the flags' second byte is the architecture, before the first."""


class CubinError(ValueError):
    """Bytes are no cubin, or a damaged one."""


@frozen
class Section:
    """A section of the file.

    Attributes:
        name: such as ``.text.KERNEL``.
        size: its bytes in memory; more than its data has for what is reserved only.
        data: its bytes in the file.
        link: number of the section that it belongs to.
    """

    name: str
    size: int
    data: bytes
    link: int


@frozen
class Cubin:
    """What is in a cubin.

    Attributes:
        arch: number of the architecture, such as 80.
        sections: in the file's order.
    """

    arch: int
    sections: tuple[Section, ...]


def read_cubin(code: bytes) -> Cubin:
    """The sections of a cubin.

    Raises:
        CubinError: the bytes are none, or make no sense.
    """
    try:
        return _read(code)
    except struct.error as e:
        raise CubinError(f"the cubin is damaged ({e})") from e


def padded(code: bytes) -> bytes:
    """A cubin whose last byte, a zero, was taken for the end of a text and cut off, as it was.

    CuPy does that to what NVRTC gives it.
    """
    head = _HEADER.unpack_from(code)
    programs, sections = head[10], head[11]
    size, count, entry, entries = head[14], head[15], head[16], head[17]
    end = max(programs + size * count, sections + entry * entries)
    return code + b"\0" if len(code) == end - 1 else code


def _read(code: bytes) -> Cubin:
    if code[:4] != b"\x7fELF":
        raise CubinError("these bytes are no cubin: they do not begin as an ELF file")
    head = _HEADER.unpack_from(code)
    bits, order, abi, machine, flags, at = head[1], head[2], head[5], head[7], head[12], head[11]
    entry, count, names_at = head[16], head[17], head[18]
    if (bits, order, machine) != (2, 1, _MACHINE):
        raise CubinError("these bytes are no cubin: they are an ELF file for another machine")
    if entry != _SECTION.size or names_at >= count or at + entry * count > len(code):
        raise CubinError("the cubin is damaged (its table of sections)")
    rows = [_SECTION.unpack_from(code, at + entry * i) for i in range(count)]
    names = _bytes(code, rows[names_at])
    sections = [Section(text_at(names, r[0]), r[5], _bytes(code, r), r[6]) for r in rows]
    return Cubin((flags >> 8 if abi >= _WIDE_FLAGS else flags) & 0xFF, tuple(sections))


def _bytes(code: bytes, row: tuple[int, ...]) -> bytes:
    kind, offset, size = row[1], row[4], row[5]
    if kind in (0, _NOBITS):
        return b""
    if offset + size > len(code):
        raise CubinError("the cubin is damaged (a section ends behind the file)")
    return code[offset : offset + size]


def text_at(table: bytes, at: int) -> str:
    """The text at a place of a table of texts, each with a zero behind it.

    Raises:
        CubinError: there is none.
    """
    end = table.find(b"\0", at)
    if at > len(table) or end < 0:
        raise CubinError("the cubin is damaged (a name)")
    try:
        return table[at:end].decode("ascii")
    except UnicodeDecodeError as e:
        raise CubinError("the cubin is damaged (a name)") from e
