"""The page of a canary run in Prefect's UI: the verdict first, then what was timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.numbers import latency, percent
from flows.texts import sentence
from tasks.canary.report import remedy_line, rows

if TYPE_CHECKING:
    from flows.texts import sentence
from tasks.canary.report import CanaryReport


def canary_page(report: CanaryReport) -> str:
    """Markdown."""
    lines = [f"# {report.device}", "", f"**{sentence(report.verdict)}.**", ""]
    for alert in (report.machine_alert, report.kernels_alert):
        if alert:
            lines += [f"> {alert}", ""]
    lines += [f"- {remedy_line(remedy)}" for remedy in report.remedies]
    lines += [
        "",
        "| what | usual | now | change | limit | state |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for row in rows(report):
        change = percent(row.change, signed=True)
        lines.append(
            f"| {row.what} | {latency(row.usual_s)} | {latency(row.last_s)} | {change} "
            f"| {percent(row.limit)} | {row.state} |"
        )
    lines += ["", f"Target `{report.target}`, device `{report.device_id}`.", ""]
    lines.append(
        "A kernel's change is the smaller one of its time's and of its time in units of the "
        "calibration loop: what the whole machine does blames no kernel."
    )
    return "\n".join(lines)
