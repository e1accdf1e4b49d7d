"""Which row serves a task whose extents a run decides, by records of its typical points.

Nobody measures such a task itself: a record is of the static workload that it is at a point. Rows
that were measured at some points are compared with the draft's choice by the geometric mean of
their seconds over all of them; two of them serve where that is worth it (`model.second`). Where a
row was not measured, the draft's word counts, times what the records of that point usually are of
it: so that a row is neither better nor worse for having been measured at fewer points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model.base import Rows
from tilework.model.choice import HandOver
from tilework.model.draft import Draft, draft_of
from tilework.model.drafted import Choice
from tilework.model.family import FamilySketch, Member, family_of, members_of
from tilework.model.second import Program, borders, handed_over
from tilework.record import History, Purpose, Record, best_of, latest_word, layers_of
from tilework.space import space_of
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask

FASTEST = 32
"""Programs of each point that are looked at everywhere."""

DOUBT = 0.75
"""Quantile of latency over drafted seconds that counts where a row was not measured: of many
rows, the draft calls those the fastest that it is wrong about."""


def recorded(
    task: SearchTask,
    history: History,
    draft: Choice | None,
    *,
    device: DeviceIdentity | None = None,
    direct: bool = False,
) -> Choice | None:
    """The row of a task of symbolic extents that is best by the records of its typical points.

    Records of ``device`` count; where it has none of any point, those of the device whose records
    would be gone by at one of them.

    Args:
        task: what is compiled.
        history: where the records are.
        draft: the draft's choice, which takes part.
        device: that the code is for, if it is here.
        direct: leave out rewritten DAGs (Winograd).

    Returns:
        None where no record is of use, or where the draft's choice is the best.
    """
    family = [f for f in family_of(task) if not (direct and f.views[0].transforms)]
    members = members_of(task, family)
    records, own = _records(members, history, device)
    each = [_Measured.of(member, record) for member, record in zip(members, records, strict=True)]
    programs = {program: None for one in each for program in one.programs(family)}
    if not programs:
        return None
    if draft is not None:
        programs |= dict.fromkeys((number, tuple(row)) for number, row in draft.schedules)
    logs: dict[Program, NDArray[np.float64]] = {}
    for sketch in family:
        mine = [row for number, row in programs if number == sketch.id]
        if mine:
            rows = np.array(mine, np.int32)
            table = np.log([one.seconds(sketch, rows) for one in each])
            logs |= {(sketch.id, r): table[:, i] for i, r in enumerate(mine)}
    best = min(logs, key=lambda program: (float(logs[program].mean()), program))
    if logs[best].mean() == math.inf:
        return None
    points = [member.at for member in members]
    over = handed_over(logs, best, family, borders(task.compute_dag.open_extents, points))
    served = [best] * len(each)
    if over is not None:
        at = over.points
        served = [over.small] * at + [over.large] * (len(each) - at)
    here = [one.latency_of(program) for one, program in zip(each, served, strict=True)]
    ids = [record.record_id for record in here if record is not None]
    if not ids:
        return None
    typical = next((i for i, m in enumerate(members) if m.usual), None)
    shown = None if typical is None else here[typical]
    return Choice(
        *(best if over is None else over.large),
        "tuned" if own else "elsewhere",
        shown.latency_s if own and shown is not None else None,
        record_id=ids[-1],
        device=next(record.device for record in reversed(here) if record is not None),
        small=None if over is None else HandOver(*over.small, over.grows, over.most),
    )


def _records(
    members: Sequence[Member], history: History, device: DeviceIdentity | None
) -> tuple[list[list[Record]], bool]:
    """Of each member the records of one device, and whether that is ``device``."""
    tasks = [member.task for member in members]
    if device is not None:
        records_of = [history.of(t.workload_key, str(t.target), device) for t in tasks]
        if any(r.usable for records in records_of for r in records):
            return records_of, True
    for layer in layers_of(history):
        hints = [layer.hints(t.workload_key, str(t.target), device) for t in tasks]
        voice = latest_word(record for records in hints for record in records)
        if voice is not None:
            records_of = [layer.of(t.workload_key, str(t.target)) for t in tasks]
            same = voice.device_id, voice.device
            return [[r for r in rs if (r.device_id, r.device) == same] for rs in records_of], False
    return [[] for _ in tasks], True


@frozen(eq=False)
class _Measured:
    """What records say of a member's programs.

    Attributes:
        records: by program the one whose latency counts; one that failed, if all did.
        latency: what each program is taken to need, in seconds; inf if it failed.
        ratio: what latencies are of the draft's seconds; 1 without any.
    """

    member: Member
    records: Mapping[Program, Record]
    latency: Mapping[Program, float]
    draft: Draft
    ratio: float

    @staticmethod
    def of(member: Member, records: Iterable[Record]) -> _Measured:
        version, draft = space_of(member.task.target).version, draft_of(member.task.target)
        count = {(t.static.id): t.static.num_decisions for t in member.twins.values()}
        by_program: dict[Program, list[Record]] = {}
        for record in records:
            known = count.get(record.sketch_id) == len(record.decisions)
            if known and record.rules_version == version and record.purpose != Purpose.canary:
                by_program.setdefault((record.sketch_id, record.decisions), []).append(record)
        chosen = {program: _counts(rows) for program, rows in by_program.items()}
        latency, ratios = _latencies(chosen, by_program), list[float]()
        for twin in member.twins.values():
            mine = [p for p in chosen if p[0] == twin.static.id and latency[p] < math.inf]
            if mine:
                rows = np.array([row for _, row in mine], np.int32)
                drafted = draft.seconds(twin.static, rows)
                ratios += [latency[p] / s for p, s in zip(mine, drafted, strict=True)]
        usual = float(np.quantile(ratios, DOUBT)) if ratios else 1.0
        return _Measured(member, chosen, latency, draft, usual)

    def programs(self, family: Sequence[FamilySketch]) -> list[Program]:
        """The fastest programs as rows of the family that are valid at all points."""
        usable = sorted((s, p) for p, s in self.latency.items() if s < math.inf)
        fastest = [program for _, program in usable[:FASTEST]]
        out: list[Program] = []
        for sketch in family:
            twin = self.member.twins.get(sketch.id)
            mine = [row for number, row in fastest if twin and number == twin.static.id]
            if twin is not None and mine:
                rows, good = twin.lifted(np.array(mine, np.int32))
                rows = rows[good]
                rows = sketch.canonical(rows[sketch.valid(rows)])
                out += [(sketch.id, tuple(int(n) for n in row)) for row in rows]
        return out

    def seconds(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float64]:
        """Of rows that serve the family, the seconds here: measured, or else expected."""
        twin = self.member.twins.get(sketch.id)
        out = np.asarray(self.draft.seconds(sketch.views[self.member.number], rows), np.float64)
        if twin is not None:
            placed, good = twin.placed(rows)
            if good.any():
                out[good] = self.draft.seconds(twin.static, placed[good])
        out *= self.ratio
        for i, record in enumerate(self._records_of(sketch.id, rows)):
            if record is not None:
                out[i] = self.latency[record.sketch_id, record.decisions]
        return out

    def latency_of(self, program: Program) -> Record | None:
        """The record of a program of the family here, if there is one."""
        number, row = program
        return self._records_of(number, np.array([row], np.int32))[0]

    def _records_of(self, number: int, rows: Rows) -> list[Record | None]:
        twin = self.member.twins.get(number)
        if twin is None:
            return [None] * len(rows)
        placed, good = twin.placed(rows)
        named = [(twin.static.id, tuple(int(n) for n in row)) for row in placed]
        return [
            self.records.get(name) if ok else None for name, ok in zip(named, good, strict=True)
        ]


def _counts(records: Sequence[Record]) -> Record:
    """Which of a program's records counts: of the last finals or a later one, or the fastest."""
    return best_of(records) or records[-1]


def _latencies(
    chosen: Mapping[Program, Record], by_program: Mapping[Program, Sequence[Record]]
) -> dict[Program, float]:
    """Seconds of each program.

    Finals say how lucky earlier single latencies were: of the programs that took part, and of
    those with their code. Of the others a single latency from before the last finals counts as
    many times as what finals usually are of those of their programs.
    """
    finals = [r for r in chosen.values() if r.purpose == Purpose.final and r.latency_s is not None]
    last = max((r.created_at for r in finals), default=None)
    verdict = {r.code_hash: r.latency_s or 0.0 for r in finals if r.code_hash}
    slack = []
    for record in finals:
        rows = by_program[record.sketch_id, record.decisions]
        single = [r.latency_s or 0.0 for r in rows if r.usable and r.purpose != Purpose.final]
        slack += [(record.latency_s or 0.0) / min(single)] if single else []
    factor = median(slack) if slack else 1.0
    out = {}
    for program, record in chosen.items():
        latency = math.inf if not record.usable else record.latency_s or math.inf
        if record.purpose != Purpose.final and last is not None and record.created_at < last:
            latency = verdict.get(record.code_hash, factor * latency)
        out[program] = latency
    return out
