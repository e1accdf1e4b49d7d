"""The schedule space of GPUs: `tilework.space.protocol.Space`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cuda.canonical import canonical
from tilework.kinds.cuda.decisions import decisions
from tilework.kinds.cuda.limits import valid
from tilework.kinds.cuda.rules import CAPABILITIES, CUDA_RULES, RULES_VERSION
from tilework.kinds.cuda.target import CudaTarget
from tilework.kinds.cuda.tiling import TILING
from tilework.kinds.cuda.words import words
from tilework.space.blocks import Block
from tilework.space.decision import Open
from tilework.space.levels import Tiling
from tilework.space.nest import BlockNest, Ints
from tilework.space.nests import Capability
from tilework.space.state import Rules


class CudaSpace:
    """Rules, decisions and limits of GPUs."""

    version: int = RULES_VERSION
    rules: Rules = CUDA_RULES
    tiling: Tiling = TILING

    def capabilities(self, target: CudaTarget) -> tuple[Capability, ...]:
        """The same on every GPU."""
        return CAPABILITIES

    def decisions(self, block: Block, target: CudaTarget) -> list[Open]:
        """See `tilework.kinds.cuda.decisions`."""
        return decisions(block, target)

    def fits(self, block: Block, tiles: Sequence[Ints], target: CudaTarget) -> NDArray[np.bool_]:
        """All: limits are of threads, whose number other levels decide."""
        return np.ones(len(tiles[0]), bool)

    def valid(self, nest: BlockNest, target: CudaTarget) -> NDArray[np.bool_]:
        """See `tilework.kinds.cuda.limits`."""
        return valid(nest, target)

    def canonical(self, nest: BlockNest, target: CudaTarget) -> dict[str, Ints]:
        """See `tilework.kinds.cuda.canonical`."""
        return canonical(nest)

    def notes(self, nest: BlockNest) -> list[str]:
        """See `tilework.kinds.cuda.words`."""
        return words(nest)


SPACE = CudaSpace()
