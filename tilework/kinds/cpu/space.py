"""The schedule space of CPUs: `tilework.space.protocol.Space`."""

from __future__ import annotations

from functools import lru_cache

from tilework.kinds.cpu.canonical import canonical
from tilework.kinds.cpu.decisions import decisions
from tilework.kinds.cpu.instructions import instructions_of
from tilework.kinds.cpu.limits import fits, steady, valid
from tilework.kinds.cpu.rules import CPU_RULES, RULES_VERSION
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.tiling import TILING
from tilework.overriding import override
from tilework.space.bounds import borders
from tilework.space.chosen import choosing_block
from tilework.space.dots import dot_products
from tilework.space.instructions import Instruction
from tilework.space.levels import Tiling
from tilework.space.matrix_unit import matrix_unit
from tilework.space.nests import Capability
from tilework.space.protocol import Space
from tilework.space.ragged import ragged_block
from tilework.space.scaled import scaled_sums
from tilework.space.scattering import scattering_block
from tilework.space.slabs import Slabs, slabs_of
from tilework.space.state import Rules
from tilework.space.transforms import constant_transform
from tilework.space.winograd.slabs import convolution_slabs
from tilework.te import ComputeDAG

_SLABS, _SLAB = 4, 16
"""Parts of L2 that what stages read fills where slabs may pay, and in a slab."""
_POINTS_BYTES = 4 << 20
"""Of data and products at the points of Winograd's forms, from which on slabs pay: those of
ResNet-18's first convolutions, a little less, are as fast in one piece."""
_OF_VECTORS = 3
"""Quarters of the vector registers that tiles may take where there is a matrix unit for others."""


class CpuSpace(Space):
    """Rules, decisions and limits of CPUs."""

    version: int = RULES_VERSION
    rules: Rules = CPU_RULES
    tiling: Tiling = TILING
    decisions = staticmethod(decisions)
    fits = staticmethod(fits)
    valid = staticmethod(valid)
    steady = staticmethod(steady)
    canonical = staticmethod(canonical)

    def capabilities(self, target: CpuTarget) -> tuple[Capability, ...]:
        """Those of loops, and what the target's instructions can do."""
        return _capabilities(instructions_of(target.features), target.num_vector_registers)

    @override
    def slabs(self, dag: ComputeDAG, target: CpuTarget) -> Slabs | None:
        """Where what stages read fills a good part of L2."""
        l2 = target.l2_bytes
        cores = target.num_cores
        by_rows = slabs_of(dag, l2 // _SLABS, l2 // _SLAB, cores)
        return by_rows or convolution_slabs(dag, max(l2, _POINTS_BYTES), l2 // 4, cores)


@lru_cache(maxsize=64)
def _capabilities(instructions: tuple[Instruction, ...], registers: int) -> tuple[Capability, ...]:
    dots = dot_products(i for i in instructions if i.rows == 1)
    units = (i for i in instructions if i.rows > 1)
    unit = matrix_unit(units, _OF_VECTORS * registers // 4)
    tiles = ragged_block, scattering_block, choosing_block
    return (*tiles, constant_transform, scaled_sums, dots, borders, unit)


SPACE = CpuSpace()
