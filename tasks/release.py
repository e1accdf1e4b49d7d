"""What the modules of a release were made from: a manifest beside them, and what has changed.

The manifest names, for each module, the records that its schedules came from. While the store
gives the same records, the same module would come out, so nothing has to be compiled.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from tilework.errors import ModuleError

if TYPE_CHECKING:
    from tilework.record import History
    from tilework.target import Target
    from tilework.target.identity import DeviceIdentity

MANIFEST = "release.json"
"""Name of the manifest in a release's folder."""
FORMAT = 1
"""Version of the manifest; a newer one is refused."""


@dataclass(frozen=True)
class Made:
    """What a module is made from. Equal values make equal modules.

    Attributes:
        fingerprint: the network's content and precision.
        target: text of the target.
        device: id of the device whose records count; empty where the target is no machine of this
            host.
        engine: version of the code generator.
        rules: version of the sketch rules.
        records: for each workload key, the ids of the records that its schedule may come from;
            none where it is drafted.
    """

    fingerprint: str
    target: str
    device: str
    engine: str
    rules: int
    records: dict[str, tuple[str, ...]]

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
        keys = {**old.records, **self.records}
        count = sum(self.records.get(key) != old.records.get(key) for key in keys)
        return f"{count} of {len(keys)} tasks have other records" if count else ""


@dataclass(frozen=True)
class Entry:
    """One module of a release.

    Attributes:
        network, precision: for people.
        made: what the file was made from; None if no module was ever kept.
        sha256: of the file; empty likewise.
        latency_ms, untuned_ms: medians when it was compared; None where that was impossible.
        max_rel_error, reference: of the check of its output; None and empty likewise.
        refused: what a module was made from that was not kept, after this one; None if none was.
        reason: why it was not.
        wrong: whether that was for its output.
    """

    network: str
    precision: str
    made: Made | None = None
    sha256: str = ""
    latency_ms: float | None = None
    untuned_ms: float | None = None
    max_rel_error: float | None = None
    reference: str = ""
    refused: Made | None = None
    reason: str = ""
    wrong: bool = False


@dataclass(frozen=True)
class _Document:
    format: int
    modules: dict[str, Entry]


_DOCUMENT = TypeAdapter(_Document)


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

    def entry(self, file: str) -> Entry | None:
        """What is known of a file; None if nothing is, or if the file was changed since."""
        found = self._entries.get(file)
        if found is None or found.sha256 != sha256_of(self.folder / file):
            return None
        return found

    def keep(self, file: str, entry: Entry) -> None:
        """Put in an entry; what others have put in meanwhile stays. The file is written whole.

        Raises:
            ModuleError: the folder cannot be written.
        """
        self._entries = {**self._read(), file: entry}
        document = _Document(FORMAT, dict(sorted(self._entries.items())))
        path = self.folder / MANIFEST
        part = path.with_name(f".{MANIFEST}.{os.getpid()}.part")
        try:
            with open(part, "wb") as out:
                out.write(_DOCUMENT.dump_json(document, indent=1))
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, path)
        except OSError as error:
            raise ModuleError(f"cannot write {path}: {error.strerror or error}") from error
        finally:
            part.unlink(missing_ok=True)

    def _read(self) -> dict[str, Entry]:
        path = self.folder / MANIFEST
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ModuleError(f"cannot read {path}: {error.strerror or error}") from error
        try:
            version = TypeAdapter(dict[str, object]).validate_json(text).get("format")
            if isinstance(version, int) and version > FORMAT:
                raise ModuleError(
                    f"{path} was written by a newer Tilework: use that one, or another folder"
                )
            return _DOCUMENT.validate_json(text).modules
        except ValidationError:
            self.damaged = f"{path} is damaged: every module counts as changed"
            return {}


def records_of(
    keys: Sequence[str], target: Target, history: History, device: DeviceIdentity | None
) -> dict[str, tuple[str, ...]]:
    """Ids of the records that decide the schedules of workloads; see `tilework.compiler.choose`.

    The best of the device decides alone. Where it has none, those of other devices and of related
    targets may: any change of theirs counts then.
    """
    return {key: _deciding(key, target, history, device) for key in keys}


def _deciding(
    key: str, target: Target, history: History, device: DeviceIdentity | None
) -> tuple[str, ...]:
    own = history.best(key, str(target), device)
    if own is not None:
        return (own.record_id,)
    found = [] if device is None else history.hints(key, str(target), device)
    for relative in target.relatives():
        best = history.best(key, str(relative), device)
        found += [] if best is None else [best]
    return tuple(record.record_id for record in found)


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
