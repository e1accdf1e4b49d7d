"""One run of the canary, whole: time the frozen kernels, judge, tell, and do what can be done."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from tasks.canary.drift import after
from tasks.canary.frozen import Canary, freeze, task_of
from tasks.canary.journal import KIND, Journal, keep_journal, read_journal
from tasks.canary.probe import Probed, probe
from tasks.canary.remedy import Remedy, due, remedy
from tasks.canary.report import CanaryReport, kernels_line, machine_line
from tasks.device_lock import DeviceBusy, hold_device
from tasks.patience import patiently
from tilework.errors import TileworkError

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.measure import Measurer
    from tilework.target import Target
    from tilework.target.identity import DeviceIdentity
    from tilework.task import SearchTask

TOLD_AGAIN = timedelta(hours=23)
"""A machine that stays slow is told of once a day, not every hour."""


class CanaryError(TileworkError):
    """A canary that cannot run here."""


@dataclass(frozen=True)
class CanaryPlan:
    """What the canary does.

    Attributes:
        seconds: that timing takes, about; each kernel is timed a few times in any case.
        trials: that tuning each kernel that suffers may spend; 0 tunes none.
        host: whose readings these are: a machine that changes its name needs one that stays.
        refreeze: choose kernels anew and learn what is usual again.
        clock: the time of day; time runs faster in tests.
    """

    seconds: float = 10.0
    trials: int = 64
    host: str = ""
    refreeze: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


OpenMeasurer = Callable[["Target"], AbstractContextManager["Measurer"]]
"""Opens what kernels are timed with. A test passes one that is slower than the device: that is how
`benchmarks/three_weeks.py` makes a drift."""


def run_canary(
    target: Target,
    store: RecordStore,
    plan: CanaryPlan,
    tell: Callable[[str], None],
    open_measurer: OpenMeasurer | None = None,
) -> CanaryReport:
    """Time the frozen kernels once, judge all readings so far, and mend slow kernels.

    Skipped where the device is held by another run, and where the store has no record of the
    device.

    Args:
        target: of this machine.
        store: where the records of its kernels are; readings and journal go there, too.
        plan: how.
        tell: gets a line for whoever watches.
        open_measurer: see `OpenMeasurer`.

    Raises:
        CanaryError: nothing can be timed for this target.
        TileworkError: the store or the device is unusable.
    """
    from tilework.target.identity import device_here

    device = device_here(target)
    if device is None or target.run == "simulated":
        raise CanaryError(f"no kernel can be timed here for target {str(target)!r}")
    try:
        with hold_device(device, "canary", wait=False):
            return _Canary(target, device, store, plan, tell, open_measurer or _open).run()
    except DeviceBusy as busy:
        return CanaryReport(device.name, device.id, str(target), skipped=f"skipped: {busy}")


def _open(target: Target) -> Measurer:
    from tilework.measure import Measurer

    return Measurer(target)


@dataclass(eq=False)
class _Canary:
    """One run; its steps share the device, the store and the journal."""

    target: Target
    device: DeviceIdentity
    store: RecordStore
    plan: CanaryPlan
    tell: Callable[[str], None]
    open_measurer: OpenMeasurer
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = self.plan.host or platform.node()
        self.documents = self.store.documents(KIND)

    def run(self) -> CanaryReport:
        """See `run_canary`."""
        journal = self._journal()
        tasks = list(self._tasks(journal))
        blank = CanaryReport(self.device.name, self.device.id, str(self.target))
        if not tasks:
            line = "skipped: the store has no kernel of this device; tune something first"
            return replace(blank, skipped=line, notes=tuple(self.notes))
        with self.open_measurer(self.target) as measurer:
            probed = probe(tasks, measurer, self.plan.seconds)
            journal = self._with_codes(self._with_records(journal, tasks, probed), probed)
            before = journal.watch
            journal = replace(journal, watch=after(before, probed.reading))
            journal, machine_alert = self._machine_alert(journal)
            self._keep(journal)
            kernels_alert = kernels_line(journal, before)
            report = replace(
                blank,
                watch=journal.watch,
                kernels={canary.name: canary.workload for canary in journal.canaries},
                machine_alert=machine_alert,
                kernels_alert=kernels_alert,
            )
            remedies = self._remedied(journal, dict(tasks), measurer)
        return replace(report, remedies=remedies, notes=tuple(self.notes))

    # --- the journal ---------------------------------------------------------------------------

    def _journal(self) -> Journal:
        """The journal so far; kernels are frozen if it is new or its rows mean nothing now."""
        from tilework.space import space_of

        rules = space_of(self.target).version
        fresh = Journal(self.device.id, self.device.name, self.host, str(self.target), rules)
        if self.plan.refreeze:
            return self._frozen(fresh)
        journal = read_journal(self.documents, self.device.id, self.host, str(self.target))
        if journal is None:
            return self._frozen(fresh)
        journal = self._without_lost(journal)
        if journal.rules_version != rules:
            self.notes.append("the sketch rules changed: other kernels are frozen")
            return self._frozen(
                replace(fresh, rounds=journal.rounds, remedied_at=journal.remedied_at)
            )
        return journal if journal.canaries else self._frozen(journal)

    def _without_lost(self, journal: Journal) -> Journal:
        """The journal without kernels of which the store does not know what they compute."""
        lost = [c for c in journal.canaries if self.store.workload(c.workload_key) is None]
        for canary in lost:
            self.notes.append(f"{canary.workload}: the store does not keep it any more")
        return journal.replaced([canary.name for canary in lost], ())

    def _frozen(self, journal: Journal) -> Journal:
        chosen = freeze(self.store, self.target, self.device)
        for canary in chosen:
            self.notes.append(f"frozen: {canary.workload}")
        return replace(journal, canaries=chosen)

    def _tasks(self, journal: Journal) -> Iterator[tuple[Canary, SearchTask]]:
        for canary in journal.canaries:
            task = task_of(self.store, canary, self.target)
            if task is not None:
                yield canary, task

    def _keep(self, journal: Journal) -> None:
        patiently(lambda: keep_journal(self.documents, journal), self.tell)

    def _with_codes(self, journal: Journal, probed: Probed) -> Journal:
        """Keeps the codes that were timed; that a row has other code now is worth a line."""
        canaries = []
        for canary in journal.canaries:
            one = probed.measured.get(canary.name)
            code = one.code_hash if one is not None else ""
            if code and canary.code_hash and code != canary.code_hash:
                self.notes.append(f"{canary.workload}: the same schedule has other code now")
            canaries.append(replace(canary, code_hash=code or canary.code_hash))
        return replace(journal, canaries=tuple(canaries))

    def _with_records(
        self, journal: Journal, tasks: Sequence[tuple[Canary, SearchTask]], probed: Probed
    ) -> Journal:
        """Keeps the reading in the dataset: a round for each kernel."""
        from tilework.measure.records import to_records
        from tilework.record import Purpose, new_writer

        writer = new_writer()
        for position, (canary, task) in enumerate(tasks):
            records = to_records(
                task,
                [probed.measured[canary.name]],
                run_id=journal.run_id,
                round=journal.rounds + position,
                network="canary",
                purpose=Purpose.canary,
                writer=writer,
                device=self.device,
            )
            patiently(partial(self.store.append, records), self.tell)
        return replace(journal, rounds=journal.rounds + len(tasks))

    # --- what is told --------------------------------------------------------------------------

    def _machine_alert(self, journal: Journal) -> tuple[Journal, str]:
        """What is to be told of the machine: when it becomes slow, and once a day as it stays."""
        machine, now = journal.watch.machine, self.plan.clock()
        if not machine.slow:
            if journal.told_at is not None:
                self.notes.append("the machine is itself again")
            return replace(journal, told_at=None), ""
        if journal.told_at is not None and (
            machine.side <= 0 or now - journal.told_at < TOLD_AGAIN
        ):
            return journal, ""
        return replace(journal, told_at=now), machine_line(journal)

    # --- what is done --------------------------------------------------------------------------

    def _remedied(
        self, journal: Journal, tasks: dict[Canary, SearchTask], measurer: Measurer
    ) -> tuple[Remedy, ...]:
        """Finals again, then tuning, of the kernels that are slow; at most once a day."""
        slow, now = journal.watch.slow, self.plan.clock()
        if not slow or not due(journal.remedied_at, now):
            return ()
        journal = replace(journal, remedied_at=now)
        self._keep(journal)  # killed from here on, it is not tried again before tomorrow
        done = []
        for canary, task in tasks.items():
            if canary.name not in slow:
                continue
            self.tell(f"{canary.workload}: running its finals again")
            track = journal.watch.kernels[canary.name]
            outcome = remedy(
                canary,
                task,
                track.usual[0],
                track.limit,
                self.store,
                self.device,
                measurer,
                final=(journal.run_id, journal.rounds),
                tuning_id=_tuning_id(journal, canary, now),
                trials=self.plan.trials,
                tell=self.tell,
            )
            done.append(outcome)
            journal = replace(journal, rounds=journal.rounds + 1)
            if outcome.best is not None:
                journal = journal.replaced([canary.name], [Canary.of(outcome.best)])
            self._keep(journal)
        return tuple(done)


def _tuning_id(journal: Journal, canary: Canary, now: datetime) -> str:
    text = f"{journal.run_id}\n{canary.workload_key}\n{now:%Y-%m-%d}"
    return "ct" + hashlib.sha256(text.encode()).hexdigest()[:14]
