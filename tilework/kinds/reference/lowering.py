"""Schedules as loop programs, without any trick: `tilework.lower.protocol.Lowering`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.lower.lower import lower
from tilework.lower.protocol import Lowered
from tilework.space.sketch import Sketch


class ReferenceLowering:
    """The neutral lowering."""

    def lower(
        self,
        sketch: Sketch,
        row: Sequence[int],
        apart: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Lowered:
        """See `tilework.lower.lower`."""
        return lower(sketch, row, apart)


LOWERING = ReferenceLowering()
