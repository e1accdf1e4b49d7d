"""Numbers as people read them: in the terminal, in Prefect's UI and in plots.

Latencies are written by `tilework.latency`, and by nothing else.
"""

from __future__ import annotations

from datetime import datetime

from tilework.latency import digits, latency, milliseconds, show_ms, unit_of

__all__ = [
    "change", "counted", "digits", "duration", "gflops", "latency", "milliseconds", "number",
    "operations", "percent", "plural", "show_ms", "size", "speed", "unit_of", "when",
]  # fmt: skip


def gflops(flops: float, seconds: float | None) -> str:
    """Speed in GFLOP/s, or a dash when the latency is unknown."""
    return "-" if not seconds else speed(flops / seconds / 1e9)


def speed(value: float | None) -> str:
    """A speed in GFLOP/s with one decimal, more if it is small; a dash when unknown."""
    if value is None:
        return "-"
    return f"{value:.1f}" if abs(value) >= 0.995 else digits(value)


def operations(flops: float) -> str:
    """A number of floating-point operations, such as ``40 FLOP`` or ``231.2 MFLOP``."""
    for unit in ("FLOP", "kFLOP", "MFLOP"):
        if flops < 999.5:
            return f"{digits(flops) if unit != 'FLOP' else round(flops)} {unit}"
        flops /= 1e3
    return f"{digits(flops)} GFLOP"


def number(value: float | None, decimals: int) -> str:
    """``value`` with so many decimals, or a dash when unknown."""
    return "-" if value is None else f"{value:.{decimals}f}"


def percent(share: float | None, *, signed: bool = False) -> str:
    """A share as ``12 %``, with one decimal below ten; a dash when unknown.

    ``signed``: a change; what grows is written with a plus.
    """
    if share is None:
        return "-"
    value = 100.0 * share
    text = f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"
    if float(text) == 0.0:
        text = "0"
    return f"{'+' if signed and float(text) > 0 else ''}{text} %"


def change(before: float | None, after: float | None) -> str:
    """How a quantity changed, such as ``-3.1 %``; a dash when either is unknown or was zero."""
    return "-" if not before or after is None else percent(after / before - 1.0, signed=True)


def size(nbytes: float) -> str:
    """A number of bytes, such as ``80 B`` or ``2.31 MB``; steps are thousands."""
    for unit in ("B", "kB", "MB"):
        if round(nbytes) < 1000:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.2f} {unit}"
        nbytes /= 1000.0
    return f"{nbytes:.2f} GB"


def when(moment: datetime) -> str:
    """A time of day to the minute, in this machine's zone."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """A time that is only estimated, such as ``0.6 s``, ``52 s`` or ``13 min``."""
    if seconds < 9.5:
        return f"{seconds:.1f} s"
    if seconds < 89.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def counted(count: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{count} {noun}{plural(count)}"


def plural(count: int) -> str:
    """The ending of a counted word: empty for one, ``s`` otherwise."""
    return "" if count == 1 else "s"
