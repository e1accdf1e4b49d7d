"""The order of tuning many networks: extract, one search a target by turns, then a release."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.release_pipeline import lost, open_manifest, release
from flows.reporting import current_reporter
from tasks.release import Outcome, failure
from tasks.run import SearchPlan
from tasks.stages import PLAIN, Stages
from tasks.stores import open_store
from tasks.zoo import Lane, Merged, Share, Zoo, merge
from tilework.errors import RunFailed, StoreError, TileworkError
from tilework.space import space_of
from tilework.target.identity import identity_of

if TYPE_CHECKING:
    from flows.zoo_settings import ZooNetwork, ZooSettings
    from storage import RecordStore
    from tasks.report import Progress
    from tilework.search import TuningOptions


@dataclass(frozen=True)
class Searched:
    """One search of a zoo: its target, its run id, and how many tasks have a new best record."""

    target: str
    run_id: str
    changed: int


@dataclass(frozen=True)
class ZooReport:
    """The outcome of tuning many networks.

    Attributes:
        store, folder: where records and modules are.
        outcomes: one for each network, in the order of the settings.
        progress: of all searches together; None if there was nothing to search.
        stopped: why the search ended.
        resumed_rounds: found in the store and not measured again.
        searches: one for each target.
    """

    store: str
    folder: str
    outcomes: tuple[Outcome, ...]
    progress: Progress | None
    stopped: str = ""
    resumed_rounds: int = 0
    searches: tuple[Searched, ...] = ()

    @property
    def failed(self) -> str:
        """Why the run as a whole has failed, in one line; empty if it has not."""
        return failure(self.outcomes)


class ZooFailed(RunFailed):
    """Some networks of a zoo could not be tuned or made; ``report`` tells of all."""

    def __init__(self, report: ZooReport) -> None:
        super().__init__(report.failed)
        self.report = report


def zoo_pipeline(settings: ZooSettings, stages: Stages = PLAIN) -> ZooReport:
    """Tune many networks under one budget, then make the module of each.

    May be killed at any moment and called again with equal settings: finished rounds are found in
    the store and count towards the budget, and modules that are made are not made again.

    Raises:
        ZooFailed: some networks could not be tuned or made; the others are, and old modules stay.
        TileworkError: nothing could be done: the file, the folder or the store is unusable.
    """
    members = settings.members()
    store = open_store(settings.store)
    store.check_writable()
    open_manifest(settings.folder)  # a folder that cannot be used ends the run before its search
    gone: dict[int, str] = {}
    shares = _extract(members, gone, stages)
    with ExitStack() as stack:
        zoo = _open(settings, shares, gone, store, stages, stack)
        known = {lane: _bests(lane) for lane in zoo.lanes}
        _search(zoo, stages)
        for lane in zoo.lanes:
            stages.distill(lane.run)
    for place, share in shares.items():
        for lane in zoo.lanes:
            if lane.failed and str(lane.run.target) == share.target:
                gone[place] = lane.failed
    report = ZooReport(
        settings.store,
        settings.folder,
        _release(members, gone, store, settings.folder, stages),
        zoo.progress() if zoo.lanes else None,
        stopped=zoo.stopped,
        resumed_rounds=zoo.resumed_rounds,
        searches=tuple(_searched(lane, known[lane]) for lane in zoo.lanes),
    )
    if report.failed:
        raise ZooFailed(report)
    return report


def _extract(
    members: Sequence[ZooNetwork], gone: dict[int, str], stages: Stages
) -> dict[int, Share]:
    """The tasks of each network by its place; a network that is not to be had is gone."""
    reporter = current_reporter()
    shares = {}
    for place, member in enumerate(members):
        try:
            target = member.resolved_target()
            reporter.stage(f"{member.network} for {target}: extracting tasks")
            found = stages.extract(member.spec(), target)
        except TileworkError as error:
            _lose(gone, place, member, error)
            continue
        shares[place] = Share(
            str(target),
            found.spec.label,
            found.fingerprint,
            member.use,
            found.tasks,
            found.weights,
        )
    return shares


def _lose(gone: dict[int, str], place: int, member: ZooNetwork, error: TileworkError) -> None:
    """A network goes no further; the others do."""
    gone[place] = str(error)
    current_reporter().warn(f"{member.network} is left out: {error}")


def _open(
    settings: ZooSettings,
    shares: dict[int, Share],
    gone: dict[int, str],
    store: RecordStore,
    stages: Stages,
    stack: ExitStack,
) -> Zoo:
    """A search for each target, with what the store knows of it; ``stack`` ends their workers."""
    from tilework.measure import Measurer

    reporter = current_reporter()
    options = settings.tuning_options(len(shares))
    runs = []
    for merged in merge(list(shares.values())):
        target = merged.tasks[0].target
        try:
            measurer = stack.enter_context(Measurer(target, seed=settings.seed))
            run = stages.prepare(_plan(settings, merged, options), store, measurer, reporter.warn)
        except StoreError:
            raise
        except TileworkError as error:
            reporter.warn(f"networks for {target} are left out: {error}")
            gone.update({p: str(error) for p, one in shares.items() if one.target == str(target)})
            continue
        runs.append(run)
    for problem in store.problems:
        reporter.warn(problem)
    return Zoo(runs, options)


def _plan(settings: ZooSettings, merged: Merged, options: TuningOptions) -> SearchPlan:
    """What is searched for one target. The same networks find their finished rounds again.

    How much each is used is no part of the identity, like budgets: another mix goes on with what
    was measured.
    """
    target = merged.tasks[0].target
    identity = {
        "networks": sorted(set(merged.networks)),
        "target": merged.target,
        "effort": settings.effort,
        "seed": settings.seed,
        "rules": space_of(target).version,
        "device": identity_of(target).id,
    }
    text = json.dumps(identity, sort_keys=True)
    return SearchPlan(
        merged.tasks,
        merged.weights,
        options,
        run_id=hashlib.sha256(text.encode()).hexdigest()[:16],
        seed=settings.seed,
        label="+".join(dict.fromkeys(merged.labels)),
        reproduce=f"tilework reproduce {{record_id}} --store {shlex.quote(settings.store)}",
    )


def _search(zoo: Zoo, stages: Stages) -> None:
    """Rounds of whichever search promises most, until all are over; then finals."""
    if not zoo.lanes:
        return
    reporter = current_reporter()
    _introduce(zoo)
    reporter.stage("searching")
    told: dict[Lane, int] = {}
    while (turn := zoo.next_round()) is not None:
        lane, index = turn
        began = time.monotonic()
        with zoo.attempt(lane):
            finished = stages.round(lane.run, index)
            if finished is not None:
                lane.spent(len(finished.records), time.monotonic() - began)
                reporter.progress(zoo.progress(lane, finished))
        failed = lane.run.session.failures
        for one in failed[told.get(lane, 0) :]:
            reporter.warn(str(one))
        told[lane] = len(failed)
    reporter.stage(f"search over: {zoo.stopped}; timing the fastest candidates in turns")
    while (turn := zoo.next_final()) is not None:
        lane, index = turn
        with zoo.attempt(lane):
            finished = stages.final(lane.run, index)
            if finished is not None:
                reporter.progress(zoo.progress(lane, finished))
    for lane in zoo.lanes:
        if lane.failed:
            reporter.warn(f"networks for {lane.run.target} are left out: {lane.failed}")


def _introduce(zoo: Zoo) -> None:
    reporter = current_reporter()
    for lane in zoo.lanes:
        plan = lane.run.plan
        reporter.note(f"{lane.run.target}: {len(plan.tasks)} distinct tasks of {plan.label}")
    if zoo.resumed_rounds:
        reporter.note(
            f"found {zoo.resumed_rounds} finished rounds of this run "
            f"({zoo.budget.trials} trials, {zoo.budget.elapsed_s:.0f} s): going on from there"
        )
    reporter.progress(zoo.progress())


def _bests(lane: Lane) -> dict[str, str]:
    """The best record of each task of a search, by workload."""
    found = lane.run.session.result().best
    return {record.workload_key: record.record_id for record in found if record is not None}


def _searched(lane: Lane, known: dict[str, str]) -> Searched:
    """What a search has found since the best records were those that were ``known``."""
    now = _bests(lane)
    changed = sum(record != known.get(key) for key, record in now.items())
    return Searched(str(lane.run.target), lane.run.plan.run_id, changed)


def _release(
    members: Sequence[ZooNetwork],
    gone: dict[int, str],
    store: RecordStore,
    folder: str,
    stages: Stages,
) -> tuple[Outcome, ...]:
    """An outcome for each network: those that are gone, and what became of the others."""
    there = [place for place in range(len(members)) if place not in gone]
    made = release([members[place] for place in there], store, folder, stages)
    outcomes = dict(zip(there, made, strict=True))
    for place, reason in gone.items():
        outcomes[place] = lost(members[place], reason)
    return tuple(outcomes[place] for place in range(len(members)))
