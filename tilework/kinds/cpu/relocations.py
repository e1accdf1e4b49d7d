"""Relocations that object files of our code have, by architecture.

A loader adds an address to what it finds at a place, or puts it there bit by bit. So the bits that
it fills in must be empty, and where they are a part of an instruction, it must be one that has
them: on x86-64 the place is a number of its own, on AArch64 an instruction.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilework.frozen import frozen

_ALL = (1 << 64) - 1


@frozen
class Relocation:
    """What one kind of relocation changes.

    Attributes:
        width: bytes from its place on.
        before: bytes before them that the loader looks at.
        near: whether it must refer to the object itself: the loader ends the process where
            something else is out of its reach.
        fixed: bits of these bytes, as a little-endian number, that must be as in ``bits``: those
            that are filled in, and those that tell which instruction it is.
        bits: these bits, before anything is filled in.
        align: its place is a multiple of so many bytes.
    """

    width: int
    before: int = 0
    near: bool = False
    fixed: int = _ALL
    bits: int = 0
    align: int = 1

    def fits(self, there: bytes) -> bool:
        """Whether the bytes at its place are ones that it may change."""
        return int.from_bytes(there, "little") & self.fixed == self.bits


@frozen
class ObjectForm:
    """What object files for an architecture look like.

    Attributes:
        number: ELF's number of the machine.
        relocations: kinds of position-independent code, by ELF's numbers.
    """

    number: int
    relocations: Mapping[int, Relocation]


def _instruction(opcode: int, mask: int, field: int, near: bool) -> Relocation:
    """Fills in ``field`` of an instruction of AArch64 that is ``opcode`` under ``mask``."""
    return Relocation(4, near=near, fixed=mask | field, bits=opcode, align=4)


_PAGE = 0x60FFFFE0
"""Where ADRP has its 21 bits."""
_LOW = 0x003FFC00
"""Where ADD and loads and stores have their 12 bits."""
_BRANCH = 0x03FFFFFF

_X86_64 = {
    1: Relocation(8),  # 64
    2: Relocation(4, near=True),  # PC32
    4: Relocation(4),  # PLT32
    9: Relocation(4, before=3),  # GOTPCREL
    24: Relocation(8),  # PC64
    41: Relocation(4, before=3),  # GOTPCRELX
    42: Relocation(4, before=3),  # REX_GOTPCRELX
}
_AARCH64 = {
    257: Relocation(8),  # ABS64
    260: Relocation(8),  # PREL64
    261: Relocation(4, near=True),  # PREL32
    275: _instruction(0x90000000, 0x9F000000, _PAGE, True),  # ADR_PREL_PG_HI21: adrp
    277: _instruction(0x91000000, 0xFFC00000, _LOW, True),  # ADD_ABS_LO12_NC: add x, x, #
    278: _instruction(0x39000000, 0xFB000000, _LOW, True),  # LDST8_ABS_LO12_NC: ldr, str
    282: _instruction(0x14000000, 0xFC000000, _BRANCH, False),  # JUMP26: b
    283: _instruction(0x94000000, 0xFC000000, _BRANCH, False),  # CALL26: bl
    284: _instruction(0x79000000, 0xFB000000, _LOW, True),  # LDST16_ABS_LO12_NC
    285: _instruction(0xB9000000, 0xFB000000, _LOW, True),  # LDST32_ABS_LO12_NC
    286: _instruction(0xF9000000, 0xFB000000, _LOW, True),  # LDST64_ABS_LO12_NC
    299: _instruction(0x3D800000, 0xFF800000, _LOW, True),  # LDST128_ABS_LO12_NC: vectors
    311: _instruction(0x90000000, 0x9F000000, _PAGE, False),  # ADR_GOT_PAGE: adrp
    312: _instruction(0xF9400000, 0xFFC00000, _LOW, False),  # LD64_GOT_LO12_NC: ldr x, [x, #]
}

MACHINES = {"x86_64": ObjectForm(62, _X86_64), "aarch64": ObjectForm(183, _AARCH64)}
"""By architecture."""
