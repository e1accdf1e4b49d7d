"""What a person on duty sees of a run over many networks: its name, its tags, its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flows.numbers import change, latency, percent, show_ms
from flows.shell.names import device_words, run_tags
from flows.shell.pages import BEFORE
from flows.texts import budget_text, target_words
from tasks.outcome import mix_ms
from tilework.errors import TileworkError

if TYPE_CHECKING:
    from flows.release_pipeline import ReleaseReport
    from flows.zoo_pipeline import ZooReport
    from flows.zoo_settings import ReleaseSettings, ZooNetwork, ZooSettings
    from tasks.outcome import Outcome
    from tilework.target import Target

NAMED = 3
"""Networks that the name of a run lists."""


class Title:
    """What a run over many networks is called.

    Attributes:
        words: the zoo file, or the networks: what stays from run to run.
        name: of the run: what it does, for which target, on which device.
        tags: networks, targets and devices, to filter runs by.
    """

    def __init__(self, verb: str, settings: ZooSettings | ReleaseSettings) -> None:
        """Read what the settings name.

        Raises:
            SettingsError: the zoo file cannot be read.
        """
        members = settings.members()
        labels = list(dict.fromkeys(Path(member.network).stem for member in members))
        self.words = Path(settings.file).stem if settings.file else _some(labels)
        targets = _targets(members)
        parts = [f"{verb} {self.words}", _some([target_words(target) for target in targets])]
        devices = list(dict.fromkeys(device_words(target) for target in targets))
        self.name = " · ".join(part for part in [*parts, _some(devices)] if part)
        tags = [tag for target in targets for tag in run_tags(labels, target)]
        self.tags = list(dict.fromkeys(tags))


def _targets(members: Sequence[ZooNetwork]) -> list[Target]:
    """The targets, each once; a text that names none is told of later, by the run."""
    targets: dict[str, Target] = {}
    for member in members:
        try:
            target = member.resolved_target()
        except TileworkError:
            continue
        targets.setdefault(str(target), target)
    return list(targets.values())


def _some(words: Sequence[str]) -> str:
    more = len(words) - NAMED
    return ", ".join(words[:NAMED]) + (f" and {more} more" if more > 0 else "")


def verdict(outcomes: Sequence[Outcome], failed: str) -> str:
    """One line: what was made, and what went wrong."""
    if failed:
        return f"FAILED: {failed}"
    compiled = [one for one in outcomes if one.state == "made"]
    said = f"{len(compiled)} of {len(outcomes)} modules made"
    unseen = [
        one.network for one in compiled if one.finished is None or one.finished.check is None
    ]
    held = [one.network for one in outcomes if one.state == "held"]
    said += ", each with the right output" if compiled and not unseen else ""
    said += (
        f"; not checked, since this machine cannot run it: {', '.join(unseen)}" if unseen else ""
    )
    return said + (f"; the old one stays of {', '.join(held)}" if held else "")


def zoo_page(report: ZooReport, title: str) -> str:
    """What came of tuning many networks."""
    lines = [f"# {title}", "", f"**{verdict(report.outcomes, report.failed)}**", ""]
    lines += [*outcome_table(report.outcomes), ""]
    progress = report.progress
    facts = [("ended", report.stopped or "-")]
    if progress is not None:
        facts += [
            ("spent", budget_text(progress)),
            ("rounds", f"{progress.rounds}, {report.resumed_rounds} of them found in the store"),
            (
                "tasks of a mean call",
                f"{latency(progress.estimated_total_s)}, measured one by one",
            ),
        ]
    facts += [
        (f"search for {one.target}", f"{one.changed} tasks have a new best; run `{one.run_id}`")
        for one in report.searches
    ]
    return "\n".join([*lines, *_facts([*facts, *_places(report.store, report.folder)])])


def release_page(report: ReleaseReport, title: str) -> str:
    """What came of a release."""
    lines = [f"# {title}", "", f"**{verdict(report.outcomes, report.failed)}**", ""]
    lines += [*outcome_table(report.outcomes), ""]
    return "\n".join([*lines, *_facts(_places(report.store, report.folder))])


def outcome_table(outcomes: Sequence[Outcome]) -> list[str]:
    """What became of each network, and the mean of all; the reasons are beneath."""
    total = sum(one.use for one in outcomes)
    lines = [
        "| network | target | precision | use | outcome | untuned (ms) | now (ms) | |",
        "|---|---|---|--:|---|--:|--:|--:|",
    ]
    for one in outcomes:
        times = [show_ms(one.untuned_ms), show_ms(one.latency_ms)]
        cells = [one.network, f"`{one.target}`", one.precision, percent(one.use / total)]
        cells += [one.state, *times, change(one.untuned_ms, one.latency_ms)]
        lines.append(f"| {' | '.join(cells)} |")
    mix = mix_ms(outcomes)
    if mix is not None:
        cells = ["**mean by use**", "", "", "", "", show_ms(mix[0]), show_ms(mix[1]), change(*mix)]
        lines.append(f"| {' | '.join(cells)} |")
    said = [f"- {one.network} for `{one.target}`: {_said(one)}" for one in outcomes]
    return [*lines, "", *said]


def _said(one: Outcome) -> str:
    check = one.finished.check if one.finished is not None else None
    checked = ""
    if check is not None:
        checked = f" (maximum relative error {check.max_rel_error:.1e} against {check.reference})"
    reason = f": {one.reason}" if one.reason else ""
    return f"{one.state}{checked}{reason}"


def _places(store: str, folder: str) -> list[tuple[str, str]]:
    return [
        ("modules", f"`{folder}`" if folder else "not kept"),
        ("records", f"`{store}`"),
        ("the run before", BEFORE),
    ]


def _facts(facts: Sequence[tuple[str, str]]) -> list[str]:
    rows = [f"| {name} | {value.replace('|', '/')} |" for name, value in facts]
    return ["| this run | |", "|---|---|", *rows]
