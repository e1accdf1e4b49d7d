"""Many networks under one budget: their tasks merged, and which search gets the next round.

A task that several networks have is tuned once; it weighs what all its calls weigh together, each
network's as often as it is used. There is one search per target, since each needs devices and a
cost model of its own. All of them spend from one budget, and between two rounds it is asked anew
which search's next round promises to save most for what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilework.search import TuningSession
    from tilework.task import SearchTask

PACE = 0.3
"""Weight of the last round in what a trial of a search is taken to cost."""


@dataclass(frozen=True)
class Share:
    """What one network adds to a zoo: its tasks, its calls of each, and how often it is used.

    Attributes:
        label: the network's short name.
        use: relative to the other networks; above 0.
        tasks, calls: distinct tasks, and how often the network calls each.
    """

    label: str
    use: float
    tasks: Sequence[SearchTask]
    calls: Sequence[float]


@dataclass(frozen=True)
class Merged:
    """The tasks of all networks for one target.

    Attributes:
        target: the target's text.
        tasks: each once, in the order in which they first come.
        weights: calls of each in one run of the mix of networks; a network whose use is a tenth
            of the sum counts a tenth.
        labels: the network in which each weighs most.
    """

    target: str
    tasks: list[SearchTask]
    weights: list[float]
    labels: list[str]


def merge(shares: Sequence[Share]) -> list[Merged]:
    """The tasks of several networks by target, each task once."""
    total = sum(share.use for share in shares)
    targets: dict[str, dict[str, _Task]] = {}
    for share in shares:
        for task, calls in zip(share.tasks, share.calls, strict=True):
            found = targets.setdefault(str(task.target), {})
            known = found.setdefault(task.workload_key, _Task(task))
            known.add(share.label, calls * share.use / total)
    return [
        Merged(
            target,
            [one.task for one in found.values()],
            [one.weight for one in found.values()],
            [one.label for one in found.values()],
        )
        for target, found in targets.items()
    ]


class _Task:
    """A task, and what each network adds to its weight."""

    def __init__(self, task: SearchTask) -> None:
        self.task = task
        self._by_label: dict[str, float] = {}

    def add(self, label: str, weight: float) -> None:
        self._by_label[label] = self._by_label.get(label, 0.0) + weight

    @property
    def weight(self) -> float:
        return math.fsum(self._by_label.values())

    @property
    def label(self) -> str:
        return max(self._by_label, key=lambda label: self._by_label[label])


@dataclass(frozen=True)
class Offer:
    """The next round of one search.

    Attributes:
        index: the task that it would measure.
        gain_s: what it should cut of the mix's latency, in seconds.
        cost: what it should cost, in what the budget is short of: seconds or trials; None if
            nobody knows yet.
    """

    index: int
    gain_s: float
    cost: float | None


def choose(offers: Sequence[Offer]) -> int:
    """Position of the offer that promises most for its cost; the first of equals.

    A cost that is not known is taken to be the mean of those that are.
    """
    known = [offer.cost for offer in offers if offer.cost]
    usual = math.fsum(known) / len(known) if known else 1.0
    rates = [offer.gain_s / (offer.cost or usual) for offer in offers]
    return max(range(len(offers)), key=lambda place: (rates[place], -place))


class Lane:
    """One search of a zoo, and the pace at which it spends.

    Args:
        session: the search; it spends from a budget that the lanes share.
    """

    def __init__(self, session: TuningSession) -> None:
        self.session = session
        self._seconds_per_trial: float | None = None

    def offer(self) -> Offer | None:
        """The search's next round; None if it is over."""
        index = self.session.next_task()
        if index is None:
            return None
        scheduler, budget = self.session.scheduler, self.session.budget
        first = scheduler.states[index].rounds == 0
        trials = budget.round_size(first, scheduler.negligible(index))
        cost: float | None = float(trials)
        if budget.options.seconds is not None:
            pace = self._seconds_per_trial
            cost = None if pace is None else trials * pace
        return Offer(index, scheduler.gains()[index], cost)

    def spent(self, trials: int, seconds: float) -> None:
        """A round took so long: what a trial costs is learnt from it."""
        if trials:
            pace, known = seconds / trials, self._seconds_per_trial
            self._seconds_per_trial = pace if known is None else known + PACE * (pace - known)

    def at_stake_s(self, index: int) -> float:
        """Seconds of the mix's latency that a task takes: finals of the heaviest come first."""
        scheduler = self.session.scheduler
        return scheduler.shares()[index] * scheduler.estimated_total_s()
