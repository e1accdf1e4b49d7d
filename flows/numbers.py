"""Numbers as people read them: in tables of the command line and of Prefect's UI."""

from __future__ import annotations


def show_ms(milliseconds: float | None) -> str:
    """A latency in milliseconds, or a dash when unknown; microseconds keep two digits."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.3f}" if milliseconds >= 0.01 else f"{milliseconds:.5f}"


def milliseconds(seconds: float | None) -> str:
    """``seconds`` in milliseconds; see `show_ms`."""
    return show_ms(None if seconds is None else seconds * 1e3)


def gflops(flops: float, seconds: float | None) -> str:
    """Speed in GFLOP/s, or a dash when the latency is unknown."""
    return "-" if not seconds else f"{flops / seconds / 1e9:.1f}"


def number(value: float | None, decimals: int) -> str:
    """``value`` with so many decimals, or a dash when unknown."""
    return "-" if value is None else f"{value:.{decimals}f}"


def plural(count: int) -> str:
    """The ending of a counted word: empty for one, ``s`` otherwise."""
    return "" if count == 1 else "s"
