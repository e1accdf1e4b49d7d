"""Object files as LLVM writes them for Linux, read with care.

LLVM trusts an object: a wrong offset in one ends the process. So everything that a loader looks
at is checked here first: whatever passes can be loaded, though it may compute nonsense.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tilework.frozen import frozen
from tilework.kinds.cpu.relocations import MACHINES, ObjectForm

_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")

_RELOCATABLE = 1
_NULL, _BITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 0, 1, 2, 3, 4, 8
_UNWIND, _ADDRSIG = 0x70000001, 0x6FFF4C03
_KNOWN_SECTIONS = {_NULL, _BITS, _SYMTAB, _STRTAB, _RELA, _NOBITS, _UNWIND, _ADDRSIG}
_ALLOC, _EXECUTE = 0x2, 0x4
_FLAGS = 0x1 | _ALLOC | _EXECUTE | 0x10 | 0x20 | 0x40  # write, .., merge, strings, info
_ABSOLUTE, _UNDEFINED = 0xFFF1, 0
_MOST_ALIGN = 4096
_MOST_ZEROS = 1 << 24

_MOST_ADDEND = 1 << 24


class BadObject(ValueError):
    """An object file that must not be loaded."""


@frozen
class ObjectFile:
    """What an object file gives to others and needs from them.

    Attributes:
        defined, needed: names of its own functions and data, and of those it refers to.
        unwind: whether it has tables for unwinding, which are registered when it is loaded.
    """

    defined: frozenset[str]
    needed: frozenset[str]
    unwind: bool


class _Header(NamedTuple):
    ident: bytes
    kind: int
    machine: int
    version: int
    entry: int
    segment_table: int
    sections: int
    flags: int
    size: int
    segment_size: int
    segments: int
    section_size: int
    section_count: int
    names: int


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    each: int


def is_elf(code: bytes) -> bool:
    """Whether these are the first bytes of an object file of this format."""
    return code[:4] == _MAGIC[:4]


def read_object(code: bytes, arch: str) -> ObjectFile:
    """Check an object file for an architecture, such as ``x86_64`` or ``aarch64``.

    Raises:
        BadObject: it is no object file, is for another machine, or some part of it lies outside
            it, refers to what is not there, or is of a kind that our code has not.
    """
    machine = MACHINES.get(arch)
    if machine is None:
        raise BadObject(f"what object files for {arch} hold is not known")
    try:
        return _Reader(code, machine).object()
    except struct.error as e:
        raise BadObject(f"it ends too early ({e})") from e


class _Reader:
    """Reads one object file."""

    def __init__(self, code: bytes, machine: ObjectForm) -> None:
        self._code, self._machine = code, machine
        self._sections: list[_Section] = []

    def object(self) -> ObjectFile:
        """All checks, in the order in which later ones rely on earlier ones."""
        names = self._read_sections()
        tables = [i for i, s in enumerate(self._sections) if s.kind == _SYMTAB]
        _check(len(tables) == 1, f"it has {len(tables)} symbol tables")
        defined, needed, homes = self._symbols(self._sections[tables[0]])
        for section in self._sections:
            if section.kind == _RELA:
                _check(section.link == tables[0], "relocations of another symbol table")
                self._relocations(section, homes)
        unwind = any(s.kind == _UNWIND for s in self._sections) or ".eh_frame" in names
        return ObjectFile(frozenset(defined), frozenset(needed), unwind)

    def _read_sections(self) -> set[str]:
        """Reads and checks the table of sections; returns their names."""
        head = _Header(*_HEADER.unpack_from(self._code, 0))
        _check(head.ident.startswith(_MAGIC) and head.version == 1, "it is no object file")
        _check(head.kind == _RELOCATABLE and not head.segments, "it is linked")
        _check(head.machine == self._machine.number, "it is for another machine")
        sizes = (head.size, head.section_size)
        _check(sizes == (_HEADER.size, _SECTION.size), f"its header has the sizes {sizes}")
        count, names = head.section_count, head.names
        _check(0 < count < 0xFF00 and names < count, f"it has {count} sections, names in {names}")
        self._inside(head.sections, count * _SECTION.size, "its sections")
        for i in range(count):
            entry = _SECTION.unpack_from(self._code, head.sections + i * _SECTION.size)
            self._sections.append(_Section(*entry))
        for i, s in enumerate(self._sections):
            self._check_section(i, s)
        _check(self._sections[names].kind == _STRTAB, "names of sections are no strings")
        return {self._text(self._sections[names], s.name) for s in self._sections}

    def _check_section(self, number: int, s: _Section) -> None:
        where = f"section {number}"
        _check(s.kind in _KNOWN_SECTIONS, f"{where} is of kind {s.kind}")
        _check(number or s == (0,) * len(s), "its first section is not empty")
        _check(s.flags & ~_FLAGS == 0, f"{where} has the flags {s.flags:#x}")
        _check(s.address == 0, f"{where} has an address")
        align = s.align if number else 1  # the first section is none
        _check(
            0 < align <= _MOST_ALIGN and not align & (align - 1), f"{where} is aligned to {align}"
        )
        if s.kind == _NOBITS:
            _check(s.size <= _MOST_ZEROS, f"{where} has {s.size} zeros")
        elif s.kind != _NULL:
            self._inside(s.offset, s.size, where)
        if s.kind == _STRTAB and s.size:
            _check(self._code[s.offset + s.size - 1] == 0, f"{where} does not end its last text")
        entry = {_SYMTAB: _SYMBOL.size, _RELA: _RELOCATION.size}.get(s.kind)
        if entry:
            _check(s.each == entry and s.size % entry == 0, f"{where} has odd entries")
            _check(s.link < len(self._sections), f"{where} belongs to section {s.link}")
            _check(not s.flags & _ALLOC and s.offset % 8 == 0, f"{where} lies oddly")

    def _symbols(self, table: _Section) -> tuple[set[str], set[str], list[int]]:
        """Names that the symbol table defines and needs, and the section of each symbol."""
        texts = self._sections[table.link]
        _check(texts.kind == _STRTAB, "names of symbols are no strings")
        count = table.size // _SYMBOL.size
        _check(count > 0 and table.info <= count, f"it has {count} symbols")
        defined, needed, homes = set(), set(), []
        for i in range(count):
            name, info, other, section, value, size = _SYMBOL.unpack_from(
                self._code, table.offset + i * _SYMBOL.size
            )
            text = self._text(texts, name)
            where, binding, kind = f"symbol {i} ({text[:60]})", info >> 4, info & 15
            _check(binding in (0, 1, 2) and kind in (0, 1, 2, 3, 4), f"{where} is of kind {info}")
            _check(other in (0, 2, 3), f"{where} has visibility {other}")
            homes.append(section)
            if section == _UNDEFINED:
                _check(value == 0 and size == 0, f"{where} is undefined and has a place")
                if i:
                    _check(text and binding == 1, f"{where} is nowhere")
                    needed.add(text)
            elif section == _ABSOLUTE:
                _check(kind == 4 and binding == 0, f"{where} has an absolute address")
            else:
                _check(section < len(self._sections), f"{where} lies in section {section}")
                home = self._sections[section]
                _check(home.kind in (_BITS, _NOBITS, _UNWIND), f"{where} lies among tables")
                _check(home.flags & _ALLOC, f"{where} lies where nothing is loaded")
                _check(kind != 2 or home.flags & _EXECUTE, f"{where} is a function among data")
                _check(value + size <= home.size, f"{where} lies outside its section")
                _check(text or kind == 3, f"{where} has no name")
                if binding:
                    _check(text not in defined, f"{where} is defined twice")
                    _check(value < home.size, f"{where} has no place")
                    defined.add(text)
        return defined, needed, homes

    def _relocations(self, table: _Section, homes: Sequence[int]) -> None:
        """Checks relocations; ``homes`` are the sections of the symbols."""
        _check(table.info < len(self._sections), f"relocations of section {table.info}")
        target = self._sections[table.info]
        loaded = target.kind in (_BITS, _UNWIND) and target.flags & _ALLOC
        _check(loaded, f"relocations of section {table.info}")
        for at in range(table.offset, table.offset + table.size, _RELOCATION.size):
            place, number, symbol, addend = _RELOCATION.unpack_from(self._code, at)
            where = f"a relocation at {place}"
            kind = self._machine.relocations.get(number)
            if kind is None:
                raise BadObject(f"{where} of kind {number}")
            _check(kind.before <= place and place + kind.width <= target.size, where)
            _check(place % kind.align == 0, f"{where}, which is no instruction")
            there = self._code[target.offset + place : target.offset + place + kind.width]
            _check(kind.fits(there), f"{where} of kind {number}, where {there.hex()} stands")
            _check(abs(addend) <= _MOST_ADDEND, f"{where} with the distance {addend}")
            _check(0 < symbol < len(homes), f"{where} to symbol {symbol} of {len(homes)}")
            inside = homes[symbol] not in (_UNDEFINED, _ABSOLUTE)
            _check(not kind.near or inside, f"{where} of kind {number} to another object")

    def _inside(self, offset: int, size: int, what: str) -> None:
        _check(offset + size <= len(self._code), f"{what} lies outside of it")

    def _text(self, table: _Section, at: int) -> str:
        _check(at < table.size, f"a name at {at} of {table.size}")
        begin = table.offset + at
        return self._code[begin : self._code.index(b"\0", begin)].decode("utf-8", "replace")


def _check(good: object, wrong: str) -> None:
    if not good:
        raise BadObject(wrong)
