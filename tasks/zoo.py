"""Many networks under one budget: their tasks merged, and which search gets the next round.

A task that several networks have is tuned once; it weighs what all its calls weigh together, each
network's as often as it is used. There is one search per target, since each needs devices and a
cost model of its own. All of them spend from one budget, and between two rounds it is asked anew
which search's next round promises to save most for what it costs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tasks import goals
from tasks.patience import SearchClock
from tilework.errors import StoreError, TileworkError
from tilework.record import Purpose, writer_of

if TYPE_CHECKING:
    from datetime import datetime

    from storage import RecordStore
    from tasks.report import Progress
    from tasks.run import LiveRun
    from tilework.search import TuningOptions
    from tilework.search.report import Round, TaskRow
    from tilework.task import SearchTask

PACE = 0.3
"""Weight of the last round in what a trial of a search is taken to cost."""


@dataclass(frozen=True)
class Share:
    """What one network adds to a zoo: its tasks, its calls of each, and how often it is used.

    Attributes:
        target: text of the target.
        label: the network's short name.
        fingerprint: identity of its content.
        use: relative to the other networks; above 0.
        tasks, calls: distinct tasks, and how often the network calls each.
    """

    target: str
    label: str
    fingerprint: str
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
        networks: fingerprints of the networks.
    """

    target: str
    tasks: list[SearchTask]
    weights: list[float]
    labels: list[str]
    networks: list[str]


def merge(shares: Sequence[Share]) -> list[Merged]:
    """The tasks of several networks by target, each task once."""
    total = math.fsum(share.use for share in shares)
    by_target: dict[str, dict[str, _Task]] = {}
    for share in shares:
        tasks = by_target.setdefault(share.target, {})
        for task, calls in zip(share.tasks, share.calls, strict=True):
            known = tasks.setdefault(task.workload_key, _Task(task))
            known.add(share.label, calls * share.use / total)
    return [
        Merged(
            target,
            [one.task for one in tasks.values()],
            [one.weight for one in tasks.values()],
            [one.label for one in tasks.values()],
            [share.fingerprint for share in shares if share.target == target],
        )
        for target, tasks in by_target.items()
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

    Attributes:
        run: the search; it spends from a budget that the lanes share.
    """

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self._seconds_per_trial: float | None = None

    def offer(self) -> Offer | None:
        """The search's next round; None if it is over.

        Raises:
            TuningError: every candidate of the search has failed.
        """
        session = self.run.session
        index = session.next_task()
        if index is None:
            return None
        scheduler, budget = session.scheduler, session.budget
        first = scheduler.states[index].rounds == 0
        trials = budget.round_size(first, scheduler.negligible(index))
        cost: float | None = float(trials)
        if budget.goal.seconds is not None:
            pace = self._seconds_per_trial
            cost = None if pace is None else trials * pace
        return Offer(index, scheduler.gains()[index], cost)

    def spent(self, trials: int, seconds: float) -> None:
        """A round took so long: what a trial costs is learnt from it."""
        if trials:
            pace, known = seconds / trials, self._seconds_per_trial
            self._seconds_per_trial = pace if known is None else known + PACE * (pace - known)

    def at_stake_s(self, index: int) -> float:
        """Seconds of the mix's latency that a task takes."""
        scheduler = self.run.session.scheduler
        return scheduler.shares()[index] * scheduler.estimated_total_s()


class Zoo:
    """Searches that spend from one budget, the most promising one first.

    Args:
        runs: one for each target; what they have spent before counts.
        options: the budget of all together.
        failed: targets for which there could be no search, and why.

    Attributes:
        lanes: the searches.
        failed: targets whose search could not begin or not go on, and why.
        resumed_rounds: rounds that the store held when the searches were opened.
        budget: what all of them have spent, and may spend.
    """

    def __init__(
        self,
        runs: Sequence[LiveRun],
        options: TuningOptions,
        failed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        from tilework.search.budget import Budget

        self.lanes = [Lane(run) for run in runs]
        self.failed = dict(failed)
        self.resumed_rounds = sum(run.resumed_rounds for run in runs)
        clock = SearchClock()
        self.budget = Budget(options, sum(len(run.plan.tasks) for run in runs), clock)
        self.budget.trials = sum(run.session.budget.trials for run in runs)
        self.budget.restore_time(time for run in runs for time in _rounds_ended(run))
        for run in runs:
            run.session.ledger.budget = self.budget
            run.clock = clock  # what one of them waits for costs none of them

    @property
    def id(self) -> str:
        """The same searches have the same id."""
        ids = " ".join(sorted(lane.run.plan.run_id for lane in self.lanes))
        return hashlib.sha256(ids.encode()).hexdigest()[:16]

    def extend(self, store: RecordStore) -> None:
        """Spend the budget on top of what was spent when this extension was first begun."""
        began = goals.began(store, self.id, self.budget.trials, self.budget.elapsed_s)
        self.budget.goal = self.budget.goal.beyond(*began)

    def next_round(self) -> tuple[Lane, int] | None:
        """Whose turn it is, and which task it measures; None if all searches are over.

        A search that cannot go on is among `failed` from then on; the others go on.
        """
        lanes, offers = [], []
        for lane in self._live():
            with self.attempt(lane):
                offer = lane.offer()
                if offer is not None:
                    lanes.append(lane)
                    offers.append(offer)
        if not offers:
            return None
        place = choose(offers)
        return lanes[place], offers[place].index

    def next_final(self) -> tuple[Lane, int] | None:
        """Whose fastest candidates of which task are timed in turns next; None: no more.

        What takes most of the mix's latency comes first.
        """
        finals = []
        for lane in self._live():
            index = lane.run.next_final()
            if index is not None:
                finals.append((lane, index))
        return max(finals, key=lambda one: one[0].at_stake_s(one[1]), default=None)

    def _live(self) -> list[Lane]:
        return [lane for lane in self.lanes if str(lane.run.target) not in self.failed]

    @contextmanager
    def attempt(self, lane: Lane) -> Iterator[None]:
        """What fails in here ends one search, and not the others; the store's errors end all."""
        try:
            yield
        except StoreError:
            raise
        except TileworkError as error:
            self.failed[str(lane.run.target)] = str(error)

    @property
    def stopped(self) -> str:
        """Why the search ended."""
        reasons = [lane.run.session.result().stopped for lane in self._live()]
        return "; ".join(dict.fromkeys(reasons)) or "no search could go on"

    def progress(self, lane: Lane | None = None, last: Round | None = None) -> Progress:
        """Where all searches stand together, after the round ``last`` of one of them."""
        rows: list[TaskRow] = []
        parts = []
        current = None
        disturbed: list[tuple[int, float]] = []
        for one in self.lanes:
            part = one.run.progress(last if one is lane else None)
            if part.current is not None:
                current = part.current + len(rows)
            disturbed += [(len(rows) + index, ratio) for index, ratio in part.disturbed]
            mark = f" ({part.target})" if len(self.lanes) > 1 else ""
            rows += [
                replace(row, id=len(rows) + row.id, desc=row.desc + mark) for row in part.rows
            ]
            parts.append(part)
        shown = parts[0 if lane is None else self.lanes.index(lane)]
        return replace(
            shown,
            target=" + ".join(part.target for part in parts),
            rows=tuple(rows),
            rounds=sum(part.rounds for part in parts),
            estimated_total_s=math.fsum(part.estimated_total_s for part in parts),
            finals=sum(part.finals for part in parts),
            drifted_rounds=sum(part.drifted_rounds for part in parts),
            disturbed=tuple(disturbed),
            current=current,
        )


def _rounds_ended(run: LiveRun) -> list[datetime]:
    """When each round of a run that the store holds was committed."""
    ended: dict[tuple[int, str], datetime] = {}
    for task in run.session.measured:
        for record in run.store.of(task.workload_key, str(task.target)):
            searched = record.purpose in (Purpose.search, Purpose.refused)
            if searched and record.run_id == run.plan.run_id:
                part = (record.round, writer_of(record))
                ended[part] = max(record.created_at, ended.get(part, record.created_at))
    return list(ended.values())
