"""What a run of the canary found, and how it is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.canary.drift import IN_A_ROW, LEARN, Track, Watch
from tasks.canary.journal import Journal
from tasks.canary.remedy import Remedy
from tilework.latency import latency


@dataclass(frozen=True)
class CanaryReport:
    """What a run of the canary found.

    Attributes:
        device: as people know it; ``device_id`` as records do.
        skipped: why nothing was timed; empty if it was.
        watch: what the readings say so far; None if nothing was timed.
        kernels: names of the frozen kernels, and what they compute.
        machine_alert: what is to be told of the machine now; empty if nothing is.
        kernels_alert: the same of kernels.
        remedies: what was done about slow kernels.
        notes: whatever else is worth a line.
    """

    device: str
    device_id: str
    target: str
    skipped: str = ""
    watch: Watch | None = None
    kernels: Mapping[str, str] = field(default_factory=dict)
    machine_alert: str = ""
    kernels_alert: str = ""
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing is slow or broken, as far as is known."""
        watch = self.watch
        return watch is None or not (watch.machine.slow or watch.slow or watch.broken)

    @property
    def verdict(self) -> str:
        """One line."""
        watch = self.watch
        if watch is None:
            return self.skipped
        if not watch.machine.usual:
            left = LEARN - len(watch.machine.learning)
            return f"learning what is usual: {left} more reading{'' if left == 1 else 's'}"
        change = percent((watch.machine.ratio or 1.0) - 1)
        if watch.machine.slow and watch.machine.side <= 0:
            return f"the machine was slower, and is as usual this time ({change})"
        if watch.machine.slow:
            return f"the machine is slower than usual ({change}); kernels are not judged"
        if watch.machine.side > 0:
            return f"the machine is slower this time ({change}): the next reading tells"
        parts = [f"the machine is as usual ({change})"]
        for word, names in (("slower", watch.slow), ("failing", watch.broken)):
            if names:
                parts.append(f"{word}: {', '.join(self.kernels.get(one, one) for one in names)}")
        if len(parts) == 1:
            parts.append("kernels, too")
        new = sum(not track.usual for track in watch.kernels.values())
        if new:
            parts.append(f"{new} of {len(watch.kernels)} kernels still being learnt")
        return "; ".join(parts)


@dataclass(frozen=True)
class Row:
    """One thing that is watched, in the table of a report.

    Attributes:
        what: the calibration loop, or what a kernel computes.
        usual_s, last_s: its time as usual, and now; None if not known.
        change: of the latest reading against what is usual, as the drift is judged by.
        limit: share beyond which it is slow.
        state: one word or two.
    """

    what: str
    usual_s: float | None
    last_s: float | None
    change: float | None
    limit: float
    state: str


def rows(report: CanaryReport) -> list[Row]:
    """The calibration loop and all kernels; none if nothing was timed."""
    if report.watch is None:
        return []
    tracks = [("calibration loop", report.watch.machine)]
    names = report.kernels
    tracks += [(names.get(name, name), track) for name, track in report.watch.kernels.items()]
    return [
        Row(
            what,
            track.usual[0] if track.usual else None,
            track.last[0] if track.last else None,
            None if track.ratio is None else track.ratio - 1,
            track.limit,
            _state(track),
        )
        for what, track in tracks
    ]


def _state(track: Track) -> str:
    if track.broken:
        return "fails"
    if track.slow:
        return "slow"
    if not track.usual:
        return f"learnt {len(track.learning)} of {LEARN}"
    return "slow once" if track.side > 0 else "as usual"


def percent(change: float) -> str:
    """A change as ``+12 %``."""
    text = f"{100 * change:+.0f}"
    return f"{'0' if text in ('+0', '-0') else text} %"


def machine_line(journal: Journal) -> str:
    """How much slower the machine is."""
    machine = journal.watch.machine
    still = "has become" if journal.told_at is None else "still is"
    return (
        f"{journal.device_name} on {journal.host} {still} slower: the calibration loop takes "
        f"{_change(machine)}, {IN_A_ROW} runs in a row; nothing is tuned until it is itself "
        "again"
    )


def kernels_line(journal: Journal, before: Watch) -> str:
    """The kernels that are slow, or fail, since the watch before; empty if none is."""
    names = {canary.name: canary.workload for canary in journal.canaries}
    watch = journal.watch
    changes = [
        f"{names[name]} takes {_change(watch.kernels[name])}"
        for name in watch.slow
        if name not in before.slow
    ]
    changes += [f"{names[name]} fails" for name in watch.broken if name not in before.broken]
    if not changes:
        return ""
    return f"{journal.device_name} on {journal.host} is as usual, but {'; '.join(changes)}"


def remedy_line(remedy: Remedy) -> str:
    """What became of a slow kernel."""
    now = "no program of it works" if remedy.latency_s is None else latency(remedy.latency_s)
    after = {
        "finals": "another program is the best now" if remedy.other else "it is itself again",
        "tuning": "tuning found a better program",
        "nothing": "no better program was found; what it takes now counts as usual",
    }[remedy.how]
    return f"{remedy.workload}: {latency(remedy.usual_s)} before, {now} now: {after}"


def _change(track: Track) -> str:
    usual, last = track.usual[0], track.last[0]
    return f"{latency(last)} instead of {latency(usual)} ({percent(last / usual - 1)})"
