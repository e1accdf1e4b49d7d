"""What a kernel takes of an SM, from its machine code: registers, stack, shared memory, size.

The compiler's notes on a function are attributes in the sections ``.nv.info``; numbers and formats
of them are those that its own tools print.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tilework.frozen import frozen
from tilework.kinds.cuda.source.elf import Cubin, CubinError, Section, read_cubin, text_at

_WORDS = 4
"""Format of an attribute that has bytes behind it; others are four bytes long in all."""
_REGISTERS, _FRAME, _MAX_THREADS = 0x2F, 0x11, 0x05
_RESERVING_ARCH, _RESERVED = 90, 1024
"""From this architecture on a function's shared memory includes what the system takes."""
_SYMBOL = struct.Struct("<IBBHQQ")


@frozen
class Resources:
    """What a function takes.

    Attributes:
        registers: of a thread.
        stack_bytes: of a thread, in memory: spilled registers, and arrays whose elements are
            chosen by data.
        shared_bytes: static shared memory of a block, without what the system takes beside it.
        code_bytes: size of its machine code.
        max_threads: threads of a block that its launch bounds allow; 0 if it has none.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    code_bytes: int
    max_threads: int


def resources(code: bytes) -> dict[str, Resources]:
    """What the functions of a cubin take, by name.

    Raises:
        CubinError: the bytes are no cubin, or a damaged one.
    """
    return resources_of(read_cubin(code))


def resources_of(cubin: Cubin) -> dict[str, Resources]:
    """What the functions of a cubin take, by name; see `resources`."""
    by_name = {s.name: s for s in cubin.sections}
    symbols = _symbols(cubin, by_name)
    notes = dict(_notes_by_symbol(by_name, symbols))
    reserved = _RESERVED if cubin.arch >= _RESERVING_ARCH else 0
    by_kernel = {}
    for section in cubin.sections:
        name = section.name.removeprefix(".text.")
        if name == section.name:
            continue
        shared = by_name.get(f".nv.shared.{name}")
        bound = 0
        for attribute, words in _notes(by_name.get(f".nv.info.{name}")):
            if attribute == _MAX_THREADS and len(words) == 3:
                bound = words[0] * words[1] * words[2]
        if (_REGISTERS, name) not in notes:
            raise CubinError(f"the cubin does not say how many registers {name} takes")
        by_kernel[name] = Resources(
            notes[_REGISTERS, name],
            notes.get((_FRAME, name), 0),
            max(shared.size - reserved, 0) if shared else 0,
            section.size,
            bound,
        )
    return by_kernel


def _symbols(cubin: Cubin, by_name: dict[str, Section]) -> list[str]:
    table = by_name.get(".symtab")
    if table is None or table.link >= len(cubin.sections):
        raise CubinError("the cubin is damaged (it has no symbols)")
    names = cubin.sections[table.link].data
    whole = len(table.data) // _SYMBOL.size * _SYMBOL.size
    return [text_at(names, row[0]) for row in _SYMBOL.iter_unpack(table.data[:whole])]


def _notes_by_symbol(
    by_name: dict[str, Section], symbols: list[str]
) -> Iterator[tuple[tuple[int, str], int]]:
    """Attributes of functions in the common section: number and function, and value."""
    for attribute, words in _notes(by_name.get(".nv.info")):
        if attribute in (_REGISTERS, _FRAME) and len(words) == 2:
            if words[0] >= len(symbols):
                raise CubinError("the cubin is damaged (a function's number)")
            yield (attribute, symbols[words[0]]), words[1]


def _notes(section: Section | None) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Attributes that have words behind them, by number."""
    data, at = section.data if section else b"", 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _WORDS:
            if at + size > len(data):
                raise CubinError("the cubin is damaged (an attribute)")
            yield attribute, struct.unpack_from(f"<{size // 4}I", data, at)
            at += size
