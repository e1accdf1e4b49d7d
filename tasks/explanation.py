"""What is known about one task: its best, second and default schedule side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.engines import points_text
from tasks.reproduce import measured_now
from tilework.record import Record, best_elsewhere, best_of, by_device, contenders
from tilework.target.identity import device_here
from tilework.te.points import typical_points

if TYPE_CHECKING:
    from tasks.extraction import Extracted
    from tilework.lower.listing import Listing
    from tilework.space import SearchSpace, Sketch
    from tilework.task import SearchTask


@dataclass(frozen=True)
class Roofline:
    """The least time that a task can take on this machine, by two bounds; see `roofline`.

    Attributes:
        peak_gflops: multiply-add peak of the task's threads.
        gb_per_s: bandwidth of the memory level that holds all arguments.
        nbytes: size of the arguments: each is read or written once at least.
        compute_s, memory_s: operations / peak, and bytes / bandwidth.
        measured: whether peak and bandwidth are; else they are a data sheet's.
    """

    peak_gflops: float
    gb_per_s: float
    nbytes: int
    compute_s: float
    memory_s: float
    measured: bool = True

    @property
    def bound_s(self) -> float:
        """The larger of the two: no schedule of the direct form is faster."""
        return max(self.compute_s, self.memory_s)

    @property
    def bound(self) -> str:
        """Which of the two it is."""
        return "compute" if self.compute_s >= self.memory_s else "memory"


@dataclass(frozen=True)
class Contestant:
    """One schedule of the task, and what was believed and measured of it.

    Attributes:
        role: best, runner-up or default (what an untuned compile chooses); up to which extent,
            of the second row of that.
        record_id: of the record that counts; empty if it was never measured.
        latency_s: recorded latency; None if there is none.
        measured: how it was measured, in words.
        now_s: measured just now in turns with the others, if asked for.
        draft_s: the analytic model's prediction.
        score, model_id: what that model alone predicted when it was proposed: speed relative to
            the best known then.
        decisions: numbers by name of the decision.
        schedule: its steps and loops.
        program: the loop program that it lowers to; empty unless steps are asked for.
        code: what was generated of it, where the target's kind shows such a thing; long code only
            if steps are asked for.
    """

    role: str
    record_id: str
    sketch_id: int
    sketch: str
    latency_s: float | None
    measured: str
    now_s: float | None
    draft_s: float
    score: float | None
    model_id: str
    decisions: dict[str, list[int]]
    schedule: str
    program: str = ""
    code: Listing | None = None


@dataclass(frozen=True)
class Explanation:
    """Everything that `tilework explain` shows of a task.

    ``passes`` tells what became of its network before; it is empty unless steps are asked for.
    ``points`` are those that latencies are means of; empty of a task whose shapes are numbers.
    """

    description: str
    workload_key: str
    target: str
    flops: float
    dag: str
    sketches: list[dict[str, Any]]
    measured: dict[str, int]
    contestants: list[Contestant]
    median_latency_s: float | None
    roofline: Roofline | None
    passes: str = ""
    points: str = ""


def explain(
    task: SearchTask,
    records: list[Record],
    *,
    origin: Extracted | None = None,
    measure: bool = False,
    steps: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Explanation:
    """What is known about a task.

    Args:
        task: the task.
        records: all of it, in the order in which they were made. Of several devices' records this
            machine's are shown, or else those of the one that made the best of them last.
        origin: the network that it comes from.
        measure: time the schedules in turns, now.
        steps: also what passes made of that network, what schedules are lowered to, and their code
            however long it is.
        tell: gets a line if the device is another's, and is waited for.

    Latencies and operations of a task of symbolic extents are geometric means of its typical
    points, where no roofline is; the draft's seconds are those where it is typical.
    """
    from tilework.graph.text import passes_text
    from tilework.search.family import space_for
    from tilework.space import SearchSpace, space_of

    family = task.compute_dag.symbols
    space, version = SearchSpace.of(task), space_of(task.target).version
    present = _comparable(
        task, [r for r in records if r.rules_version == version and _fits(space, r)]
    )
    chosen = _chosen(task, present)
    now: list[float | None] = [None] * len(chosen)
    if measure:
        programs = [(sketch, row) for _, sketch, row, _ in chosen]
        measured = measured_now(task, programs, f"explain {task.desc}", tell)
        now = [None if one is None else one.latency_s for one in measured]
    latencies = sorted(r.latency_s for r in present if r.usable and r.latency_s is not None)
    return Explanation(
        description=task.desc,
        workload_key=task.workload_key,
        target=str(task.target),
        flops=space_for(task).subject(task).flops if family else task.flops,
        dag=str(task.compute_dag),
        sketches=[
            {"id": s.id, "name": s.name, "decisions": s.num_decisions} for s in space.sketches
        ],
        measured=dict(Counter(str(record.status) for record in records)),
        contestants=[
            _contestant(role, space.sketch(sketch_id), row, record, seconds, steps)
            for (role, sketch_id, row, record), seconds in zip(chosen, now, strict=True)
        ],
        median_latency_s=latencies[len(latencies) // 2] if latencies else None,
        roofline=None if family else roofline(task),
        passes=passes_text(origin.network, task, origin.precision)
        if steps and origin is not None
        else "",
        points=points_text(typical_points(family)),
    )


def _fits(space: SearchSpace, record: Record) -> bool:
    """Whether a record's row is one of the space's sketches: not if these have changed since."""
    if not 0 <= record.sketch_id < len(space.sketches):
        return False
    return len(record.decisions) == space.sketches[record.sketch_id].num_decisions


def _comparable(task: SearchTask, records: list[Record]) -> list[Record]:
    """Records of one device: latencies of several say nothing beside each other."""
    here = device_here(task.target)
    own = [r for r in records if here is not None and here.owns(r)]
    if any(r.usable for r in own):
        return own
    best = best_elsewhere(records, here)
    return next((rows for rows in by_device(records) if best and best[0] in rows), own)


Chosen = tuple[str, int, tuple[int, ...], Record | None]


def _chosen(task: SearchTask, records: list[Record]) -> list[Chosen]:
    """Role, sketch, row and record of the schedules to show; all different programs."""
    from tilework.model.drafted import draft_schedule

    out: list[Chosen] = []
    best = best_of(records)
    if best is not None:
        out.append(("best", best.sketch_id, best.decisions, best))
        others = [r for r in contenders(records) if _program(r) != _program(best)]
        others = [r for r in others if not best.code_hash or r.code_hash != best.code_hash]
        second = best_of(others)
        if second is not None:
            out.append(("runner-up", second.sketch_id, second.decisions, second))
    choice = draft_schedule(task)
    roles = ["default"]
    if choice.small is not None:
        roles.append(f"{choice.small.extent} <= {choice.small.most}")
    for role, (number, row) in zip(roles, choice.schedules, strict=True):
        known = [r for r in records if _program(r) == (number, row) and r.usable]
        out.append((role, number, row, known[-1] if known else None))
    return out


def _program(record: Record) -> tuple[int, tuple[int, ...]]:
    return record.sketch_id, record.decisions


def _contestant(
    role: str,
    sketch: Sketch,
    row: tuple[int, ...],
    record: Record | None,
    now_s: float | None,
    steps: bool,
) -> Contestant:
    from tilework.lower.listing import listing_of
    from tilework.lower.protocol import lowering_of
    from tilework.lower.text import program_text
    from tilework.model.draft import draft_of

    array = np.asarray(row, dtype=np.int32)
    measured = "not measured"
    if record is not None:
        kind = "in finals" if record.purpose == "final" else "on its own"
        count = len(record.latency_samples)
        measured = f"{kind}, {count} samples, spread {record.latency_spread or 0:.1%}"
    return Contestant(
        role=role,
        record_id=record.record_id if record else "",
        sketch_id=sketch.id,
        sketch=sketch.name,
        latency_s=record.latency_s if record else None,
        measured=measured,
        now_s=now_s,
        draft_s=float(draft_of(sketch.target).seconds(sketch, array[None, :])[0]),
        score=record.predicted_score if record else None,
        model_id=record.model_id if record else "",
        decisions={d.name: [int(array[c]) for c in d.columns] for d in sketch.decisions},
        schedule=sketch.describe(row),
        program=program_text(lowering_of(sketch.target).lower(sketch, row).program)
        if steps
        else "",
        code=listing_of(sketch, row, asked=steps),
    )


def roofline(task: SearchTask) -> Roofline | None:
    """The bounds of a task, measured now; None if that cannot be done here.

    Every argument is read or written once at least, and every operation of the direct form done.
    A rewritten form (Winograd) does fewer, and may pass the bound.
    """
    from tilework.errors import TileworkError
    from tilework.target.hardware import hardware_of

    nbytes = _argument_bytes(task)
    try:
        precision = task.desc.rpartition(" ")[2]  # of calls in float32 it is some other word
        reach = hardware_of(task.target).reach(task.target, nbytes, precision)
    except (TileworkError, OSError):
        return None
    peak, speed = reach.gflops, reach.gb_per_s
    compute_s, memory_s = task.real_flops / peak / 1e9, nbytes / speed / 1e9
    return Roofline(peak, speed, nbytes, compute_s, memory_s, reach.measured)


def _argument_bytes(task: SearchTask) -> int:
    from tilework.dtypes import dtype_bytes
    from tilework.index.extents import typicals

    dag = task.compute_dag
    tensors = (*dag.inputs, *dag.outputs)
    return sum(math.prod(typicals(t.shape)) * dtype_bytes(t.dtype) for t in tensors)
