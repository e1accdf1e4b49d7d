"""What is done about kernels that became slower while the machine did not.

First their finals are run again: the fastest programs known, timed in turns today. An upgrade of a
driver or a kernel of the system may have changed their order, and then the best is another one. A
task whose winner still suffers is tuned, for a small budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from tasks.patience import patiently
from tasks.plan import SearchPlan
from tasks.run import prepare, run_final, run_round

if TYPE_CHECKING:
    from storage import RecordStore
    from tasks.canary.frozen import Canary
    from tilework.measure import Measurer
    from tilework.record import Record
    from tilework.target.identity import DeviceIdentity
    from tilework.task import SearchTask

ONCE_IN = timedelta(hours=23)
"""Kernels are measured and tuned again at most this often: once a day, whatever the minute."""
FINALISTS = 8
"""Programs whose finals are run again: more than a search takes, since their order may be off."""

How = Literal["finals", "tuning", "nothing"]


@dataclass(frozen=True)
class Remedy:
    """What became of a slow kernel.

    Attributes:
        workload: description for people.
        usual_s: its latency before it drifted.
        latency_s: of the task's best program now; None if none could be measured.
        how: what brought it within the limit of what it was; ``nothing`` if nothing did.
        best: the record of that program.
        other: whether it is another one than the kernel was.
    """

    workload: str
    usual_s: float
    latency_s: float | None
    how: How
    best: Record | None
    other: bool = False


def due(remedied_at: datetime | None, now: datetime) -> bool:
    """Whether a day has passed since the last remedy."""
    return remedied_at is None or now - remedied_at >= ONCE_IN


def remedy(
    canary: Canary,
    task: SearchTask,
    usual_s: float,
    limit: float,
    store: RecordStore,
    device: DeviceIdentity,
    measurer: Measurer,
    *,
    final: tuple[str, int],
    tuning_id: str,
    trials: int,
    tell: Callable[[str], None],
) -> Remedy:
    """Run a task's finals again, and tune it if its best is still slower than it should be.

    Args:
        canary: the kernel that became slower.
        task: what it computes.
        usual_s: latency of its kernel before.
        limit: how much slower than that is too slow, as a share.
        final: run id and round of the finals' records.
        tuning_id: run id of tuning; killed and called again with it, tuning goes on.
        trials: that tuning may spend; 0 does not tune.
        tell: gets a line for whoever watches.
    """
    enough = usual_s * (1 + limit)
    best = finals_again(task, store, device, measurer, final=final, tell=tell)
    how: How = "finals"
    if not _within(best, enough) and trials:
        tell(f"{task.desc}: finals did not mend it; tuning, {trials} trials")
        _tune(task, store, measurer, tuning_id, trials, tell)
        best, how = store.best(task.workload_key, str(task.target), device), "tuning"
    if best is None:
        return Remedy(task.desc, usual_s, None, "nothing", None)
    other = (best.sketch_id, best.decisions) != (canary.sketch_id, canary.row)
    how = how if _within(best, enough) else "nothing"
    return Remedy(task.desc, usual_s, best.latency_s, how, best, other)


def finals_again(
    task: SearchTask,
    store: RecordStore,
    device: DeviceIdentity,
    measurer: Measurer,
    *,
    final: tuple[str, int],
    tell: Callable[[str], None],
) -> Record | None:
    """Time the fastest programs known of a task in turns, today; the best by that verdict."""
    from tilework.measure.records import to_records
    from tilework.record import Purpose, new_writer
    from tilework.search.finals import as_candidates

    known = store.of(task.workload_key, str(task.target), device)
    measured = measurer.finals(task, as_candidates(fastest(known, FINALISTS)))
    valid = [one for one in measured if one.latency_s is not None]
    if not valid:
        return None
    records = to_records(
        task,
        valid,
        run_id=final[0],
        round=final[1],
        purpose=Purpose.final,
        writer=new_writer(),
        device=device,
    )
    patiently(lambda: store.append(records), tell)
    return store.best(task.workload_key, str(task.target), device)


def fastest(records: Sequence[Record], count: int) -> list[Record]:
    """The fastest different programs by their latest records, of the present rules."""
    from tilework.record import Purpose

    programs: dict[object, Record] = {}
    for record in sorted(records, key=lambda r: (r.created_at, r.record_id)):
        if record.usable and record.purpose != Purpose.canary:
            programs[record.code_hash or (record.sketch_id, record.decisions)] = record
    ranked = sorted(programs.values(), key=lambda r: (r.latency_s or math.inf, r.record_id))
    return ranked[:count]


def _within(best: Record | None, enough_s: float) -> bool:
    return best is not None and best.latency_s is not None and best.latency_s <= enough_s


def _tune(
    task: SearchTask,
    store: RecordStore,
    measurer: Measurer,
    run_id: str,
    trials: int,
    tell: Callable[[str], None],
) -> None:
    """Rounds of search for one task, then its finals."""
    from dataclasses import replace

    from tilework.search import EFFORTS

    options = replace(EFFORTS["quick"], num_measure_trials=trials, seconds=None)
    plan = SearchPlan([task], [1.0], options, run_id, label="canary")
    run = prepare(plan, store, measurer, tell)
    while (index := run.next_task()) is not None:
        run_round(run, index)
    while (index := run.next_final()) is not None:
        run_final(run, index)
