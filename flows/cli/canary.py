"""``tilework canary``: has this machine, or a kernel on it, become slower?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import options
from flows.cli.output import console, print_json, say, table, warn
from flows.numbers import latency, percent

if TYPE_CHECKING:
    from tasks.canary.report import CanaryReport


def canary(
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Time that timing takes, about.")
    ] = 10.0,
    trials: Annotated[
        int,
        typer.Option("--trials", min=0, help="To tune a slow kernel's task with; 0: do not tune."),
    ] = 64,
    host: Annotated[
        str, typer.Option("--host", help="Name that readings are kept under; default: the host's.")
    ] = "",
    refreeze: Annotated[
        bool, typer.Option("--refreeze", help="Choose kernels and learn what is usual anew.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Time a few frozen kernels of the store beside the calibration loop.

    Run it now and then, or let Prefect do so every hour: after five readings it knows what is
    usual. What is slower two times in a row is told: the machine, or kernels alone. Kernels have
    their finals run again, and are tuned if that does not help, at most once a day.

    It is skipped, with a line, while another run measures on the device.

    Exit code 1: something is slow, or fails.
    """
    from flows.upkeep_settings import CanarySettings
    from tasks.canary.report import remedy_line
    from tasks.canary.run import run_canary
    from tasks.stores import open_store

    settings = CanarySettings(
        target=target, threads=threads, store=store, seconds=seconds, trials=trials, host=host,
        refreeze=refreeze,
    )  # fmt: skip
    resolved = settings.resolved_target()
    opened = open_store(settings.store, must_exist=True)
    report = run_canary(resolved, opened, settings.plan(), say)
    if json:
        print_json({"verdict": report.verdict, "healthy": report.healthy, **vars(report)})
    else:
        for note in report.notes:
            typer.echo(note)
        _print_kernels(report)
        for alert in (report.machine_alert, report.kernels_alert):
            if alert:
                warn(f"warning: {alert}")
        for remedy in report.remedies:
            typer.echo(remedy_line(remedy))
        typer.echo(report.verdict)
    if not report.healthy:
        raise typer.Exit(1)


def _print_kernels(report: CanaryReport) -> None:
    from tasks.canary.report import rows

    if report.watch is None:
        return
    lines = [
        (
            row.what,
            latency(row.usual_s),
            latency(row.last_s),
            percent(row.change, signed=True),
            percent(row.limit),
            row.state,
        )
        for row in rows(report)
    ]
    columns = ["What", ">Usual", ">Now", ">Change", ">Limit", "State"]
    console().print(table(columns, lines))
