"""What a model of other machines is worth on one that it has not seen.

Of every target, and of every device where there are several, four rankers are compared on tasks
that none of them has seen: the draft, a model that knows the others' records only, one that knows
this one's own only, and one that knows both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from tasks.learning.judging import FOLDS, cases_of, folds, standing
from tasks.learning.material import Material, Taught, gather, opened
from tasks.learning.trees import of_some, remembering
from tasks.patience import Tell, patiently
from tilework.errors import StoreError
from tilework.model.judge import Case

if TYPE_CHECKING:
    from storage import RecordStore

KIND = "transfers"
"""Of the documents: the last report of each kind of machine."""
MOST = 20_000
"""Records that all models together learn from: there are many models."""
RANKERS = ("draft", "others", "own", "both")
"""Names of the rankers, as tables have them."""


@dataclass(frozen=True)
class Transfer:
    """How rankers did on one target or device that was left out.

    Attributes:
        what: "target" or "device".
        name: its text.
        workloads: judged on.
        top: by ranker, top-1 and top-5.
        over_draft: (low, middle, high) of what the others' model gains over the draft in top-1;
            empty where there are too few workloads.
        over_own: the same over the model of its own records.
    """

    what: str
    name: str
    workloads: int
    top: dict[str, tuple[float, float]]
    over_draft: tuple[float, ...] = ()
    over_own: tuple[float, ...] = ()

    @property
    def verdict(self) -> str:
        """One or two words."""
        if not self.over_draft:
            return "not judged"
        if self.over_draft[0] > 0:
            return "helps"
        return "hurts" if self.over_draft[2] < 0 else "no clear gain"


@dataclass(frozen=True)
class Transfers:
    """What was found for one kind of machine.

    Attributes:
        kind: of machine.
        store: where the report is kept.
        champion: the model in use at that time; empty: none.
        records: that were learnt from.
        rows: what was judged, in the order of the names.
        skipped: why nothing was; empty if something was.
        at: when.
    """

    kind: str
    store: str
    champion: str
    records: int
    rows: tuple[Transfer, ...] = ()
    skipped: str = ""
    at: str = ""

    @property
    def verdict(self) -> str:
        """One line."""
        if self.skipped:
            return f"{self.kind}: {self.skipped}"
        judged = [row for row in self.rows if row.over_draft]
        if not judged:
            return f"{self.kind}: too few workloads: nothing could be judged"
        helped = sum(row.verdict == "helps" for row in judged)
        hurt = sum(row.verdict == "hurts" for row in judged)
        gain = sum(row.over_draft[1] for row in judged) / len(judged)
        return (
            f"{self.kind}: records of others help {helped} of {len(judged)} that were left out, "
            f"and hurt {hurt}; {gain:+.3f} in top-1 over the draft on average"
        )


def evaluate_transfer(
    stores: Sequence[str],
    tell: Tell,
    *,
    only: Sequence[str] = (),
    new: bool = False,
    most: int = MOST,
) -> list[Transfers]:
    """Leave out each target and device in turn, for each kind of machine.

    Args:
        stores: directories or URIs; the report is kept in the first.
        tell: gets a line for each step.
        only: texts of targets, or devices: others are not left out.
        new: only what the last report does not have, and everything after a promotion.
        most: records that are learnt from at most.

    Raises:
        StoreError: a store is missing, or cannot be read or written; ``only`` names nothing.
    """
    open_stores, kinds = opened(stores, tell)
    done, known = [], set[str]()
    for kind in kinds:
        material = patiently(partial(gather, open_stores, kind, most), tell)
        subjects = _subjects(material)
        known |= {one.name for one in subjects}
        done.append(
            patiently(
                partial(_evaluate, open_stores[0], material, subjects, only, new, tell), tell
            )
        )
    unknown = [name for name in only if name not in known]
    if unknown:
        raise StoreError(
            f"{unknown[0]!r} is no target or device of {', '.join(map(repr, stores))}; there are "
            + ", ".join(repr(name) for name in sorted(known))
        )
    return done


@dataclass(frozen=True)
class _Subject:
    """What can be left out."""

    what: Literal["target", "device"]
    name: str

    def owns(self, one: Taught) -> bool:
        return self.name == (one.target if self.what == "target" else one.lesson.device)


def _subjects(material: Material) -> list[_Subject]:
    """What can be left out: targets, and devices if there are several."""
    devices = sorted({one.lesson.device for one in material.taught})
    subjects = [_Subject("target", target) for target in material.targets]
    return subjects + [_Subject("device", name) for name in (devices if len(devices) > 1 else ())]


def _evaluate(
    store: RecordStore,
    material: Material,
    subjects: Sequence[_Subject],
    only: Sequence[str],
    new: bool,
    tell: Tell,
) -> Transfers:
    champion = store.models.champion_name(material.kind)
    report = Transfers(material.kind, store.path, champion, len(material))
    last = last_report(store, material.kind)
    wanted = [one for one in subjects if not only or one.name in only]
    if new and last is not None and last.champion == champion:
        there = {row.name for row in last.rows}
        wanted = [one for one in wanted if one.name not in there]
        if not wanted:
            said = "no target or device is new since the last report"
            return Transfers(**{**vars(report), "skipped": said})
    if len(subjects) < 2:
        said = "one target and one device only: there is nothing to transfer from"
        return Transfers(**{**vars(report), "skipped": said})
    if only and not wanted:
        return Transfers(**{**vars(report), "skipped": "none of these is of this kind"})
    rows = _rows(material, wanted, tell)
    if last is not None and last.champion == champion:
        fresh = {row.name for row in rows}
        rows += [row for row in last.rows if row.name not in fresh]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    rows.sort(key=lambda row: (row.what != "target", row.name))
    done = Transfers(**{**vars(report), "rows": tuple(rows), "at": at})
    if rows:
        store.documents(KIND).keep(material.kind, json.dumps(asdict(done)))
    return done


def _rows(material: Material, subjects: Sequence[_Subject], tell: Tell) -> list[Transfer]:
    cases: dict[_Subject, list[Case]] = {subject: [] for subject in subjects}
    parts = folds(material, FOLDS)
    memory = remembering(o for one in material.taught for o in one.observations)
    for number, held in enumerate(parts):
        tell(f"leaving out tasks, part {number + 1} of {len(parts)}")
        rest = [one for one in material.taught if one.group not in held]
        both = of_some(memory, rest)
        for subject in subjects:
            tell(f"leaving out {subject.what} {subject.name}")
            own = of_some(memory, (one for one in rest if subject.owns(one)))
            others = of_some(memory, (one for one in rest if not subject.owns(one)))
            asked = [one for one in material.taught if one.group in held and subject.owns(one)]
            cases[subject] += cases_of(asked, {"others": others, "own": own, "both": both})
    return [_row(subject.what, subject.name, cases[subject]) for subject in subjects]


def _row(what: str, name: str, cases: Sequence[Case]) -> Transfer:
    if not cases:
        return Transfer(what, name, 0, {})
    draft, own = standing(cases, "others", "draft"), standing(cases, "others", "own")
    both = standing(cases, "both", "draft")
    top = {**draft.top, **own.top, **both.top}
    ordered = {ranker: top[ranker] for ranker in RANKERS}
    return Transfer(what, name, draft.workloads, ordered, draft.gain, own.gain)


def last_report(store: RecordStore, kind: str) -> Transfers | None:
    """The last report of a kind of machine that can be read, or None."""
    content = store.documents(KIND).read(kind)
    if content is None:
        return None
    try:
        document = json.loads(content)
        rows = [
            Transfer(
                row["what"],
                row["name"],
                int(row["workloads"]),
                {k: (float(a), float(b)) for k, (a, b) in row["top"].items()},
                tuple(map(float, row["over_draft"])),
                tuple(map(float, row["over_own"])),
            )
            for row in document["rows"]
        ]
        return Transfers(**{**document, "rows": tuple(rows)})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
