"""The schedule space of CPUs: `tilework.space.protocol.Space`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.canonical import canonical
from tilework.kinds.cpu.decisions import decisions
from tilework.kinds.cpu.limits import valid
from tilework.kinds.cpu.rules import CAPABILITIES, CPU_RULES, RULES_VERSION
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.tiling import TILING
from tilework.space.blocks import Block
from tilework.space.decision import Open
from tilework.space.levels import Tiling
from tilework.space.nest import BlockNest, Ints
from tilework.space.nests import Capability
from tilework.space.state import Rules


class CpuSpace:
    """Rules, decisions and limits of CPUs."""

    version: int = RULES_VERSION
    rules: Rules = CPU_RULES
    tiling: Tiling = TILING
    capabilities: tuple[Capability, ...] = CAPABILITIES

    def decisions(self, block: Block, target: CpuTarget) -> list[Open]:
        """See `tilework.kinds.cpu.decisions`."""
        return decisions(block, target)

    def valid(self, nest: BlockNest, target: CpuTarget) -> NDArray[np.bool_]:
        """See `tilework.kinds.cpu.limits`."""
        return valid(nest, target)

    def canonical(self, nest: BlockNest, target: CpuTarget) -> dict[str, Ints]:
        """See `tilework.kinds.cpu.canonical`."""
        return canonical(nest, target)

    def notes(self, nest: BlockNest) -> list[str]:
        """Nothing that loops do not show."""
        return []


SPACE = CpuSpace()
