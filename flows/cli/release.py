"""``tilework compile-release``: compile again what the best records have changed for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import options
from flows.cli.output import console, fail, print_json
from flows.cli.zoo import Folder, Networks, Targets, named, print_outcomes

if TYPE_CHECKING:
    from flows.release_pipeline import ReleaseReport
    from flows.reporting import Reporter
    from flows.zoo_settings import ReleaseSettings


def compile_release(
    networks: Networks,
    target: Targets = None,
    threads: options.Threads = None,
    precision: options.Precision = "f32",
    store: options.Store = options.DEFAULT_STORE,
    folder: Folder = "modules",
    force: Annotated[
        bool, typer.Option("--force", help="Compile all, whether anything changed or not.")
    ] = False,
    packages: options.Packages = True,
    prefect: options.Prefect = None,
    json: options.Json = False,
) -> None:
    """Compile the networks whose best schedules on record have changed.

    A manifest beside the modules, release.json, says which records each was
    made from. Where they are still the best, nothing is done. Every new module
    is checked, and timed beside the one that it replaces; what is wrong or
    slower is refused, and not tried again until the records change. The exit
    code is 1 if a network is refused or cannot be compiled.

    [bold]Examples[/]

      tilework compile-release zoo.yaml --store s3://bucket/records --folder release

      tilework compile-release resnet-18 mobilenet --threads 2
    """
    from flows.cli.progress import reporter_for
    from flows.zoo_settings import ReleaseSettings, settings_of

    settings = settings_of(
        ReleaseSettings,
        **named(networks, target, threads, precision),
        store=store,
        folder=folder,
        force=force,
        packages=packages,
    )
    report = _run(settings, reporter_for(json), prefect)
    if json:
        print_json(
            {
                "store": report.store,
                "folder": report.folder,
                "networks": list(report.outcomes),
                "failed": report.failed,
            }
        )
    else:
        print_outcomes(report.outcomes)
        console().print(f"Modules: {report.folder or 'not kept'}", markup=False)
    if report.failed:
        fail(report.failed)


def _run(settings: ReleaseSettings, reporter: Reporter, prefect: bool | None) -> ReleaseReport:
    from flows.cli.server_choice import wants_flow
    from flows.release_pipeline import ReleaseFailed, release_pipeline
    from flows.reporting import reporting

    use_flow = wants_flow(prefect, reporter)
    try:
        with reporting(reporter):
            if use_flow:
                from flows.compile_release import compile_release
                from flows.shell.here import run_here
                from tasks.stores import open_store

                # to a schedule it is "nothing yet", to whoever names it at a terminal a mistake
                open_store(settings.store, must_exist=True)
                return run_here(compile_release, settings)
            return release_pipeline(settings)
    except ReleaseFailed as error:
        return error.outcome
