"""What a tuning run leaves in Prefect's UI: progress, task table, convergence plot, summary."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast
from uuid import UUID

from prefect import get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.convergence import convergence, task_curves
from flows.numbers import milliseconds, show_ms
from flows.plots import plot_png
from flows.reporting import Reporter
from tilework.target.runs import caveat, mark

if TYPE_CHECKING:
    from tasks.report import Progress, TuneReport
    from tilework.record import Record


def artifact_key(kind: str, network: str) -> str:
    """An artifact key: Prefect allows lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{kind}-{network}".lower()).strip("-")


class ArtifactReporter(Reporter):
    """Publishes progress to Prefect, and passes every event on to another reporter.

    One log line per event, one table version per ``every`` rounds: each version is kept in
    Prefect's database.
    """

    def __init__(self, network: str, inner: Reporter, every: int = 8) -> None:
        self._network = network
        self._inner = inner
        self._every = every
        self._bar: UUID | None = None
        self._log = get_run_logger()

    def stage(self, text: str) -> None:
        """Log it and pass it on."""
        self._log.info(text)
        self._inner.stage(text)

    def note(self, text: str) -> None:
        """Log it and pass it on."""
        self._log.info(text)
        self._inner.note(text)

    def progress(self, progress: Progress) -> None:
        """Move the progress bar; now and then publish the task table."""
        self._log.info(
            "round %d: estimated total latency %.4f ms after %d trials",
            progress.rounds, 1e3 * progress.estimated_total_s, progress.trials,
        )  # fmt: skip
        self._inner.progress(progress)
        share = 100.0 * budget_share(progress)
        if self._bar is None:
            key = artifact_key("progress", self._network)
            made = create_progress_artifact(share, key=key, description="Budget spent")
            self._bar = cast(UUID, made)
        else:
            update_progress_artifact(self._bar, progress=share)
        if progress.current is not None and progress.rounds % self._every == 0:
            publish_table(self._network, progress)


def budget_share(progress: Progress) -> float:
    """How much of the tightest budget is spent, 0 to 1."""
    shares = [0.0]
    if progress.trials_budget:
        shares.append(progress.trials / progress.trials_budget)
    if progress.seconds_budget:
        shares.append(progress.elapsed_s / progress.seconds_budget)
    return min(1.0, max(shares))


def publish_table(network: str, progress: Progress) -> None:
    """Publish the task table as it stands."""
    create_table_artifact(
        [
            {
                "ID": row.id,
                "Description": row.desc,
                "Weight": row.weight,
                "Latency (ms)": _rounded(row.latency_ms),
                "GFLOPS": _rounded(row.gflops),
                "Trials": row.trials,
                "Note": row.note,
            }
            for row in progress.rows
        ],
        key=artifact_key("tasks", network),
        description=f"Tuning tasks of {network} after {progress.rounds} rounds"
        + mark(progress.target),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def publish_summary(
    report: TuneReport, records: Sequence[Record], weights: Mapping[str, float]
) -> None:
    """Publish the outcome: latencies, check, and the convergence plot as an embedded picture.

    ``records`` are all of the target's, of earlier runs too; ``weights`` are the calls of each
    workload (`flows.convergence`).
    """
    curve = convergence(records, weights)
    text = _summary_text(report)
    if curve.trials:
        curves = task_curves(records, weights)
        title = report.network + mark(report.target)
        picture = base64.b64encode(plot_png(curve, title, curves)).decode()
        text += f"\n\n![convergence](data:image/png;base64,{picture})"
    create_markdown_artifact(
        text,
        key=artifact_key("summary", report.network),
        description=f"Tuning of {report.network} for {report.target}{mark(report.target)}",
    )


def _summary_text(report: TuneReport) -> str:
    progress = report.progress
    lines = [f"# {report.network}", "", "| | |", "|---|---|"]
    facts: list[tuple[str, object]] = [
        ("target", f"`{report.target}`"),
        ("run", f"`{report.run_id}`"),
        ("records", f"`{report.store}`"),
        ("module", f"`{report.module}`" if report.module else "not kept"),
        ("trials", f"{progress.trials} in {progress.rounds} rounds"),
        ("estimated total latency", f"{milliseconds(progress.estimated_total_s)} ms"),
        ("failures", ", ".join(f"{n} {kind}" for kind, n in report.failures.items()) or "none"),
    ]
    if said := caveat(report.target):
        facts.insert(1, ("latencies", said))
    if report.before and report.after:
        facts.append(("end to end, untuned", f"{show_ms(report.before.median_ms)} ms"))
        facts.append(("end to end, tuned", f"{show_ms(report.after.median_ms)} ms"))
        facts.append(("speed-up", f"{report.speedup:.2f}x"))
    if report.check:
        error = f"{report.check.max_rel_error:.1e} against {report.check.reference}"
        facts.append(("maximum relative error", error))
    lines += [f"| {name} | {value} |" for name, value in facts]
    if report.gap:
        lines += ["", *(f"- {line}" for line in report.gap)]
    return "\n".join(lines)
