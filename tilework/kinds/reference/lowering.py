"""Schedules as loop programs, without any trick: `tilework.lower.protocol.Lowering`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.index.extents import Extent
from tilework.lower.interpret import LANES
from tilework.lower.protocol import Lowered
from tilework.lower.register_tiles.program import lower
from tilework.lower.tactics import Tactics
from tilework.overriding import override
from tilework.space.sketch import Sketch
from tilework.target import Target


class ReferenceTactics(Tactics):
    """Vectors of the interpreter count in part."""

    @override
    def masked_lanes(self, target: Target) -> int:
        return LANES


class ReferenceLowering:
    """The neutral lowering."""

    def lower(
        self,
        sketch: Sketch,
        row: Sequence[int],
        apart: Mapping[int, tuple[Extent, ...]] | None = None,
    ) -> Lowered:
        """See `tilework.lower.register_tiles.program`."""
        return lower(sketch, row, apart, TACTICS)


TACTICS = ReferenceTactics()
LOWERING = ReferenceLowering()
