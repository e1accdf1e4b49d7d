"""What the canary keeps from run to run, as a document in the store beside the records."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from tasks.canary.drift import Watch, forget
from tasks.canary.frozen import Canary
from tilework.errors import StoreError

if TYPE_CHECKING:
    from storage.documents import Documents

KIND = "canary"
"""Kind of the documents, see `storage.documents`."""


@dataclass(frozen=True)
class Journal:
    """The canary of one device of one host, for one target.

    Equal devices of several hosts share their records and not their troubles: each host has a
    journal of its own.

    Attributes:
        device: id of the device.
        device_name: as people know it.
        host: whose troubles these are.
        rules_version: of the sketch rules that the frozen rows belong to.
        rounds: how many rounds of records were made; the number of the next one.
        watch: what they say.
        told_at: when the machine's drift was told last.
        remedied_at: when kernels were last measured and tuned again.
    """

    device: str
    device_name: str
    host: str
    target: str
    rules_version: int
    canaries: tuple[Canary, ...] = ()
    rounds: int = 0
    watch: Watch = field(default_factory=Watch)
    told_at: datetime | None = None
    remedied_at: datetime | None = None

    @property
    def name(self) -> str:
        """Of the document: the device, and a hash of what it was measured with."""
        return journal_name(self.device, self.host, self.target)

    @property
    def run_id(self) -> str:
        """Of the canary's records."""
        text = f"{self.device}\n{self.host}\n{self.target}"
        return "ca" + hashlib.sha256(text.encode()).hexdigest()[:14]

    def replaced(self, old: Sequence[str], new: Sequence[Canary]) -> Journal:
        """The same with other kernels in place of some; the new ones are learnt anew."""
        kept = [canary for canary in self.canaries if canary.name not in old]
        watch = forget(self.watch, old)
        return replace(self, canaries=(*kept, *new), watch=watch)


def journal_name(device: str, host: str, target: str) -> str:
    """The document's name."""
    digest = hashlib.sha256(f"{host}\n{target}".encode()).hexdigest()[:8]
    return f"{device}-{digest}"


_FORM = TypeAdapter(Journal)


def read_journal(documents: Documents, device: str, host: str, target: str) -> Journal | None:
    """The journal that was kept, or None.

    Raises:
        StoreError: it is there and cannot be read.
    """
    content = documents.read(journal_name(device, host, target))
    if content is None:
        return None
    try:
        return _FORM.validate_json(content)
    except ValidationError as error:
        what = error.errors()[0]
        raise StoreError(
            f"the canary's journal {journal_name(device, host, target)!r} cannot be read "
            f"({what['msg']}): `tilework canary --refreeze` begins a new one"
        ) from None


def keep_journal(documents: Documents, journal: Journal) -> None:
    """Keep the journal, in place of the one before."""
    documents.keep(journal.name, _FORM.dump_json(journal))
