"""Schedules as loop programs, without any trick: `tilework.lower.protocol.Lowering`."""

from __future__ import annotations

from tilework.lower.interpret import LANES
from tilework.lower.register_tiles.program import TileLowering
from tilework.lower.tactics import Tactics
from tilework.overriding import override
from tilework.target import Target


class ReferenceTactics(Tactics):
    """Vectors of the interpreter count in part."""

    @override
    def masked_lanes(self, target: Target) -> int:
        return LANES


LOWERING = TileLowering(ReferenceTactics())
