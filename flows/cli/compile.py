"""``tilework compile``: build a network with the best schedules that a store knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from flows.cli import options
from flows.cli.networks import target_of
from flows.cli.output import console, print_json, table
from flows.numbers import gflops, milliseconds
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilework.runtime import TaskReport


def compile_network(
    network: options.Network,
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    packages: options.Packages = True,
    batch: options.Batch = 1,
    layout: options.Layout = "NHWC",
    shape: options.Shapes = None,
    precision: options.Precision = "f32",
    sparse: options.Sparse = "",
    block: options.Block = "",
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Compile NET with the best measured schedules, check its output, and save the module.

    A task without a record takes the best schedule of another target or of an alike workload, if
    that promises more than the analytic model's choice: "transferred from X"; or else that choice:
    "draft".
    Where this machine cannot run the target's code, the output is not checked.

    [bold]Example[/]

      tilework compile resnet-18 --output resnet18.tw
    """
    from flows.cli.device import warn
    from flows.cli.reading import say_problems, used_by
    from tasks import finish
    from tasks.network import NetworkSpec, extract, parse_sparse
    from tasks.packages import origins
    from tilework.errors import RunFailed

    where = target_of(target, threads)
    weights = parse_sparse(sparse, block)
    spec = NetworkSpec(network, batch, layout, precision, tuple(shape or ()), weights)
    place = f"{spec.label}.tw" if output is None else output
    finish.check_place(place)
    found = extract(spec, where)
    records = used_by(store, packages=packages)
    compiled = finish.compile_network(found, where, records, place, warn, untuned=False)
    failed = path = ""
    try:
        check = finish.check(compiled)
        path = finish.keep(compiled, check, None)
    except RunFailed as error:
        failed = str(error)
    finally:
        compiled.discard()
    say_problems(records)
    report = compiled.tuned.report
    packages_used = origins(records, report, str(where))
    if json:
        document = {"module": path, "check": check, "failed": failed, "tasks": list(report)}
        print_json({**document, "packages": packages_used})
    else:
        print_task_reports(report, str(where))
        for origin, count in sorted(packages_used.items()):
            console().print(f"{count} of {len(report)} tasks: best schedule of {origin}")
        said = f"Output not checked: this machine lacks {', '.join(where.missing_on_host())}"
        if check is not None:
            said = f"Output check against {check.reference}: maximum relative error "
            said += f"{check.max_rel_error:.1e}"
        console().print(f"{said}\nModule: {path or 'not kept'}")
    if failed:
        typer.secho(f"failed: {failed}", fg="red", err=True)
        raise typer.Exit(1)


def print_task_reports(reports: Sequence[TaskReport], target: str) -> None:
    """How each task was compiled, and its share of the network's time where all are measured."""
    rows = [
        (
            place,
            report.desc,
            f"{report.weight:g}",
            "draft" if report.source == "untuned" else report.source,
            milliseconds(report.latency_s),
            gflops(report.flops, report.latency_s),
            "-" if report.share is None else f"{report.share:.1%}",
        )
        for place, report in enumerate(reports)
    ]
    columns = [">ID", "Description", ">Weight", "Schedule", ".Latency (ms)", ".GFLOPS", ">Share"]
    out = console()
    out.print(table(columns, rows, title=caveat(target) or None))
    from tilework.runtime import tuned_text, winograd_text

    out.print(tuned_text(reports))
    if guard := winograd_text(reports):
        out.print(guard)
