"""Schedules for CPUs as loop programs: `tilework.lower.protocol.Lowering`."""

from __future__ import annotations

from tilework.kinds.cpu.tactics import TACTICS
from tilework.lower.register_tiles.program import TileLowering

LOWERING = TileLowering(TACTICS)
