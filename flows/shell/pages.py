"""The pages of a run, as Markdown: one that lives while it runs, one that sums it up."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from flows.numbers import change, latency, percent, plural, show_ms, speed
from flows.texts import budget_share, budget_text, disturbed_text, total_text
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from tasks.report import Progress, Standing, TuneReport
    from tilework.search.report import TaskRow

TOP = 5  # tasks that the live page shows
BAR = 24  # letters of its bar

FAR = 1.25
"""How far the sum of tasks may lie above the network's time without a word on the page."""
BEFORE = "@the run before@"
"""Where a page links to the run before of the same key; the sender, which can ask, fills it in."""


def live_page(
    title: str,
    state: str,
    progress: Progress | None,
    first: Progress | None,
    *,
    failed: int = 0,
    measured: int = 0,
    warnings: Sequence[str] = (),
    now: datetime,
) -> str:
    """Where a run stands.

    Args:
        title: what runs.
        state: what it is doing, or how it ended (Markdown).
        progress: after its last round.
        first: when it began: what runs before this one had found.
        failed, measured: measurements since it began.
        warnings: the last of them.
        now: when this was written.
    """
    lines = [f"# {title}", "", state, ""]
    if progress is not None:
        lines += [_bar(budget_share(progress)), "", *_state_table(progress, first)]
        lines += [_row("failures", f"{failed} of {measured} measurements of this run")]
        lines += [_row("drift", _drift(progress))]
        lines += ["", f"## Where the time goes: {_top(progress)}", "", *_tasks(progress, TOP)]
    if warnings:
        lines += ["", "## Warnings", "", *(f"- {text}" for text in warnings)]
    return "\n".join([*lines, "", f"Written {now:%Y-%m-%d %H:%M:%S} UTC; before it: {BEFORE}"])


def summary_page(
    report: TuneReport, title: str, first: Progress | None = None, picture: bytes = b""
) -> str:
    """What came of a run: the verdict first, then times, tasks, and the picture (a PNG)."""
    progress, standing = report.progress, report.standing
    lines = [f"# {title}", "", f"**{report.verdict}**", ""]
    if said := caveat(report.target):
        lines += [f"Latencies are not measured: {said}.", ""]
    if standing is not None:
        lines += [*_times(standing, report.speedup), ""]
        lines += _doubted(progress, standing)
    lines += _state_table(progress, first)
    failures = ", ".join(f"{n} {kind}" for kind, n in sorted(report.failures.items()))
    facts = [
        ("ended", report.stopped or "-"),
        ("rounds", f"{progress.rounds}, {report.resumed_rounds} of them found in the store"),
        ("failures", failures or "none"),
        ("drift", _drift(progress)),
        ("finals", f"{progress.finals} of {len(progress.rows)} tasks{disturbed_text(progress)}"),
        ("module", f"`{report.module}`" if report.module else "not kept"),
        ("target", f"`{report.target}`"),
        ("began with", report.model or "-"),
        ("records", f"`{report.store}`, run `{report.run_id}`"),
        ("the run before", BEFORE),
    ]
    lines += [_row(name, value) for name, value in facts]
    # sentences, which a cell of the table would not break
    notes = [str(report.loss)] if report.loss is not None else []
    notes += [report.left] if report.left else []
    if notes := [*notes, *report.gap]:
        lines += ["", *(f"- {line}" for line in notes)]
    if picture:
        data = base64.b64encode(picture).decode()
        lines += ["", f"![convergence](data:image/png;base64,{data})"]
    lines += ["", "## Tasks", "", *_tasks(progress, len(progress.rows))]
    return "\n".join(lines)


def _state_table(progress: Progress, first: Progress | None) -> list[str]:
    rows = [
        ("spent", budget_text(progress)),
        ("network", total_text(progress)),
    ]
    if first is not None and first.measured_tasks == len(first.rows):  # else a draft's word counts
        was, now = first.estimated_total_s, progress.estimated_total_s
        rows.append(("against the start", f"{latency(was)} at the start: {change(was, now)}"))
    return ["| this run | |", "|---|---|", *(_row(name, value) for name, value in rows)]


def _times(standing: Standing, speedup: float | None) -> list[str]:
    """Times in turns, and the factors that the verdict names."""
    tuned = standing.tuned.median_ms
    rows = [("untuned", standing.untuned.median_ms, speedup or 1.0)]
    if standing.old is not None and standing.over_old:
        rows.append(("the module before", standing.old.median_ms, 1.0 / standing.over_old))
    lines = [
        "| whole network, in turns | median (ms) | the new one is faster by |",
        "|---|--:|--:|",
    ]
    lines += [f"| {name} | {show_ms(ms)} | {factor:.2f}x |" for name, ms, factor in rows]
    return [*lines, f"| **the new one** | **{show_ms(tuned)}** | |"]


def _doubted(progress: Progress, standing: Standing) -> list[str]:
    """What to think of a sum of tasks that is far above the network's own time."""
    total, network = progress.estimated_total_s * 1e3, standing.tuned.median_ms
    if total <= FAR * network or progress.measured_tasks < len(progress.rows):
        return []
    return [
        f"The tasks' latencies add up to {show_ms(total)} ms, {total / network:.2f} times the "
        "network's own time: they were measured while the machine was slower or busy. The table "
        "above is what the network takes.",
        "",
    ]


def _tasks(progress: Progress, most: int) -> list[str]:
    rows = sorted(progress.rows, key=_cost, reverse=True)[:most]
    total = sum(_cost(row) for row in progress.rows) or 1.0
    lines = [
        "| task | calls | share | latency (ms) | GFLOPS | trials |",
        "|---|" + "--:|" * 5,
    ]
    lines += [
        f"| {row.id}: {row.desc} | {row.weight:g} | {percent(_cost(row) / total)} | "
        f"{show_ms(row.latency_ms)} | {speed(row.gflops)} | {row.trials} |"
        for row in rows
    ]
    ended: dict[str, list[str]] = {}  # below the table, for a page is not as wide
    for row in rows:
        if row.note:
            ended.setdefault(row.note, []).append(str(row.id))
    notes = [
        f"- no more trials for task{plural(len(ids))} {', '.join(ids)}: {note}"
        for note, ids in ended.items()
    ]
    return [*lines, "", *notes] if notes else lines


def _top(progress: Progress) -> str:
    hidden = len(progress.rows) - TOP
    every = f"all {len(progress.rows)} tasks" if hidden <= 0 else f"the top {TOP} tasks"
    return every if hidden <= 0 else f"{every}, {hidden} more take less"


def _cost(row: TaskRow) -> float:
    return (row.latency_ms or row.draft_ms or 0.0) * row.weight


def _drift(progress: Progress) -> str:
    if not progress.drifted_rounds:
        kept = "none: the machine kept its speed"
        return kept if not progress.disturbed else "none by its calibration; see finals"
    rounds = f"{progress.drifted_rounds} of {progress.rounds} round{plural(progress.rounds)}"
    return f"in {rounds} the machine was more than 5 % off its usual speed"


def _bar(share: float) -> str:
    full = round(BAR * share)
    return f"`{'█' * full}{'░' * (BAR - full)}` {percent(share)} of the budget"


def _row(name: str, value: str) -> str:
    return f"| {name} | {value.replace('|', '/')} |"
