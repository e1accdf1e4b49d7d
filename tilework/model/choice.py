"""What a compile is to do: a schedule, and where it comes from."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tilework.index.symbols import Symbolic


class HandOver(NamedTuple):
    """Another row of a task whose extents a run decides, for where one of them is small.

    Attributes:
        sketch_id, row: the schedule.
        extent: of an axis of the task.
        most: the schedule serves where the extent is at most this.
    """

    sketch_id: int
    row: tuple[int, ...]
    extent: int | Symbolic
    most: int


class Choice(NamedTuple):
    """A schedule and where it comes from.

    Attributes:
        sketch_id, row: the schedule.
        source: ``"tuned"`` if it was measured for this target, on this machine if that has one;
            ``"elsewhere"`` if on another device of the target; ``"transferred"`` if it was mapped
            from a record of another target or workload; else ``"untuned"``: the draft's choice.
        latency_s: its recorded latency; None unless tuned.
        predicted_s: what the draft model expects; None if it was measured for this target.
        record_id: of the record that it comes from; empty if untuned.
        device: name of the device that measured that.
        origin: what a transferred one was measured for: a target's text, after the name of the
            workload if that is another; empty for any other.
        small: another schedule for small extents.
    """

    sketch_id: int
    row: tuple[int, ...]
    source: Literal["tuned", "elsewhere", "transferred", "untuned"]
    latency_s: float | None
    predicted_s: float | None = None
    record_id: str = ""
    device: str = ""
    origin: str = ""
    small: HandOver | None = None

    @property
    def schedules(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Its schedules: sketch and row, that for large extents first."""
        small = () if self.small is None else (self.small[:2],)
        return ((self.sketch_id, self.row), *small)
