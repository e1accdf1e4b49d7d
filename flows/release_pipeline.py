"""The order of a release: for each network, see what changed, compile, check, compare, keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flows.pipeline import finish, tell_of_rows
from flows.reporting import PipelineFailed, current_reporter
from storage.packages import knowledge
from tasks.device_lock import hold_device
from tasks.extraction import spec_fingerprint
from tasks.outcome import Outcome, failure
from tasks.patience import patiently
from tasks.release import Entry, Made, Manifest, sha256_of
from tasks.stages import PLAIN, Stages
from tasks.stores import open_store
from tilework.errors import NetworkError, StoreError, TileworkError
from tilework.target.identity import device_here
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from flows.zoo_settings import ReleaseSettings, ZooNetwork
    from storage import RecordStore
    from storage.packages import Knowledge
    from tilework.target import Target


@dataclass(frozen=True)
class ReleaseReport:
    """What a release came to: one outcome for each network, in the order of the settings."""

    store: str
    folder: str
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> str:
        """Why the run as a whole has failed, in one line; empty if it has not."""
        return failure(self.outcomes)


class ReleaseFailed(PipelineFailed[ReleaseReport]):
    """A release some networks of which could not be made; the outcome tells of all."""


def release_pipeline(settings: ReleaseSettings, stages: Stages = PLAIN) -> ReleaseReport:
    """Make the modules of a release whose best schedules on record have changed.

    May be killed at any moment and called again: what is made already is unchanged then.

    Raises:
        ReleaseFailed: some networks could not be made; the others are, and old modules stay.
        TileworkError: nothing could be done: the file, the folder or the store is unusable.
    """
    members = settings.members()
    opened = partial(open_store, settings.store, must_exist=True)
    store = patiently(opened, current_reporter().warn)
    force, packages = settings.force, settings.packages
    outcomes = release(members, store, settings.folder, stages, force=force, packages=packages)
    report = ReleaseReport(settings.store, settings.folder, tuple(outcomes))
    if report.failed:
        raise ReleaseFailed(report.failed, report)
    return report


def release(
    members: Sequence[ZooNetwork],
    store: RecordStore,
    folder: str,
    stages: Stages = PLAIN,
    *,
    force: bool = False,
    packages: bool = True,
) -> list[Outcome]:
    """One outcome for each network; what is wrong with one does not keep the others from theirs.

    Args:
        folder: where modules and their manifest are; empty: modules are made and not kept.
        force: make all, whether anything changed or not.
        packages: whether packages are looked at, after the store.

    Raises:
        ModuleError: the folder cannot be used.
        StoreError: the store cannot be read.
    """
    known = knowledge(store, packages=packages)
    maker = _Maker(known, open_manifest(folder), stages, force)
    for line in known.package_problems:
        current_reporter().warn(line)
    outcomes = []
    for member in members:
        try:
            outcomes.append(maker.outcome(member))
        except StoreError:
            raise
        except TileworkError as error:
            outcomes.append(lost(member, str(error)))
            current_reporter().warn(f"{member.network} for {member.target}: {error}")
    return outcomes


def lost(member: ZooNetwork, reason: str) -> Outcome:
    """The outcome of a network that cannot be compiled, or not even tuned."""
    return Outcome(member.network, member.target, member.precision, member.use, "failed", reason)


def open_manifest(folder: str) -> Manifest | None:
    """The manifest of a release's folder, which is made if it is missing; None without a folder.

    Raises:
        ModuleError: the folder cannot be used.
    """
    if not folder:
        return None
    manifest = Manifest.in_folder(Path(folder))
    if manifest.damaged:
        current_reporter().warn(manifest.damaged)
    return manifest


class _Maker:
    """Makes modules from a store, unless what is there is what would come out."""

    def __init__(
        self, known: Knowledge, manifest: Manifest | None, stages: Stages, force: bool
    ) -> None:
        self._known = known
        self._manifest = manifest
        self._stages = stages
        self._force = force
        self._taken: set[str] = set()

    def outcome(self, member: ZooNetwork) -> Outcome:
        """What becomes of a network.

        Raises:
            TileworkError: there is no such network or target, or it cannot be compiled.
        """
        target, spec, file = member.resolved_target(), member.spec(), member.file_name()
        if file in self._taken:
            raise NetworkError(f"another network is kept as {file}, too: give one an `output`")
        self._taken.add(file)
        about = Outcome(member.title, str(target), spec.precision, member.use)
        if target.run == "simulated":
            return replace(about, reason=f"nothing can be compiled: {caveat(str(target))}")
        fingerprint = spec_fingerprint(spec)
        known = None if self._manifest is None else self._manifest.entry(file)
        there = self._manifest is not None and (self._manifest.folder / file).exists()
        unknown = "nothing is known of it" if there else "no module before"
        state, reason = None, "it was asked for" if self._force else unknown
        if known is not None and not self._force:
            state, reason = known.judged(partial(self._made_from_now, fingerprint, target))
        about = replace(about, reason=reason)
        if known is not None and state is not None:
            return _described(replace(about, state=state, module=self._place(file)), known)
        return self._make(member, about, known or Entry(member.title, spec.precision))

    def _make(self, member: ZooNetwork, about: Outcome, known: Entry) -> Outcome:
        """Compile, check, compare, keep; and put down what of."""
        target, file = member.resolved_target(), member.file_name()
        reporter = current_reporter()
        reporter.stage(f"{about.network} for {target}: {about.reason}")
        extracted = self._stages.extract(member.spec(), target)
        if self._known.store is not None:
            tell_of_rows(self._known.store, extracted.tasks)
        keys = [task.workload_key for task in extracted.tasks]
        # looked up before it is compiled: what is measured meanwhile has changed the next time
        sources = self._made_from_now(extracted.fingerprint, target, keys)
        with hold_device(device_here(target), f"compile {about.network}", tell=reporter.note):
            finished = finish(extracted, target, self._known, self._place(file), self._stages)
        entry = known.after(finished, sources, "")
        if self._manifest is not None:
            entry = replace(entry, sha256=sha256_of(self._manifest.folder / file))
            self._manifest.keep(file, entry, reporter.warn)
        about = replace(about, finished=finished)
        if finished.failed:
            reporter.warn(finished.failed)
            kept = self._place(file) if entry.sha256 else ""
            about = replace(about, state="refused", reason=finished.failed, module=kept)
        else:
            about = replace(about, state="made", module=finished.module)
        return _described(about, entry)

    def _made_from_now(self, fingerprint: str, target: Target, keys: Sequence[str]) -> Made:
        """What a network with these workloads would be made from now."""
        ask = partial(Made.of, fingerprint, target, self._known, keys)
        return patiently(ask, current_reporter().warn)

    def _place(self, file: str) -> str:
        return "" if self._manifest is None else str(self._manifest.folder / file)


def _described(about: Outcome, entry: Entry) -> Outcome:
    return replace(about, latency_ms=entry.latency_ms, untuned_ms=entry.untuned_ms)
