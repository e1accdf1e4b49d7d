"""``tilework tune``: search, measure, compile, and say what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli import options
from flows.cli.form import USUAL, NetworkForm, of_network
from flows.cli.hints import machine_options, print_commands, store_option
from flows.cli.output import console, fail, print_json, table, warn
from flows.numbers import latency, show_ms
from flows.texts import sentence
from tilework.target.runs import caveat, mark

if TYPE_CHECKING:
    from flows.reporting import Reporter
    from flows.settings import TuneSettings
    from tasks.report import TuneReport


@of_network
def tune(
    network: options.Network,
    target: options.TargetText = options.DEFAULT_TARGET,
    effort: Annotated[
        Literal["draft", "quick", "full"],
        typer.Option(
            "--effort", help="draft: about a minute; quick: up to 15 minutes; full: an hour."
        ),
    ] = "quick",
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, help="Measurements, instead of effort's."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=1, help="Search time, instead of effort's."),
    ] = None,
    min_gain: options.MinGain = None,
    extend: options.Extend = False,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    seed: options.Seed = 0,
    form: NetworkForm = USUAL,
    output: options.Output = None,
    model: options.Model = "champion",
    packages: options.Packages = True,
    prefect: options.Prefect = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Tune NET for this machine, compile it, check it and time it.

    Every round's measurements are stored when it ends. Stop with Ctrl-C
    at any time: the same command goes on where it stopped.

    [bold]Examples[/]

      tilework tune resnet-18 --effort draft

      tilework tune model.onnx --seconds 600 --output model.tw

      tilework tune model.onnx --shape input=8,3,224,224

      tilework tune model.onnx --shape any      one module for every size

      tilework tune resnet-50 --threads 1 --store s3://bucket/records

      tilework tune resnet-18 --extend          more of the same, continued

      tilework tune mlp --sparse 0.85 --block 16x1     block-sparse weights
    """
    from flows.cli.progress import reporter_for
    from flows.pipeline import TuneFailed
    from flows.settings import TuneSettings
    from tasks.network import network_label, parse_sparse

    label = network_label(network, parse_sparse(form.sparse, form.block))
    settings = TuneSettings(
        network=network,
        target=target,
        effort=effort,
        trials=trials,
        seconds=seconds,
        min_gain=min_gain,
        extend=extend,
        threads=threads,
        store=store,
        seed=seed,
        output=f"{label}.tw" if output is None else output,
        model=model,
        packages=packages,
        **form.settings(network),
    )
    resolved = settings.resolved_target()  # a bad target ends here, before anything is loaded
    given = machine_options(target, threads, store) + form.text
    try:
        report = _run(settings, reporter_for(json), prefect)
    except TuneFailed as error:
        report = error.outcome.report
    except KeyboardInterrupt:
        usable = f", and `tilework compile {network}{given}` uses what there is"
        warn(
            f"\nstopped: the finished rounds are in {store}; the same command goes on from there"
            + (usable if resolved.run != "simulated" else "")
        )
        raise typer.Exit(130) from None
    if json:
        print_json(_document(report))
    else:
        print_report(report, given)
    if report.failed:
        fail(report.failed)


def _run(settings: TuneSettings, reporter: Reporter, prefect: bool | None) -> TuneReport:
    from flows.cli.server_choice import wants_flow
    from flows.reporting import reporting

    use_flow = wants_flow(prefect, reporter)
    with reporting(reporter):
        if use_flow:
            from flows.shell.here import run_here
            from flows.tune_network import tune_network

            return run_here(tune_network, settings)
        from flows.pipeline import tune_pipeline

        return tune_pipeline(settings).report


def _document(report: TuneReport) -> dict[str, Any]:
    """The report as JSON, with the values that its dataclasses derive."""
    progress = report.progress
    return {
        "run_id": report.run_id,
        "network": report.network,
        "target": report.target,
        "store": report.store,
        "model": report.model,
        "module": report.module,
        "rounds": progress.rounds,
        "resumed_rounds": report.resumed_rounds,
        "trials": progress.trials,
        "elapsed_s": progress.elapsed_s,
        "failures": report.failures,
        "estimated_total_ms": progress.estimated_total_s * 1e3,
        "stopped": report.stopped,
        "failed": report.failed,
        "tasks_with_finals": progress.finals,
        "drifted_rounds": progress.drifted_rounds,
        "disturbed_finals": {str(index): ratio for index, ratio in progress.disturbed},
        "before": report.before,
        "after": report.after,
        "standing": report.standing,
        "speedup": report.speedup,
        "gap": list(report.gap),
        "left": report.left,
        "loss": report.loss,
        "check": report.check,
        "tasks": list(progress.rows),
    }


def print_report(report: TuneReport, options: str = "") -> None:
    """The closing summary: tasks, latencies, correctness, places, and what to type next.

    ``options`` belong to the commands that are proposed.
    """
    from flows.cli.progress import task_table
    from flows.texts import budget_text, disturbed_text

    out = console()
    progress = report.progress
    out.print(report.verdict, style="red" if report.failed else "green", markup=False)
    out.print(task_table(progress))
    total = latency(progress.estimated_total_s)
    out.print(f"Estimated total latency: {total}{mark(report.target)} ({budget_text(progress)})")
    if progress.finals:
        out.print(
            f"Best schedules chosen by finals, timed in turns: {progress.finals} of "
            f"{len(progress.rows)} tasks{disturbed_text(progress)}"
        )
    if progress.drifted_rounds:
        out.print(
            f"[yellow]In {progress.drifted_rounds} of {progress.rounds} rounds the machine was "
            "more than 5 % off its usual speed:[/] latencies of different rounds are less "
            "comparable than those of finals"
        )
    failed = {kind: count for kind, count in report.failures.items() if kind != "unfit"}
    if failed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(failed.items()))
        out.print(f"Failed measurements, kept as records: {kinds}")
    if unfit := report.failures.get("unfit", 0):
        out.print(f"Built and refused without a measurement, kept as records: {unfit}")
    for line in filter(None, (report.left, report.loss)):
        out.print(str(line), markup=False)
    _print_latency(report)
    if report.check is not None:
        verdict = "ok" if report.check.passed else "[red]WRONG[/]"
        out.print(
            f"Output check against {report.check.reference}: maximum relative error "
            f"{report.check.max_rel_error:.1e} ({verdict})"
        )
    out.print(f"\nRecords: {report.store}   (run {report.run_id})")
    if report.model:
        out.print(f"Began with: {report.model}", markup=False)
    if report.module:
        out.print(f"Module:  {report.module}")
    out.print("\nNext:")
    commands = [
        (f"tilework explain {report.network}:0{options}", "what was chosen for a task, and why"),
        (f"tilework tune {report.network}{options} --extend", "search on"),
        (f"tilework records best{store_option(report.store)}", "the best schedule of each task"),
    ]
    if report.check is not None:
        bench = f"tilework bench {report.network}{options} --compare onnxruntime"
        commands.insert(0, (bench, "against another engine"))
    print_commands(commands)


def _print_latency(report: TuneReport) -> None:
    before, after = report.before, report.after
    if before is None or after is None:
        return
    engines = [("untuned", before), ("tuned", after)]
    if report.standing is not None and report.standing.old is not None:
        engines.insert(1, ("module before", report.standing.old))
    rows = [
        (name, *(show_ms(value) for value in (t.median_ms, t.mean_ms, t.min_ms, t.max_ms)))
        for name, t in engines
    ]
    out = console()
    out.print(
        table(
            ["End to end", ".median ms", ".mean", ".min", ".max"],
            rows,
            title=caveat(report.target) or None,
        )
    )
    out.print(f"Speed-up over the untuned network: {report.speedup:.2f}x (median over pairs)")
    if report.gap:
        first, *rest = report.gap
        out.print(f"[yellow]{sentence(first)}[/]")
        for line in rest:
            out.print(f"  {line}", markup=False)
