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
from flows.reporting import PipelineFailed, current_reporter
from tasks import goals
from tasks.device_lock import hold_device
from tasks.outcome import Outcome, failure
from tasks.patience import patiently
from tasks.plan import SearchPlan
from tasks.stages import PLAIN, Stages
from tasks.stores import open_store, other_uses
from tasks.zoo import Lane, Merged, Share, Zoo, merge
from tilework.errors import StoreError, TargetError, TileworkError
from tilework.space import space_of
from tilework.target.identity import device_here, identity_of

if TYPE_CHECKING:
    from flows.zoo_settings import ZooNetwork, ZooSettings
    from storage import RecordStore
    from tasks.report import Progress
    from tasks.run import LiveRun
    from tilework.search import TuningOptions
    from tilework.target.identity import DeviceIdentity


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


class ZooFailed(PipelineFailed[ZooReport]):
    """Some networks of a zoo could not be tuned or made; the outcome tells of all."""


def zoo_pipeline(settings: ZooSettings, stages: Stages = PLAIN) -> ZooReport:
    """Tune many networks under one budget, then make the module of each.

    May be killed at any moment and called again with equal settings: finished rounds are found in
    the store and count towards the budget, and modules that are made are not made again.

    Raises:
        ZooFailed: some networks could not be tuned or made; the others are, and old modules stay.
        TileworkError: nothing could be done: the file, the folder or the store is unusable.
    """
    reporter = current_reporter()
    members = settings.members()
    store = patiently(lambda: open_store(settings.store), reporter.warn)
    patiently(store.check_writable, reporter.warn)
    open_manifest(settings.folder)  # a folder that cannot be used ends the run before its search
    gone: dict[int, str] = {}
    shares = _extract(members, gone, stages)
    searched = merge(list(shares.values()))
    with ExitStack() as devices:
        for device in _devices(searched):
            devices.enter_context(
                hold_device(device, f"tune {len(shares)} networks", tell=reporter.note)
            )
        with ExitStack() as workers:
            zoo = _open(settings, searched, store, stages, workers)
            if settings.extend and zoo.lanes:
                patiently(lambda: zoo.extend(store), reporter.warn)
            known = [_bests(lane.run) for lane in zoo.lanes]
            _search(zoo, stages)
            progress = zoo.progress() if zoo.lanes else None
        for lane in zoo.lanes:
            stages.distill(lane.run)
        for place, share in shares.items():
            if reason := zoo.failed.get(share.target):
                gone[place] = reason
        outcomes = _release(members, gone, store, settings.folder, stages)
        patiently(lambda: goals.done(store, zoo.id), reporter.warn)
    report = ZooReport(
        settings.store,
        settings.folder,
        outcomes,
        progress,
        stopped=zoo.stopped,
        resumed_rounds=zoo.resumed_rounds,
        searches=tuple(
            _searched(lane.run, bests) for lane, bests in zip(zoo.lanes, known, strict=True)
        ),
    )
    if report.failed:
        raise ZooFailed(report.failed, report)
    return report


def _devices(searched: Sequence[Merged]) -> list[DeviceIdentity]:
    """The devices of the searches, in an order in which two runs never wait for each other."""
    devices = [device_here(merged.tasks[0].target) for merged in searched]
    by_id = {device.id: device for device in devices if device is not None}
    return [by_id[name] for name in sorted(by_id)]


def _extract(
    members: Sequence[ZooNetwork], gone: dict[int, str], stages: Stages
) -> dict[int, Share]:
    """The tasks of each network by its place; a network that is not to be had is gone."""
    reporter = current_reporter()
    shares = {}
    for place, member in enumerate(members):
        try:
            target = member.resolved_target()
            if lacking := target.missing_on_host():
                raise TargetError(
                    f"'{target}' needs {', '.join(lacking)}, which this machine lacks: "
                    "tune for it there"
                )
            reporter.stage(f"{member.title} for {target}: extracting tasks")
            extracted = stages.extract(member.spec(), target)
        except TileworkError as error:
            _lose(gone, place, member, error)
            continue
        shares[place] = Share(
            str(target),
            extracted.spec.label,
            extracted.fingerprint,
            member.use,
            extracted.tasks,
            extracted.weights,
        )
    return shares


def _lose(gone: dict[int, str], place: int, member: ZooNetwork, error: TileworkError) -> None:
    """A network goes no further; the others do."""
    gone[place] = str(error)
    current_reporter().warn(f"{member.network} is left out: {error}")


def _open(
    settings: ZooSettings,
    searched: Sequence[Merged],
    store: RecordStore,
    stages: Stages,
    workers: ExitStack,
) -> Zoo:
    """A search for each target, with what the store knows of it; ``workers`` ends processes."""
    from tilework.measure import Measurer

    reporter = current_reporter()
    options = settings.tuning_options(sum(len(merged.networks) for merged in searched))
    runs, failed = [], {}
    for merged in searched:
        try:
            target = merged.tasks[0].target
            measurer = workers.enter_context(Measurer(target, seed=settings.seed))
            plan = _plan(settings, merged, options)
            runs.append(stages.prepare(plan, store, measurer, reporter.warn))
        except StoreError:
            raise
        except TileworkError as error:
            failed[merged.target] = str(error)
            reporter.warn(f"networks for {merged.target} are left out: {error}")
    for run in runs:
        for line in other_uses(store, run.session.measured):
            reporter.note(line)
    for line in store.problems:
        reporter.warn(line)
    return Zoo(runs, options, failed)


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
        label=merged.labels,
        reproduce=f"tilework reproduce {{record_id}} --store {shlex.quote(settings.store)}",
    )


def _search(zoo: Zoo, stages: Stages) -> None:
    """Rounds of whichever search promises most, until all are over; then finals."""
    if not zoo.lanes:
        return
    reporter = current_reporter()
    _introduce(zoo)
    reporter.stage("searching")
    warned: dict[Lane, int] = {}
    while (turn := zoo.next_round()) is not None:
        lane, index = turn
        began = time.monotonic()
        with zoo.attempt(lane):
            finished = stages.round(lane.run, index)
            if finished is not None:
                lane.spent(len(finished.records), time.monotonic() - began)
                reporter.progress(zoo.progress(lane, finished))
        failed = lane.run.session.failures
        for one in failed[warned.get(lane, 0) :]:
            reporter.warn(str(one))
        warned[lane] = len(failed)
    reporter.stage(f"search over: {zoo.stopped}; timing the fastest candidates in turns")
    while (turn := zoo.next_final()) is not None:
        lane, index = turn
        with zoo.attempt(lane):
            finished = stages.final(lane.run, index)
            if finished is not None:
                reporter.progress(zoo.progress(lane, finished))
    for target, reason in zoo.failed.items():
        reporter.warn(f"networks for {target} are left out: {reason}")


def _introduce(zoo: Zoo) -> None:
    reporter = current_reporter()
    for lane in zoo.lanes:
        plan = lane.run.plan
        names = ", ".join(dict.fromkeys(plan.label))
        reporter.note(f"{lane.run.target}: {len(plan.tasks)} distinct tasks of {names}")
        if lane.run.start.warning:
            reporter.warn(lane.run.start.warning)
        reporter.note(f"{lane.run.target}: begins with {lane.run.start.text}")
    if zoo.resumed_rounds:
        reporter.note(
            f"found {zoo.resumed_rounds} finished rounds of this run "
            f"({zoo.budget.trials} trials, {zoo.budget.elapsed_s:.0f} s): going on from there"
        )
    reporter.progress(zoo.progress())


def _bests(run: LiveRun) -> dict[str, str]:
    """The best record of each task of a search, by workload."""
    bests = run.session.result().best
    return {record.workload_key: record.record_id for record in bests if record is not None}


def _searched(run: LiveRun, known: dict[str, str]) -> Searched:
    """What a search has found since the best records were those that were ``known``."""
    now = _bests(run)
    changed = sum(record != known.get(key) for key, record in now.items())
    return Searched(str(run.target), run.plan.run_id, changed)


def _release(
    members: Sequence[ZooNetwork],
    gone: dict[int, str],
    store: RecordStore,
    folder: str,
    stages: Stages,
) -> tuple[Outcome, ...]:
    """An outcome for each network: those that are gone, and what became of the others."""
    there = [place for place in range(len(members)) if place not in gone]
    released = release([members[place] for place in there], store, folder, stages)
    outcomes = dict(zip(there, released, strict=True))
    for place, reason in gone.items():
        outcomes[place] = lost(members[place], reason)
    return tuple(outcomes[place] for place in range(len(members)))
