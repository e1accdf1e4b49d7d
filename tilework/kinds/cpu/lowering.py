"""Schedules for CPUs as loop programs: `tilework.lower.protocol.Lowering`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.index.extents import Extent
from tilework.kinds.cpu.tactics import TACTICS
from tilework.lower.protocol import Lowered
from tilework.lower.register_tiles.program import lower
from tilework.space.sketch import Sketch


class CpuLowering:
    """Tiles in registers, vectors along the last axis, threads over the outermost loops."""

    def lower(
        self,
        sketch: Sketch,
        row: Sequence[int],
        apart: Mapping[int, tuple[Extent, ...]] | None = None,
    ) -> Lowered:
        """See `tilework.lower.register_tiles.program`."""
        return lower(sketch, row, apart, TACTICS)


LOWERING = CpuLowering()
