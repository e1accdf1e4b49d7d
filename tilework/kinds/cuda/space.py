"""The schedule space of GPUs: `tilework.space.protocol.Space`."""

from __future__ import annotations

from tilework.kinds.cuda.canonical import canonical
from tilework.kinds.cuda.decisions import decisions
from tilework.kinds.cuda.limits import valid
from tilework.kinds.cuda.rules import CAPABILITIES, CUDA_RULES
from tilework.kinds.cuda.target import CudaTarget
from tilework.kinds.cuda.tiling import TILING
from tilework.kinds.cuda.version import RULES_VERSION
from tilework.kinds.cuda.words import words
from tilework.overriding import override
from tilework.space.levels import Tiling
from tilework.space.nest import BlockNest, Ints
from tilework.space.nests import Capability
from tilework.space.protocol import Space
from tilework.space.state import Rules


class CudaSpace(Space):
    """Rules, decisions and limits of GPUs."""

    version: int = RULES_VERSION
    rules: Rules = CUDA_RULES
    tiling: Tiling = TILING
    decisions = staticmethod(decisions)
    valid = staticmethod(valid)
    notes = staticmethod(words)

    def capabilities(self, target: CudaTarget) -> tuple[Capability, ...]:
        """The same on every GPU."""
        return CAPABILITIES

    @override
    def canonical(self, nest: BlockNest, target: CudaTarget) -> dict[str, Ints]:
        return canonical(nest)


SPACE = CudaSpace()
