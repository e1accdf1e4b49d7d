"""The schedule space of CPUs: `tilework.space.protocol.Space`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.canonical import canonical
from tilework.kinds.cpu.decisions import decisions
from tilework.kinds.cpu.instructions import instructions_of
from tilework.kinds.cpu.limits import fits, valid
from tilework.kinds.cpu.rules import CPU_RULES, RULES_VERSION
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.tiling import TILING
from tilework.space.blocks import Block
from tilework.space.bounds import borders
from tilework.space.decision import Open
from tilework.space.dots import dot_products
from tilework.space.levels import Tiling
from tilework.space.matrix_unit import matrix_unit
from tilework.space.nest import BlockNest, Ints
from tilework.space.nests import Capability
from tilework.space.ragged import ragged_block
from tilework.space.scaled import scaled_sums
from tilework.space.state import Rules
from tilework.space.transforms import constant_transform

_OF_VECTORS = 3
"""Quarters of the vector registers that tiles may take where there is a matrix unit for others."""


class CpuSpace:
    """Rules, decisions and limits of CPUs."""

    version: int = RULES_VERSION
    rules: Rules = CPU_RULES
    tiling: Tiling = TILING

    def capabilities(self, target: CpuTarget) -> tuple[Capability, ...]:
        """Those of loops, and what the target's instructions can do."""
        instructions = instructions_of(target.features)
        dots = dot_products(i for i in instructions if i.rows == 1)
        units = (i for i in instructions if i.rows > 1)
        unit = matrix_unit(units, _OF_VECTORS * target.num_vector_registers // 4)
        return (ragged_block, constant_transform, scaled_sums, dots, borders, unit)

    def decisions(self, block: Block, target: CpuTarget) -> list[Open]:
        """See `tilework.kinds.cpu.decisions`."""
        return decisions(block, target)

    def fits(self, block: Block, tiles: Sequence[Ints], target: CpuTarget) -> NDArray[np.bool_]:
        """Those whose accumulators the registers hold."""
        return fits(block, tiles, target)

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
