"""What the modules of a release were made from: a manifest beside them, and what has changed.

The manifest names, for each module, the records that its schedules came from. While the store
gives the same schedules, the same module would come out, so nothing has to be compiled.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from tasks.outcome import State
from tasks.patience import Tell, patiently
from tilework.errors import ModuleError
from tilework.whole import write_whole

if TYPE_CHECKING:
    from tasks.report import Finished
    from tilework.record import History, Record
    from tilework.target import Target
    from tilework.target.identity import DeviceIdentity

MANIFEST = "release.json"
"""Name of the manifest in a release's folder."""
FORMAT = 1
"""Version of the manifest; a newer one is refused."""


@dataclass(frozen=True)
class Source:
    """A record that a schedule may come from.

    ``schedule`` is what the record says of it: another record may say the same, such as the
    verdict of later finals with the same winner.
    """

    record: str
    schedule: str


@dataclass(frozen=True)
class Made:
    """What a module is made from. Equal schedules and all else equal make equal modules.

    Attributes:
        fingerprint: the network's content and precision.
        target: text of the target.
        device: id of the device whose records count; empty where the target is no machine of this
            host.
        engine: version of the code generator.
        rules: version of the sketch rules.
        sources: for each workload key, the records that its schedule may come from; none where
            it is drafted.
    """

    fingerprint: str
    target: str
    device: str
    engine: str
    rules: int
    sources: dict[str, tuple[Source, ...]]

    @classmethod
    def of(cls, fingerprint: str, target: Target, history: History, keys: Sequence[str]) -> Made:
        """What a network with these workloads would be made from now."""
        from tilework import __version__
        from tilework.space import space_of
        from tilework.target.identity import device_here

        device = device_here(target)
        return cls(
            fingerprint,
            str(target),
            "" if device is None else device.id,
            __version__,
            space_of(target).version,
            sources_of(keys, target, history, device),
        )

    def against(self, old: Made) -> str:
        """What is another than in an old one, in a few words; empty if nothing is."""
        said = {
            "fingerprint": "the network is another",
            "target": "the target is another",
            "device": "the device is another",
            "engine": f"it was compiled by version {old.engine}",
            "rules": "the sketch rules are others",
        }
        for name, text in said.items():
            if getattr(self, name) != getattr(old, name):
                return text
        keys = {**old.sources, **self.sources}
        count = sum(self._schedules(key) != old._schedules(key) for key in keys)
        return f"{count} of {len(keys)} tasks have another best schedule" if count else ""

    def _schedules(self, key: str) -> list[str]:
        return [source.schedule for source in self.sources.get(key, ())]


def sources_of(
    keys: Sequence[str], target: Target, history: History, device: DeviceIdentity | None
) -> dict[str, tuple[Source, ...]]:
    """The records that decide the schedules of workloads; see `tilework.compiler.choose`.

    The best of the device decides alone. Where it has none, those of other devices and of related
    targets may: any change of theirs counts then.
    """
    return {key: _deciding(key, target, history, device) for key in keys}


def _deciding(
    key: str, target: Target, history: History, device: DeviceIdentity | None
) -> tuple[Source, ...]:
    records = []
    for place, one in enumerate((target, *target.relatives())):
        own = None if device is None else history.best(key, str(one), device)
        if own is not None and place == 0:
            return (_source(own),)
        records += [own] if own is not None else history.hints(key, str(one), device)
    return tuple(map(_source, records))


def _source(record: Record) -> Source:
    row = ",".join(map(str, record.decisions))
    return Source(record.record_id, f"{record.target} {record.sketch_id}: {row}")


@dataclass(frozen=True)
class Entry:
    """One module of a release.

    Attributes:
        network, precision: for people.
        sha256: of the file that is there; empty if there is none.
        made: what it was made from; None if that is not known.
        latency_ms, untuned_ms: medians when it was compared; None where that was impossible.
        max_rel_error, reference: of the check of its output; None and empty likewise.
        refused: what a module was made from that was not kept, after this one; None if none was.
        reason: why it was not.
        wrong: whether that was for its output.
    """

    network: str
    precision: str
    sha256: str = ""
    made: Made | None = None
    latency_ms: float | None = None
    untuned_ms: float | None = None
    max_rel_error: float | None = None
    reference: str = ""
    refused: Made | None = None
    reason: str = ""
    wrong: bool = False

    def judged(self, now: Callable[[Sequence[str]], Made]) -> tuple[State | None, str]:
        """The state of a module that need not be made again, and why; None, and what has changed.

        Args:
            now: what a network with these workload keys would be made from.
        """
        if self.refused is not None and not now(list(self.refused.sources)).against(self.refused):
            return "refused" if self.wrong else "held", f"refused before: {self.reason}"
        if self.made is None:
            return None, "nothing is known of it"
        changed = now(list(self.made.sources)).against(self.made)
        return (None, changed) if changed else ("unchanged", "")

    def after(self, finished: Finished, made: Made, sha256: str) -> Entry:
        """What is known once a module was made of ``made``, and kept or refused."""
        check, standing = finished.check, finished.standing
        if finished.failed:
            wrong = check is not None and not check.passed
            return replace(self, sha256=sha256, refused=made, reason=finished.failed, wrong=wrong)
        return Entry(
            self.network,
            self.precision,
            sha256,
            made,
            None if standing is None else standing.kept.median_ms,
            None if standing is None else standing.untuned.median_ms,
            None if check is None else check.max_rel_error,
            "" if check is None else check.reference,
        )


@dataclass(frozen=True)
class _Document:
    format: int
    modules: dict[str, Entry]


_DOCUMENT = TypeAdapter(_Document)
_ANY = TypeAdapter(dict[str, object])


class Manifest:
    """The entries of a release by the names of their files, kept in its folder.

    Attributes:
        damaged: why a manifest that is there cannot be used; every module counts as changed then.

    Raises:
        ModuleError: the manifest was written by a newer version, or cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged = ""
        self._entries = self._read()

    @classmethod
    def in_folder(cls, folder: Path) -> Manifest:
        """The manifest of a folder, which is made if it is missing.

        Raises:
            ModuleError: the folder cannot be made or written, or its manifest cannot be used.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise ModuleError(f"cannot make the folder {folder}: {reason}") from error
        if not os.access(folder, os.W_OK):
            raise ModuleError(f"cannot write modules to {folder}: name a folder that is writable")
        return cls(folder)

    def entry(self, file: str) -> Entry | None:
        """What is known of a file; None if nothing is, or if the file was changed since."""
        entry = self._entries.get(file)
        if entry is None or entry.sha256 != sha256_of(self.folder / file):
            return None
        return entry

    def keep(self, file: str, entry: Entry, tell: Tell) -> None:
        """Put in an entry; what others have put in meanwhile stays. The file is written whole.

        Args:
            tell: gets a line each time that writing has to be tried again.

        Raises:
            ModuleError: the folder cannot be written.
        """
        self._entries = {**self._read(), file: entry}
        document = _Document(FORMAT, dict(sorted(self._entries.items())))
        text = _DOCUMENT.dump_json(document, indent=1)
        try:
            patiently(lambda: write_whole(self.folder / MANIFEST, text), tell)
        except OSError as error:
            place = self.folder / MANIFEST
            raise ModuleError(f"cannot write {place}: {error.strerror or error}") from error

    def _read(self) -> dict[str, Entry]:
        path = self.folder / MANIFEST
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ModuleError(f"cannot read {path}: {error.strerror or error}") from error
        try:
            version = _ANY.validate_json(text).get("format")
            if isinstance(version, int) and version > FORMAT:
                raise ModuleError(
                    f"{path} was written by a newer Tilework: use that one, or another folder"
                )
            return _DOCUMENT.validate_json(text).modules
        except ValidationError:
            self.damaged = f"{path} is damaged: every module counts as changed"
            return {}


def sha256_of(path: Path) -> str:
    """Digest of a file; empty if there is none.

    Raises:
        ModuleError: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ModuleError(f"cannot read {path}: {error.strerror or error}") from error
