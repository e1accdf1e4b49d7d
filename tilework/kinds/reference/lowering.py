"""Schedules as loop programs, without any trick: `tilework.lower.protocol.Lowering`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.lower.protocol import Lowered
from tilework.lower.register_tiles.program import lower
from tilework.space.sketch import Sketch


class ReferenceLowering:
    """The neutral lowering."""

    def lower(
        self,
        sketch: Sketch,
        row: Sequence[int],
        apart: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Lowered:
        """See `tilework.lower.register_tiles.program`."""
        return lower(sketch, row, apart)


LOWERING = ReferenceLowering()
