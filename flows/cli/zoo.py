"""``tilework tune-zoo``: tune many networks under one budget, and make the module of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli import options
from flows.cli.hints import store_option
from flows.cli.output import console, fail, print_json, table, warn
from flows.numbers import change, latency, percent, show_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flows.reporting import Reporter
    from flows.zoo_pipeline import ZooReport
    from flows.zoo_settings import ZooNetwork, ZooSettings
    from tasks.outcome import Outcome

Networks = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|NET=USE...",
        help="A zoo file (YAML or JSON), or networks and how often each runs.",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", help="Machine to tune for; repeatable: each network for each target."
    ),
]
Folder = Annotated[
    str, typer.Option("--folder", help="Where the modules are kept; '': they are not.")
]


def tune_zoo(
    networks: Networks,
    target: Targets = None,
    threads: options.Threads = None,
    precision: options.Precision = "f32",
    effort: Annotated[
        Literal["draft", "quick", "full"],
        typer.Option("--effort", help="Search depth, and budgets for each network."),
    ] = "quick",
    trials: Annotated[
        int | None, typer.Option("--trials", min=1, help="Measurements of all together.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, help="Search time of all together.")
    ] = None,
    min_gain: options.MinGain = None,
    extend: options.Extend = False,
    store: options.Store = options.DEFAULT_STORE,
    seed: options.Seed = 0,
    folder: Folder = "modules",
    prefect: options.Prefect = None,
    json: options.Json = False,
) -> None:
    """Tune many networks under one budget, spent where it saves most.

    A task that networks share is tuned once. Every module is compiled,
    checked, and timed beside the one that it replaces. What fails does not
    stop the others; the exit code is 1 then. Stop with Ctrl-C at any time:
    the same command goes on where it stopped.

    [bold]Examples[/]

      tilework tune-zoo resnet-18=5 mobilenet --seconds 3600

      tilework tune-zoo zoo.yaml --effort quick --folder release

    [bold]A zoo file[/]

      defaults: {threads: 2}

      networks:

        - resnet-18

        - {network: models/net.onnx, use: 5}
    """
    from flows.cli.progress import reporter_for
    from flows.zoo_settings import ZooSettings, settings_of

    settings = settings_of(
        ZooSettings,
        **named(networks, target, threads, precision),
        effort=effort,
        trials=trials,
        seconds=seconds,
        min_gain=min_gain,
        extend=extend,
        store=store,
        seed=seed,
        folder=folder,
    )
    try:
        report = _run(settings, reporter_for(json), prefect)
    except KeyboardInterrupt:
        warn(f"\nstopped: the finished rounds are in {store}; the same command goes on from there")
        raise typer.Exit(130) from None
    if json:
        print_json(_document(report))
    else:
        _print_report(report)
    if report.failed:
        fail(report.failed)


def _run(settings: ZooSettings, reporter: Reporter, prefect: bool | None) -> ZooReport:
    from flows.cli.server_choice import wants_flow
    from flows.reporting import reporting
    from flows.zoo_pipeline import ZooFailed, zoo_pipeline

    use_flow = wants_flow(prefect, reporter)
    try:
        with reporting(reporter):
            if use_flow:
                from flows.shell.here import run_here
                from flows.tune_zoo import tune_zoo

                return run_here(tune_zoo, settings)
            return zoo_pipeline(settings)
    except ZooFailed as error:
        return error.outcome


def named(
    networks: Sequence[str], targets: Sequence[str] | None, threads: int | None, precision: str
) -> dict[str, Any]:
    """The settings that say which networks: a file, or the networks themselves.

    Raises:
        SettingsError: a file comes with other networks, or with what it says itself.
    """
    from flows.zoo_settings import SettingsError, is_zoo_file, parse_network

    files = [text for text in networks if is_zoo_file(text)]
    if not files:
        given: dict[str, Any] = {"threads": threads, "precision": precision}
        members: list[ZooNetwork] = [
            parse_network(text, target=one, **given)
            for one in targets or [options.DEFAULT_TARGET]
            for text in networks
        ]
        return {"networks": tuple(members)}
    if len(networks) > 1:
        raise SettingsError(f"{files[0]}: a zoo file comes alone; put the other networks into it")
    if targets or threads is not None or precision != "f32":
        raise SettingsError(
            f"{files[0]}: --target, --threads and --precision belong into the zoo file, "
            "for all networks under `defaults`"
        )
    return {"file": files[0]}


def _document(report: ZooReport) -> dict[str, Any]:
    """The report as JSON."""
    progress = report.progress
    spent = {} if progress is None else {
        "rounds": progress.rounds,
        "trials": progress.trials,
        "elapsed_s": progress.elapsed_s,
        "estimated_total_ms": progress.estimated_total_s * 1e3,
        "tasks": list(progress.rows),
    }  # fmt: skip
    return {
        "store": report.store,
        "folder": report.folder,
        "stopped": report.stopped,
        "resumed_rounds": report.resumed_rounds,
        **spent,
        "searches": list(report.searches),
        "networks": list(report.outcomes),
        "failed": report.failed,
    }


def _print_report(report: ZooReport) -> None:
    """What was spent, what became of each network, and what to type next."""
    from flows.texts import budget_text

    out = console()
    if report.progress is not None:
        total = latency(report.progress.estimated_total_s)
        out.print(
            f"Search: {report.stopped} ({budget_text(report.progress)}); tasks of a mean call, "
            f"as measured one by one: {total}"
        )
        for search in report.searches:
            out.print(
                f"  {search.target}: {search.changed} tasks have a new best (run {search.run_id})"
            )
    print_outcomes(report.outcomes)
    out.print(f"\nRecords: {report.store}", markup=False)
    if report.folder:
        out.print(f"Modules: {report.folder}", markup=False)
    out.print(f"\nNext:\n  tilework records best{store_option(report.store)}", markup=False)


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """A table of what became of each network, with the reasons of those that were not made."""
    from tasks.outcome import mix_ms

    total = sum(one.use for one in outcomes)
    rows = [
        (
            one.network,
            one.target,
            one.precision,
            percent(one.use / total),
            one.state,
            show_ms(one.untuned_ms),
            show_ms(one.latency_ms),
            change(one.untuned_ms, one.latency_ms),
        )
        for one in outcomes
    ]
    heads = ["Network", "Target", "Precision", ">Use", "Outcome", ".untuned ms", ".now ms", ">"]
    out = console()
    out.print(table(heads, rows))
    mix = mix_ms(outcomes)
    if mix is not None and len(outcomes) > 1:
        out.print(
            f"Mean latency by use: {show_ms(mix[1])} ms, untuned {show_ms(mix[0])} ms "
            f"({change(*mix)})"
        )
    for one in outcomes:
        if one.state not in ("made", "unchanged"):
            out.print(f"{one.network}, {one.state}: {one.reason}", markup=False)
