"""How latencies are written: the one place that chooses units and digits.

In running text a latency has its unit, which fits its size (`latency`). In a column of a table all
are in milliseconds, so that they compare at a glance (`show_ms`); in a plot, in one unit that fits
the longest (`unit_of`). Nothing that is known is rounded to zero, and nothing shows digits that a
measurement does not have: four at most, three below one.
"""

from __future__ import annotations

import math

from tilework.frozen import frozen


@frozen
class Unit:
    """A unit of time, and how many seconds it is."""

    name: str
    seconds: float

    def of(self, seconds: float) -> float:
        """``seconds`` in this unit."""
        return seconds / self.seconds


MS = Unit("ms", 1e-3)
_FROM = ((1.0, Unit("s", 1.0)), (1e-4, MS), (1e-6, Unit("us", 1e-6)), (0.0, Unit("ns", 1e-9)))
"""The least latency that is written in each unit: milliseconds, the unit of tables, reach far."""


def unit_of(seconds: float) -> Unit:
    """The unit in which a latency of this size is written."""
    size = abs(float(f"{seconds:.3e}"))
    if size == 0.0 or not math.isfinite(size):
        return MS
    return next(unit for least, unit in _FROM if size >= least)


def latency(seconds: float | None, *, signed: bool = False) -> str:
    """A latency with its unit, such as ``3.933 ms`` or ``52.31 us``; a dash when unknown.

    ``signed``: a difference; what is more is written with a plus.
    """
    if seconds is None:
        return "-"
    unit = unit_of(seconds)
    text = digits(unit.of(seconds))
    return f"{'+' if signed and seconds > 0 else ''}{text} {unit.name}"


def show_ms(milliseconds: float | None) -> str:
    """A latency as a plain number of milliseconds, for a column; a dash when unknown."""
    return "-" if milliseconds is None else digits(milliseconds)


def milliseconds(seconds: float | None) -> str:
    """``seconds`` in milliseconds; see `show_ms`."""
    return show_ms(None if seconds is None else seconds * 1e3)


def digits(value: float) -> str:
    """``value`` with four digits, three if it is below one, and never with an exponent."""
    size = abs(float(f"{value:.3e}"))  # as it will be rounded, so that 9.9996 is 10.00
    if not math.isfinite(size):
        return str(value)
    if size == 0.0:
        return "0"
    place = math.floor(math.log10(size))
    return f"{value:.{max(0, 3 - place if place >= 0 else 2 - place)}f}"
