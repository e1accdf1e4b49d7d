"""Why a network takes longer than its tasks took when they were tuned.

The sum of the tasks' records is what the network would take if every kernel ran in it as it ran
alone, with everything it reads in the nearest caches. It does not: weights have been pushed out by
those of other layers, inputs lie in the caches of the core that wrote them, and some calls were
never tuned. Each kernel is therefore timed twice, in the network and alone, and what it takes more
than its record is put down to one of these.
"""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.latency import latency
from tilework.runtime.executor import Roofline
from tilework.runtime.image import Image, Step
from tilework.runtime.module import Module
from tilework.runtime.repeats import trips_of

LARGE = 0.1
"""A gap above this share of the tasks' sum is worth explaining."""

_MIB = 2.0**20


@frozen
class KernelGap:
    """All calls of one kernel in a run, in milliseconds.

    Attributes:
        desc: operators and extents.
        calls: in one run.
        recorded_ms: what the records promise; None without a record.
        alone_ms: timed now, again and again with nothing between.
        network_ms: timed now, within whole runs.
        why: where the difference comes from.
    """

    desc: str
    calls: int
    recorded_ms: float | None
    alone_ms: float
    network_ms: float
    why: str

    @property
    def extra_ms(self) -> float:
        """Time in the network above the records; all of it without a record."""
        return self.network_ms - (self.recorded_ms or 0.0)


@frozen
class Gap:
    """A network's time beside the sum of its tasks' records, in milliseconds.

    ``rows`` begin with the kernel that adds most to the gap; ``at`` says of which values of
    symbols all this is.
    """

    end_to_end_ms: float
    tasks_ms: float
    rows: tuple[KernelGap, ...]
    at: str = ""

    @property
    def gap_ms(self) -> float:
        """What the network takes more."""
        return self.end_to_end_ms - self.tasks_ms

    @property
    def share(self) -> float:
        """The gap as a share of the tasks' sum."""
        return self.gap_ms / self.tasks_ms

    @property
    def large(self) -> bool:
        """Whether it needs explaining."""
        return self.share > LARGE

    def lines(self, most: int = 6) -> list[str]:
        """The gap in words: a line for the network, and one per kernel that matters."""
        side = "above" if self.gap_ms > 0 else "below"
        out = [
            f"end to end {_text(self.end_to_end_ms)}{self.at and f' at {self.at}'} is "
            f"{abs(self.share):.0%} {side} the sum of the tasks, {_text(self.tasks_ms)}"
        ]
        if self.gap_ms <= 0:
            return out
        matter = [r for r in self.rows if r.extra_ms > 0.02 * self.gap_ms]
        for row in matter[:most]:
            times = f" x{row.calls}" if row.calls > 1 else ""
            out.append(f"{_text(row.extra_ms, signed=True)} {row.desc}{times}: {row.why}")
        rest = self.gap_ms - sum(r.extra_ms for r in matter[:most])
        if len(out) > 1 and abs(rest) > 0.1 * abs(self.gap_ms):
            out.append(f"{_text(rest, signed=True)} all other kernels, and the way between them")
        return out


def _text(milliseconds: float, *, signed: bool = False) -> str:
    return latency(milliseconds / 1e3, signed=signed)


def explain_gap(
    module: Module, end_to_end_ms: float | None = None, threads: int | None = None
) -> Gap | None:
    """Compare a run with the records of its tasks, kernel by kernel.

    Args:
        module: compiled with records.
        end_to_end_ms: its time; measured here if it is not given.
        threads: of the run; by default the module's.

    Where shapes are symbolic, all this is of typical ones.

    Returns:
        None if no task has a record for this number of threads, or records count another time
        than the network's.
    """
    image, report = module.image_at(), module.report
    if not any(r.latency_s for r in report):
        return None
    roof = module.roofline(threads)
    if not roof.wall_clock:
        return None
    if end_to_end_ms is None:
        end_to_end_ms = module.benchmark(min_repeat_ms=200, threads=threads).median
    inside = [row.time_ms for row in module.profile(repeat=20, threads=threads)]
    alone = module.kernels_alone(threads=threads)
    groups: dict[str, list[int]] = {}
    for i, step in enumerate(image.steps):
        groups.setdefault(step.symbol, []).append(i)
    trips, rows = trips_of(image.repeats, len(image.steps)), []
    for members in groups.values():
        step, calls = image.steps[members[0]], sum(trips[i] for i in members)
        record = None if step.task is None else report[step.task].latency_s
        recorded = 1e3 * record * calls if record else None
        lone = calls * alone[step.symbol]
        network = sum(inside[i] for i in members)
        why = _why(step, image, roof, recorded, lone, network)
        rows.append(KernelGap(step.desc, calls, recorded, lone, network, why))
    rows.sort(key=lambda r: -r.extra_ms)
    at = ", ".join(f"{name} = {n}" for name, n in module.point_at().items())
    return Gap(end_to_end_ms, sum(r.recorded_ms or 0.0 for r in rows), tuple(rows), at)


def _why(
    step: Step,
    image: Image,
    roof: Roofline,
    recorded_ms: float | None,
    alone_ms: float,
    network_ms: float,
) -> str:
    """The larger of two causes: the machine since tuning, or what the network does to caches."""
    if recorded_ms is None:
        return (
            "no record of it"
            if step.task is not None
            else "not tuned: it only moves or adapts data"
        )
    since, inside = alone_ms - recorded_ms, network_ms - alone_ms
    if max(since, inside) <= 0.02 * recorded_ms:
        return "as recorded"
    if since > inside:
        return "slower than on record when run alone, too: the machine, or other programs on it"
    cold = 1e3 * (roof.constants_s(step, image) - roof.warm_constants_s(step))
    if step.constant_bytes and cold > 0.25 * inside:
        where = roof.level(image.constants.nbytes + image.arena_bytes)
        return (
            f"its weights ({step.constant_bytes / _MIB:.1f} MiB) come from {where}; alone they "
            "stay in a nearer cache"
        )
    return "its inputs lie in another cache, or another core's, when it starts"
