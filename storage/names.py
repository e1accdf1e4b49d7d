"""Names of record files: what is in a file stands in its name, so that a listing is an index.

A round's file is named by its run, its number, the task that it measured and its records. Equal
names mean equal records, so a file is created if it is absent, and any number of writers may write
the same store: `round-{run}-{round}-{key}-{digest}.parquet`. Compacted files hold the records of
many rounds: `compact-{digest}.parquet`. Any other name says nothing of what is inside.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

SUFFIX = ".parquet"

_HEX16 = re.compile(r"[0-9a-f]{16}")
_ROUND = re.compile(r"round-([0-9a-f]{16})-(\d{6,})-([0-9a-f]{8})-([0-9a-f]{8})\.parquet")
_COMPACT = re.compile(r"compact-([0-9a-f]{16})\.parquet")
_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80


@dataclass(frozen=True)
class RoundName:
    """What the name of a round's file says.

    Attributes:
        run: `run_part` of the run's id.
        round: its number in the run.
        key: `key_part` of the workload and target of all its records.
        digest: hash of the ids of its records.
    """

    run: str
    round: int
    key: str
    digest: str

    def __str__(self) -> str:
        return f"round-{self.run}-{self.round:06d}-{self.key}-{self.digest}{SUFFIX}"

    @classmethod
    def of(
        cls, run_id: str, round: int, workload_key: str, target: str, record_ids: Iterable[str]
    ) -> RoundName:
        """The name of the file of these records, which all are of one round and one task."""
        key, digest = key_part(workload_key, target), digest_part(record_ids)
        return cls(run_part(run_id), round, key, digest)

    @classmethod
    def parse(cls, name: str) -> RoundName | None:
        """Reads a file's name, folders before it allowed; None if it is of another form."""
        parts = _ROUND.fullmatch(name.rpartition("/")[2])
        return parts and cls(parts[1], int(parts[2]), parts[3], parts[4])


def compact_name(replaced: Iterable[str]) -> str:
    """The file that holds the records of the files of these names, and replaces them."""
    return f"compact-{_hash(chr(10).join(sorted(replaced)), 16)}{SUFFIX}"


def is_compact(name: str) -> bool:
    """Whether a file's name, folders before it allowed, is that of a compacted file."""
    return _COMPACT.fullmatch(name.rpartition("/")[2]) is not None


def run_part(run_id: str) -> str:
    """16 hexadecimal digits that stand for a run: its id, where that has this form already."""
    return run_id if _HEX16.fullmatch(run_id) else _hash(run_id, 16)


def key_part(workload_key: str, target: str) -> str:
    """8 hexadecimal digits that stand for a workload on a target. Two may share them, rarely."""
    return _hash(f"{workload_key}\n{target}", 8)


def digest_part(record_ids: Iterable[str]) -> str:
    """8 hexadecimal digits that stand for records, whatever their order."""
    return _hash("\n".join(sorted(record_ids)), 8)


def text_name(text: str) -> str:
    """32 hexadecimal digits that stand for a long text, such as a workload's key."""
    return _hash(text, 32)


def safe_name(text: str) -> str:
    """A file's stem for any text: itself if it is short and plain, else with a hash of it.

    Different texts give different stems, and the stem of a stem is itself.
    """
    plain = _ODD.sub("-", text)[:_LONGEST].lstrip("._-")
    if plain == text and plain:
        return plain
    return f"{plain[: _LONGEST - 9]}-{_hash(text, 8)}".lstrip("._-")


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
