"""The committed table of generated code: an entry for each computation and target.

`tests/data/code.json` holds one line an entry: what it is in words, the hash of what we generate,
and the schedule that it is generated for. ``python -m tests.codegen.renew`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.codegen import declared, networks
from tests.codegen.case import Case, Schedule, drafted, drawn, hash_of, text_of
from tilework.task import SearchTask

TABLE = Path(__file__).parents[1] / "data" / "code.json"
Chooser = Callable[[SearchTask], Schedule]

_CPUS: dict[str, Chooser] = {
    "AVX-512, 2 threads": drafted, "AVX-512, 1 thread": drawn, "AVX2, 1 thread": drafted,
    "SSE2, 2 threads": drawn, "AArch64, 2 threads": drafted,
}  # fmt: skip
_GPUS: dict[str, Chooser] = {"A100": drafted}
_ALL = _CPUS | _GPUS
_LARGE: dict[str, Chooser] = {
    "AVX-512, 2 threads": drafted, "AVX2, 1 thread": drawn, "AArch64, 2 threads": drafted,
    "A100": drafted,
}  # fmt: skip
_NARROW: dict[str, Chooser] = {
    "AVX-512 with bfloat16, 2 threads": drafted, "AVX2, 1 thread": drafted, "A100": drafted,
    "V100": drawn,
}  # fmt: skip

GROUPS: dict[str, tuple[Callable[[], list[Case]], Mapping[str, Chooser]]] = {
    "attention": (declared.attention, _ALL),
    "norms": (declared.norms, _ALL),
    "windows": (declared.windows, _ALL),
    "sums": (declared.sums, _ALL),
    "moved": (declared.moved, _ALL),
    "sparse": (declared.sparse, _ALL),
    "narrow": (declared.narrow_factors, _NARROW),
    "tensor cores": (declared.tensor_cores, {"A100": drafted}),
    "files": (networks.of_files, _ALL),
    "zoo": (networks.of_zoo, _LARGE),
    "recorded": (networks.recorded, _LARGE),
}
"""By group: its computations, and for which targets they are generated with whose schedules."""


@dataclass(frozen=True)
class Entry:
    """A line of the table. Without a hash: the schedule is none any more."""

    hash: str
    schedule: Schedule


@dataclass(frozen=True)
class Place:
    """What an entry is of."""

    group: str
    case: Case
    target: str
    choose: Chooser

    @property
    def task_in_words(self) -> str:
        """The part of its name that its entries for other targets share."""
        return f"{self.group}: {self.case.name}"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.task_in_words} | {self.target}"


@cache
def places(group: str) -> tuple[Place, ...]:
    """Of what a group has entries."""
    cases, targets = GROUPS[group]
    found = cases()
    return tuple(Place(group, case, t, how) for case in found for t, how in targets.items())


def text(place: Place, schedule: Schedule) -> str:
    """What is generated there now."""
    return text_of(place.case.task(place.target), schedule)


def generated(place: Place, schedule: Schedule) -> Entry:
    """The entry that a schedule gives now."""
    fits = schedule.fits(place.case.task(place.target))
    return Entry(hash_of(text(place, schedule)) if fits else "", schedule)


def read() -> dict[str, Entry]:
    """The committed table, by name."""
    lines = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    return {n: Entry(h, Schedule(sketch, tuple(row))) for n, (h, sketch, row) in lines.items()}


def write(table: Mapping[str, Entry]) -> None:
    """Keep a table: a line an entry, sorted by name."""
    lines = [
        f"{json.dumps(name)}: {json.dumps([e.hash, e.schedule.sketch_id, list(e.schedule.row)])}"
        for name, e in sorted(table.items())
    ]
    whole = TABLE.with_suffix(".new")
    whole.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    whole.replace(TABLE)


def differences(group: str) -> Iterator[tuple[str, str]]:
    """What of a group is not as the table says: the name of an entry, and how it differs."""
    table = {n: e for n, e in read().items() if n.startswith(f"{group}: ")}
    for place in places(group):
        entry = table.pop(place.name, None)
        if entry is None:
            yield place.name, "is not in the table"
            continue
        now = generated(place, entry.schedule)
        if not now.hash:
            yield place.name, "has a row that is no schedule any more"
        elif now.hash != entry.hash:
            yield place.name, "has other code"
    for name in table:
        yield name, "is in the table alone"
