"""``tilework records slower, coverage, errors, night, columns``: questions to the records."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli import options
from flows.cli.hints import store_option
from flows.cli.output import console, print_json, table
from flows.cli.reading import columns_of, to_read
from flows.cli.record_tables import (
    OnlyNetwork,
    OnlyTarget,
    Places,
    failed_text,
    print_causes,
    print_caveats,
)
from flows.numbers import change, latency, milliseconds, number, percent, plural, when

if TYPE_CHECKING:
    import pandas as pd

    from tasks.analysis.moments import Moment
    from tasks.analysis.night import NetworkGain, Night, TaskGain

Since = Annotated[
    str,
    typer.Option(
        "--since",
        help="A date (2026-11-20, '2026-11-20 18:00'), an age (12h, 3d), a run's id or a version.",
    ),
]
Rows = Annotated[int, typer.Option("--rows", min=1, help="Show so many rows at most.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application of ``tilework records``."""
    for command in (slower, coverage, errors, night, columns):
        app.command(command.__name__)(command)


def slower(
    since: Since = "7d",
    store: options.Store = options.DEFAULT_STORE,
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    limit: Annotated[
        float, typer.Option("--limit", min=0.0, help="What is less slower is noise; 0.05 is 5 %.")
    ] = 0.05,
    rows: Rows = 20,
    json: options.Json = False,
) -> None:
    """What got slower since a date, a run or a version, and which cause the numbers support.

    Two things are compared on each device: what counted as the best of a workload then and counts
    now, which only finals can make slower; and programs that were measured before and since.

    tilework records slower --since 0.2.0
    """
    from tasks.analysis import slower as question

    opened = to_read(store)
    frame = columns_of(opened, question.COLUMNS, network, target)
    moment = _moment(since, frame)
    programs = question.slower(frame, moment, limit)
    if json:
        print_json([_document(one, "best") for one in programs])
        return
    both = question.measured_on_both_sides(frame, moment)
    said = f"{both} workload{plural(both)} measured before {moment} and since"
    if not programs:
        typer.echo(f"{said}: none is more than {100 * limit:g} % slower")
        return
    shown = programs[:rows]
    places = Places(shown)
    heads = ["Workload", *places.heads, ".Then (ms)", ".Now (ms)", ">Best", ">Again", ">Programs",
             ">Machine", "Cause"]  # fmt: skip
    cells = [
        (
            one.workload, *places.cells(one), milliseconds(one.best_before_s),
            milliseconds(one.best_s), percent(one.best, signed=True),
            percent(one.again, signed=True), one.programs, percent(one.machine, signed=True),
            one.cause,
        )
        for one in shown
    ]  # fmt: skip
    console().print(table(heads, cells, title=places.title))
    typer.echo(
        f"{said}: {len(programs)} more than {100 * limit:g} % slower{_hidden(programs, rows)}"
    )
    typer.echo("Then and Now: what counts as the best. Again: the same programs, measured twice.")
    print_caveats(one.target for one in shown)


def coverage(
    store: options.Store = options.DEFAULT_STORE,
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    zoo: Annotated[
        bool,
        typer.Option("--zoo", help="All built-in networks, by their own lists of tasks (slow)."),
    ] = False,
    json: options.Json = False,
) -> None:
    """What covers which network, target and device, and how far each is tuned.

    A network's tasks are those that its records name; with --zoo, those that it has. Networks
    share tasks: records count for each of them, whichever they were made for.
    """
    from storage.rules import present_rules
    from tasks.analysis import coverage as question

    opened = to_read(store)
    frame = columns_of(opened, question.COLUMNS, None, target)
    known = _zoo(frame) if zoo else None
    targets = question.coverage(frame, present_rules, known)
    targets = [one for one in targets if network in (None, one.network)]
    if json:
        print_json([_document(one, "share") for one in targets])
        return
    places = Places(targets)
    heads = ["Network", *places.heads, "Tasks", ">", ">Finals", ">Trials", ">Unused", ">Last"]
    cells = [
        (
            one.network, *places.cells(one), f"{one.measured} of {one.tasks}",
            percent(one.share), one.final, f"{one.trials:,}", f"{one.stale:,}", when(one.last),
        )
        for one in targets
    ]  # fmt: skip
    console().print(table(heads, cells, title=places.title))
    if any(one.stale for one in targets):
        typer.echo("Unused: records of other rules than today's; no compile takes them.")
    print_caveats(one.target for one in targets)


def errors(
    by: Annotated[
        Literal["model", "kind", "workload", "sketch", "target", "device"],
        typer.Option("--by", help="What the rows are; kind: a workload's operations."),
    ] = "workload",
    store: options.Store = options.DEFAULT_STORE,
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    rows: Rows = 20,
    json: options.Json = False,
) -> None:
    """Where the models err: what was predicted beside what was measured, the worst first.

    First choice: the speed of the candidate that a round's prediction put first, over the round's
    best; its mean, and its worst round. Order: how far the candidates of a round come out in the
    order of their predictions; 1 is all of them, 0 is chance. A round holds what the model liked
    best, whose differences are small: compare rows with each other.

    tilework records errors --by kind
    """
    from tasks.analysis import errors as question

    opened = to_read(store)
    entries = question.errors(columns_of(opened, question.COLUMNS, network, target), by)
    if json:
        print_json(entries)
        return
    if not entries:
        typer.echo("no round holds two valid candidates with predictions")
        return
    heads = [by.capitalize(), ">Rounds", ">Candidates", ">Failed", ">Order", ">First choice"]
    cells = [
        (
            one.group, f"{one.rounds:,}", f"{one.candidates:,}", percent(one.failed),
            number(one.order, 2), percent(one.first_choice), percent(one.worst),
        )
        for one in entries[:rows]
    ]  # fmt: skip
    console().print(table([*heads, ">Worst"], cells))
    if len(entries) > rows:
        typer.echo(f"{len(entries)} rows{_hidden(entries, rows)}")
    worst = min(entries, key=lambda one: one.worst)
    typer.echo(f"Put first in the worst round, at {percent(worst.worst)} of its best:")
    typer.echo(f"  tilework reproduce {worst.record}{store_option(opened.path)}")


def night(
    since: Since = "24h",
    store: options.Store = options.DEFAULT_STORE,
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    rows: Rows = 15,
    json: options.Json = False,
) -> None:
    """What the last runs brought: gains of networks and tasks, failures, and drift.

    Where nothing was measured since then, the last run is shown.

    tilework records night --since 12h
    """
    from tasks.analysis import night as question
    from tasks.analysis.networks import calls_of

    opened = to_read(store)
    frame = columns_of(opened, question.COLUMNS, network, target)
    moment = _moment(since, frame)
    if not frame.empty and frame["created_at"].max() < moment.at:
        if not json:
            typer.echo(f"Nothing was measured since {moment}; the last run:")
        last = str(frame.loc[frame["created_at"].idxmax(), "run_id"])
        moment = _moment(last, frame, exact=True)
    gains = question.night(frame, moment, calls_of)
    if json:
        print_json(_night_document(gains))
        return
    _print_night(gains, rows, opened.path)


def columns(json: options.Json = False) -> None:
    """What every column of the records means."""
    from storage.columns import COLUMNS

    if json:
        print_json(list(COLUMNS))
        return
    heads = ["Column", "Type", "Unit", ">Since", "Meaning"]
    rows = [
        (one.name, one.kind + (", may be empty" if one.empty else ""), one.unit, one.since,
         one.meaning)
        for one in COLUMNS
    ]  # fmt: skip
    console().print(table(heads, rows))


def _moment(text: str, frame: pd.DataFrame, *, exact: bool = False) -> Moment:
    from tasks.analysis.moments import moment_of, start_of

    return start_of(text, frame) if exact else moment_of(text, frame, datetime.now(UTC))


def _hidden(entries: Any, rows: int) -> str:
    return f"; {len(entries) - rows} more with --rows" if len(entries) > rows else ""


def _document(one: Any, *derived: str) -> dict[str, Any]:
    """A dataclass as JSON, with values that it derives."""
    return dataclasses.asdict(one) | {name: getattr(one, name) for name in derived}


def _zoo(frame: pd.DataFrame) -> dict[tuple[str, str], frozenset[str]]:
    from tasks.analysis.networks import tasks_of
    from tilework.graph import zoo

    out = {}
    for text in map(str, frame["target"].unique()):
        for name in zoo.names():
            if (tasks := tasks_of(name, text)) is not None:
                out[name, text] = frozenset(tasks)
    return out


def _night_document(gains: Night) -> dict[str, Any]:
    return {
        "since": gains.since.at,
        "runs": list(gains.runs),
        "networks": list(gains.networks),
        "tasks": [_document(one, "saved_s") for one in gains.tasks],
        "causes": list(gains.causes),
    }


def _print_night(gains: Night, most: int, store: str) -> None:
    out = console()
    counted = ("trials", "finals", "rounds", "drifted")
    trials, finals, rounds, drifted = (
        sum(getattr(one, name) for one in gains.runs) for name in counted
    )
    failed = sum(sum(one.failed.values()) for one in gains.runs)
    count = len({one.run_id for one in gains.runs})
    out.print(
        f"Since {gains.since}: {count} run{plural(count)}, {trials:,} trials and {finals:,} "
        f"measurements of finals in {rounds:,} round{plural(rounds)}; {failed:,} failed; in "
        f"{drifted:,} round{plural(drifted)} the machine was more than 5 % off its usual speed"
    )
    places = Places(gains.runs)
    heads = ["Run", "Network", *places.heads, ">Rounds", ">Drifted", ">Trials", "Failed", ">Last"]
    cells = [
        (
            one.run_id, one.network, *places.cells(one), one.rounds, one.drifted,
            one.trials, failed_text(one.failed), when(one.last),
        )
        for one in gains.runs
    ]  # fmt: skip
    out.print(table(heads, cells, title=places.title))
    if gains.networks:
        _print_networks(gains.networks)
        _print_tasks(gains.tasks, most)
    print_causes(gains.causes, store)
    print_caveats(one.target for one in gains.runs)


def _print_networks(gains: tuple[NetworkGain, ...]) -> None:
    places = Places(gains)
    heads = ["Network", *places.heads, ">Tasks", ">New", ">Better", ">Worse", ".Before (ms)",
             ".After (ms)", ">Change", ".All now (ms)"]  # fmt: skip
    cells = []
    for one in gains:
        before, after = (one.before_s, one.after_s) if one.tasks > one.new else (None, None)
        cells.append(
            (
                one.network + ("" if one.weighted else " *"), *places.cells(one), one.tasks,
                one.new, one.better, one.worse, milliseconds(before), milliseconds(after),
                change(before, after), milliseconds(one.total_s),
            )
        )  # fmt: skip
    title = "Sums of the tasks' best latencies; before and after: of those known before"
    console().print(table(heads, cells, title=title))
    if not all(one.weighted for one in gains):
        typer.echo("* each task counts once: the network, and so its calls, is not at hand")


def _print_tasks(gains: tuple[TaskGain, ...], most: int) -> None:
    changed = [one for one in gains if one.saved_s]
    if not changed:
        typer.echo("No task that was known before has another best now.")
        return
    shown = changed[:most]
    places = Places(shown)
    heads = ["Workload", "Network", *places.heads, ">Calls", ".Before (ms)", ".After (ms)",
             ">Change", ">Saved"]  # fmt: skip
    cells = [
        (
            one.workload, one.network, *places.cells(one), f"{one.calls:g}",
            milliseconds(one.before_s), milliseconds(one.after_s),
            change(one.before_s, one.after_s), latency(one.saved_s, signed=True),
        )
        for one in shown
    ]  # fmt: skip
    console().print(table(heads, cells, title=f"Tasks that changed{_hidden(changed, most)}"))
