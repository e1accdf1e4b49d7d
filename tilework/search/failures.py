"""Why candidates fail, summed up for a reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tilework.frozen import frozen
from tilework.record import Record

_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?")


@frozen
class Cause:
    """One kind of failure: how often it occurred, and its first record."""

    count: int
    status: str
    message: str
    first: Record

    def __str__(self) -> str:
        row = ", ".join(map(str, self.first.decisions))
        return (
            f"{self.count} x {self.status}: {self.message or 'no message'} "
            f"(first: sketch {self.first.sketch_id}, decisions [{row}])"
        )


@frozen
class TaskFailure:
    """A task none of whose candidates was valid.

    Attributes:
        trials: candidates measured.
        causes: the most frequent ones.
        command: a command line that builds and runs the first candidate again; may be empty.
    """

    task_index: int
    desc: str
    trials: int
    causes: tuple[Cause, ...]
    command: str = ""

    def __str__(self) -> str:
        causes = "".join(f"\n  {cause}" for cause in self.causes)
        again = f"\n  see the first again: {self.command}" if self.command else ""
        return (
            f"task {self.task_index} ({self.desc}): all {self.trials} candidates failed"
            f"{causes}{again}"
        )


def frequent_causes(records: Iterable[Record], limit: int = 3) -> tuple[Cause, ...]:
    """The most frequent failures among the records.

    Messages that differ in numbers only are one cause; the first message is shown.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if not record.usable:
            message = _first_line(record.error)
            groups.setdefault((record.status, _VARIABLE.sub("#", message)), []).append(record)
    ranked = sorted(groups.values(), key=len, reverse=True)[:limit]
    return tuple(
        Cause(len(group), str(group[0].status), _first_line(group[0].error), group[0])
        for group in ranked
    )


def task_failure(
    index: int, desc: str, records: Sequence[Record], reproduce: str = ""
) -> TaskFailure:
    """Why a task has no valid candidate, by its records, all of them failures.

    Args:
        index, desc: of the task.
        records: what was tried.
        reproduce: a command line with ``{record_id}`` in it.
    """
    causes = frequent_causes(records)
    command = reproduce.format(record_id=causes[0].first.record_id) if causes else ""
    return TaskFailure(index, desc, len(records), causes, command)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]
