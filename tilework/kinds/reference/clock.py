"""Time on the interpreter: counted, so that every run of a program takes the same.

Seconds are ``REGION_S`` for each parallel region and ``STEP_S`` for each step of its longest
thread; `tilework.lower.interpret.Meter` says what a step is. The constants are those of no real
machine. A device that tells its time like this cannot say whether a schedule is fast on another.
"""

from __future__ import annotations

from tilework.lower.interpret import Meter

STEP_S = 1e-8
REGION_S = 1e-7


def seconds(meter: Meter) -> float:
    """The time of what was counted."""
    return REGION_S * meter.regions + STEP_S * meter.steps
