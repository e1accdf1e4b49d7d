"""``tilework explain`` and ``reproduce``: one task, and one candidate, looked at closely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import options
from flows.cli.form import USUAL, NetworkForm, of_network
from flows.cli.hints import store_option
from flows.cli.output import console, print_json, table
from flows.cli.reading import say_problems
from flows.numbers import gflops, latency, milliseconds, operations, size
from tilework.errors import NetworkError
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from tasks.explanation import Contestant, Explanation, Roofline
    from tasks.reproduce import Reproduced


@of_network
def explain(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="NET:ID, with the ID that `extract` lists.")
    ],
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    form: NetworkForm = USUAL,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time the schedules shown in turns, now.")
    ] = False,
    steps: Annotated[
        bool, typer.Option("--steps", help="Also what passes did, its loop program and its code.")
    ] = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what TASK computes, and its best, second and default schedule side by side.

    The default is what an untuned compile chooses. Beside what was measured
    stand what the models believed, and how far the machine's limits are. Of
    GPUs, the generated CUDA C with its registers, shared memory, occupancy and
    what bounds it.

    [bold]Examples[/]

      tilework explain resnet-18:3

      tilework explain resnet-18:3 --measure     time the three again, in turns

      tilework explain resnet-18:3 --steps       what it becomes: passes, loops, code

      tilework explain resnet-18:3 --target 'cuda -model=a100 -run=simulated'
    """
    from flows.cli.output import warn
    from tasks.explanation import explain as explained
    from tasks.extraction import extract as extract_network
    from tasks.network import target_of
    from tasks.stores import open_store, other_targets, records_of

    network, _, number = task.rpartition(":")
    if not network or not number.isdigit():
        raise NetworkError(f"'{task}' names no task: write NET:ID, for instance resnet-18:3")
    extracted = extract_network(form.of(network), target_of(target, threads))
    if int(number) >= len(extracted.tasks):
        raise NetworkError(f"{network} has tasks 0 to {len(extracted.tasks) - 1}, not {number}")
    chosen = extracted.tasks[int(number)]
    opened = open_store(store, must_exist=store != options.DEFAULT_STORE)
    records = records_of(opened, chosen)
    say_problems(opened)
    for other, count in other_targets(opened, [chosen]).items():
        typer.secho(f"{opened.path}: {count} rows not shown: they are of target {other}", err=True)
    for line in extracted.notes:
        typer.secho(f"{network}: {line}", err=True)
    document = explained(
        chosen, records, origin=extracted, measure=measure, steps=steps, tell=warn
    )
    if json:
        print_json(document)
        return
    _print(document, opened.path)


def _print(document: Explanation, store: str) -> None:
    out = console()
    out.print(f"[bold]{document.description}[/]  {operations(document.flops)}")
    typer.echo(f"workload {document.workload_key}\ntarget   {document.target}\n")
    if document.passes:
        typer.echo(document.passes)
    typer.echo(document.dag)
    typer.echo("sketches:")
    for sketch in document.sketches:
        typer.echo(f"  {sketch['id']}  {sketch['name']} ({sketch['decisions']} decisions)")
    measured = ", ".join(f"{n} {kind}" for kind, n in sorted(document.measured.items()))
    out.print(f"measured: {measured or 'nothing yet (tilework tune makes records)'}")
    if document.points:
        out.print(f"latencies and operations are geometric means of {document.points}")
    else:
        _print_roofline(document.roofline)
    shown = document.contestants
    title = caveat(document.target) or None
    out.print(table(["", *(c.role for c in shown)], _rows(document), title=title))
    first = shown[0]
    typer.echo(f"{first.role.capitalize()} schedule:\n{first.schedule}")
    if first.program:
        typer.echo(f"{first.role.capitalize()} schedule as a loop program:\n\n{first.program}")
    if first.code is not None:
        typer.echo(f"{first.role.capitalize()} schedule in {first.code.language}:\n")
        typer.echo(first.code.text)
    known = [c for c in shown if c.record_id]
    if known:
        typer.echo("Measure one again:")
    for contestant in known:
        command = f"tilework reproduce {contestant.record_id}{store_option(store)}"
        typer.echo(f"  {command}    {contestant.role}")


def _rows(document: Explanation) -> list[list[str]]:
    """Side by side: what was measured, what was believed, the roofline, the decisions."""
    shown, flops, roof = document.contestants, document.flops, document.roofline

    def row(name: str, *cells: str) -> list[str]:
        return [name, *cells]

    rows = [
        row("measured ms", *(milliseconds(c.latency_s) for c in shown)),
        row("how", *(c.measured for c in shown)),
    ]
    if any(c.now_s for c in shown):
        rows.append(row("now, in turns, ms", *(milliseconds(c.now_s) for c in shown)))
    rows += [
        row("GFLOPS", *(gflops(flops, _seconds(c)) for c in shown)),
        row("analytic model said ms", *(milliseconds(c.draft_s) for c in shown)),
        row("score when proposed", *(_belief(c) for c in shown)),
    ]
    if roof is not None:
        rows.append(row("share of FMA peak", *(_share(roof.compute_s, c) for c in shown)))
        rows.append(row("share of the bound", *(_share(roof.bound_s, c) for c in shown)))
    headings = dict.fromkeys(name for c in shown if c.code for name in c.code.facts)
    for name in headings:
        rows.append(row(name, *(c.code.facts.get(name, "-") if c.code else "-" for c in shown)))
    rows.append(row("sketch", *(f"{c.sketch_id}  {c.sketch}" for c in shown)))
    names = dict.fromkeys(name for c in shown for name in c.decisions)
    for name in names:
        rows.append(row(f"  {name}", *(_decision(c, name) for c in shown)))
    return rows


def _seconds(contestant: Contestant) -> float | None:
    return contestant.now_s or contestant.latency_s


def _belief(contestant: Contestant) -> str:
    if contestant.score is None:
        return "-"
    return f"{contestant.score:.3g} ({contestant.model_id})"


def _share(least_s: float, contestant: Contestant) -> str:
    seconds = _seconds(contestant)
    return f"{least_s / seconds:.0%}" if seconds else "-"


def _decision(contestant: Contestant, name: str) -> str:
    values = contestant.decisions.get(name)
    return "-" if values is None else " x ".join(map(str, values))


def _print_roofline(roof: Roofline | None) -> None:
    if roof is None:
        typer.echo("roofline: this machine cannot run the target's code")
        return
    known = "measured peak" if roof.measured else "peak on paper"
    typer.echo(
        f"roofline: {latency(roof.compute_s)} of multiply-adds at the {known} of "
        f"{roof.peak_gflops:.0f} GFLOPS; {latency(roof.memory_s)} for "
        f"{size(roof.nbytes)} of arguments at {roof.gb_per_s:.0f} GB/s: "
        f"bound by {roof.bound}"
    )


def reproduce(
    record: Annotated[
        str, typer.Argument(metavar="RECORD", help="A record's id, or how it begins.")
    ],
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Build, verify and time one recorded candidate again, and show its error if it fails.

    The store keeps all that is needed: no network file is read.

    tilework reproduce 4fd88b144fb88518-000007-0003
    """
    from flows.cli.output import warn
    from tasks.reproduce import reproduce as again
    from tasks.stores import open_store

    reproduced = again(open_store(store, must_exist=True), record, warn)
    if json:
        print_json(reproduced)
    else:
        _print_reproduced(reproduced)
    if reproduced.result.latency_s is None:
        raise typer.Exit(1)


def _print_reproduced(reproduced: Reproduced) -> None:
    record, result = reproduced.record, reproduced.result
    out = console()
    typer.echo(f"{record.record_id}: {record.workload} for {record.target}")
    typer.echo(f"sketch {record.sketch_id}, decisions {list(record.decisions)}\n")
    typer.echo(reproduced.schedule)
    rows = [
        ("then", str(record.status), milliseconds(record.latency_s),
         gflops(record.flops, record.latency_s), record.error),
        ("now", str(result.status), milliseconds(result.latency_s),
         gflops(record.flops, result.latency_s), result.error),
    ]  # fmt: skip
    if reproduced.best_s is not None:
        best = (milliseconds(reproduced.best_s), gflops(record.flops, reproduced.best_s))
        rows.append(("best of the task", "", *best, ""))
    title = caveat(record.target) or None
    out.print(table(["", "Status", ".Latency (ms)", ".GFLOPS", "Error"], rows, title=title))
    if reproduced.traceback:
        typer.echo(reproduced.traceback)
