"""Names of ARM processors: their makers' numbers are all that Linux tells of them."""

from __future__ import annotations

from collections.abc import Iterable

_MAKERS = {
    0x41: "ARM", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon",
    0x4E: "NVIDIA", 0x51: "Qualcomm", 0x61: "Apple", 0x6D: "Microsoft", 0xC0: "Ampere",
}  # fmt: skip
_PARTS = {
    (0x41, 0xD01): "Cortex-A32", (0x41, 0xD03): "Cortex-A53", (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55", (0x41, 0xD07): "Cortex-A57", (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73", (0x41, 0xD0A): "Cortex-A75", (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1", (0x41, 0xD0D): "Cortex-A77", (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD41): "Cortex-A78", (0x41, 0xD44): "Cortex-X1", (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710", (0x41, 0xD48): "Cortex-X2", (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4B): "Cortex-A78C", (0x41, 0xD4D): "Cortex-A715", (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse-V2", (0x41, 0xD80): "Cortex-A520", (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4", (0x41, 0xD84): "Neoverse-V3", (0x41, 0xD8E): "Neoverse-N3",
    (0x43, 0x0AF): "ThunderX2", (0x46, 0x001): "A64FX", (0x48, 0xD01): "TaiShan V110",
    (0x4E, 0x004): "Carmel", (0x51, 0x001): "Oryon", (0x61, 0x022): "M1 Icestorm",
    (0x61, 0x023): "M1 Firestorm", (0xC0, 0xAC3): "Ampere-1", (0xC0, 0xAC4): "Ampere-1A",
}  # fmt: skip
"""By implementer and part, as the makers number them (the list of util-linux's lscpu)."""


def arm_name(lines: Iterable[str]) -> str:
    """The processor that lines of Linux's ``/proc/cpuinfo`` tell of; empty if they do not.

    Kinds of cores that differ are named in the order in which they stand, such as
    ``ARM Cortex-A53 + Cortex-A72``; a part that is not known here by its number.
    """
    maker, names = 0, []
    for line in lines:
        word, _, value = line.partition(":")
        if word.strip() == "CPU implementer":
            maker = _number(value)
        elif word.strip() == "CPU part":
            part = _number(value)
            name = _PARTS.get((maker, part), f"part {part:#05x}")
            if name not in names:
                names.append(name)
    if not names:
        return ""
    return f"{_MAKERS.get(maker, f'maker {maker:#04x}')} {' + '.join(names)}"


def _number(text: str) -> int:
    try:
        return int(text.strip(), 0)
    except ValueError:
        return 0
