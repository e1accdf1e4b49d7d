"""Which instructions a kernel's machine code (SASS) has, from sm_70 on.

An instruction has 128 bits; the lowest nine are its operation, the next three where its operands
come from. The numbers are those that NVIDIA's disassembler shows; they hold for all architectures
with such instructions, but for those listed apart.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tilework.kinds.cuda.source.elf import Cubin, CubinError, read_cubin

_BYTES = 16
_OPERATION = 0x1FF
_OPERATIONS: dict[int, str] = {
    0x002: "MOV", 0x005: "CS2R", 0x006: "VOTE", 0x007: "SEL", 0x008: "FSEL", 0x009: "FMNMX",
    0x00B: "FSETP", 0x00C: "ISETP", 0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3", 0x013: "IABS",
    0x016: "PRMT", 0x017: "IMNMX", 0x019: "SHF", 0x01C: "PLOP3", 0x020: "FMUL", 0x021: "FADD",
    0x023: "FFMA", 0x024: "IMAD", 0x025: "IMAD", 0x027: "IMAD", 0x028: "DMUL", 0x029: "DADD",
    0x02A: "DSETP", 0x02B: "DFMA", 0x031: "HFMA2", 0x035: "HFMA2", 0x036: "VIADD", 0x03B: "LDSM",
    0x03C: "HMMA", 0x045: "I2FP", 0x046: "VIADDMNMX", 0x048: "VIMNMX", 0x049: "FFMA2",
    0x082: "UMOV", 0x08C: "UISETP", 0x090: "UIADD3", 0x091: "ULEA", 0x092: "ULOP3",
    0x099: "USHF", 0x0B9: "ULDC", 0x102: "FCHK", 0x105: "F2I", 0x106: "I2F", 0x107: "FRND",
    0x108: "MUFU", 0x110: "F2F", 0x111: "F2I", 0x112: "I2F", 0x118: "NOP", 0x119: "S2R",
    0x11A: "DEPBAR", 0x11D: "BAR", 0x141: "BSYNC", 0x144: "CALL", 0x145: "BSSY", 0x147: "BRA",
    0x148: "WARPSYNC", 0x14D: "EXIT", 0x150: "RET", 0x155: "BMOV", 0x181: "LDG", 0x182: "LDC",
    0x183: "LDL", 0x184: "LDS", 0x186: "STG", 0x187: "STL", 0x188: "STS", 0x189: "SHFL",
    0x1A3: "ATOMG", 0x1A8: "ATOMG", 0x1AC: "LDCU", 0x1AE: "LDGSTS", 0x1AF: "LDGDEPBAR",
    0x1C3: "S2UR",
}  # fmt: skip
_BLACKWELL, _OTHERWISE = 100, {0x035: "IADD"}
_WIDTHS = {5: ".64", 6: ".128"}
"""Widths of accesses by one thread, in bits, where they are not 32 or less: bits 73 to 75."""
_WITH_WIDTH = frozenset({"LDG", "LDS", "STG", "STS", "LDL", "STL"})


def opcode_counts(code: bytes) -> dict[str, Counter[str]]:
    """How often each instruction stands in the functions of a cubin, by function and name.

    Accesses of 64 and 128 bits a thread have names of their own, such as ``LDS.128``; instructions
    that are not known here are called by their number. Each counts once, however often loops run
    it; what fills the code up behind its end counts as ``NOP``.

    Raises:
        CubinError: the bytes are no cubin, or a damaged one.
    """
    return opcode_counts_of(read_cubin(code))


def opcode_counts_of(cubin: Cubin) -> dict[str, Counter[str]]:
    """How often each instruction stands in the functions of a cubin; see `opcode_counts`."""
    by_kernel = {}
    for section in cubin.sections:
        name = section.name.removeprefix(".text.")
        if name == section.name:
            continue
        if section.size % _BYTES:
            raise CubinError(f"the cubin is damaged (code of {name})")
        by_kernel[name] = _counted(section.data, cubin.arch)
    return by_kernel


def multiply_adds(counts: Counter[str]) -> int:
    """Float32 multiply-adds of a thread; some instructions of sm_100 do two."""
    return counts["FFMA"] + 2 * counts["FFMA2"]


def accesses(counts: Counter[str], kind: str) -> int:
    """Instructions of a kind such as ``LDS``, whatever their width."""
    return counts[kind] + counts[f"{kind}.64"] + counts[f"{kind}.128"]


def _counted(code: bytes, arch: int) -> Counter[str]:
    words = np.frombuffer(code, "<u8").reshape(-1, 2)
    operation = (words[:, 0] & _OPERATION).astype(np.int64)
    width = (words[:, 1] >> np.uint64(9)).astype(np.int64) & 7
    special = _OTHERWISE if arch >= _BLACKWELL else {}
    counts: Counter[str] = Counter()
    pairs, numbers = np.unique(operation * 8 + width, return_counts=True)
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        which = pair // 8
        name = special.get(which) or _OPERATIONS.get(which) or f"OP_{which:03x}"
        counts[name + (_WIDTHS.get(pair % 8, "") if name in _WITH_WIDTH else "")] += number
    return counts
