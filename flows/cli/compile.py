"""``tilework compile``: build a network with the best schedules that a store knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli import options
from flows.cli.form import USUAL, NetworkForm, of_network
from flows.cli.output import console, fail, print_json, table
from flows.numbers import gflops, milliseconds
from tilework.stages import Clock, Spent, ordered, stage, watching
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tasks.library import LibraryRequest
    from tasks.network import NetworkSpec
    from tasks.report import CheckResult
    from tilework.runtime import TaskReport
    from tilework.target import Target


@of_network
def compile_network(
    network: options.Network,
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    packages: options.Packages = True,
    form: NetworkForm = USUAL,
    in_place: options.InPlace = False,
    output: options.Output = None,
    header: Annotated[
        str, typer.Option("--header", metavar="FILE", help="Also write the library's C header.")
    ] = "",
    levels: Annotated[
        str,
        typer.Option(
            "--levels",
            metavar="v2,v3,v4,native",
            help="Levels of x86-64 that a library has code for; native: the target. Each has "
            "packed weights of its own.",
        ),
    ] = "",
    weights: Annotated[
        Literal["inside", "beside"],
        typer.Option("--weights", help="A library's weights: in it, or in NAME.weights beside."),
    ] = "inside",
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Also tell where the time went: wall and CPU seconds."),
    ] = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Compile NET with the best measured schedules, check its output, and save the module.

    An output that ends in .so is a shared library with C functions (docs/library.md).
    With --in-place a decoder's runs continue a past where it lies (docs/text-models.md).

    A task without a record takes the best schedule that this machine measured of another target
    (and, where a learned model judges them, those of other machines and of alike workloads), if
    that promises more than the analytic model's choice: "transferred from X"; or else that choice:
    "draft".
    Where this machine cannot run the target's code, the output is not checked.

    [bold]Example[/]

      tilework compile resnet-18 --output resnet18.tw
      tilework compile resnet-18 --output resnet18.so --header resnet18.h
    """
    from flows.cli.output import warn
    from flows.cli.reading import say_problems, used_by
    from tasks import finish
    from tasks.extraction import extract
    from tasks.library import library_request
    from tasks.model_files import require_unchanged
    from tasks.network import target_of
    from tasks.packages import origins
    from tilework.errors import ModuleError, RunFailed

    where = target_of(target, threads)
    spec = form.of(network)
    place = f"{spec.label}.tw" if output is None else output
    request = library_request(place, header, levels, weights)
    if request is not None:
        if profile:
            raise ModuleError("--profile tells the stages of a module, not of a library")
        _compile_library(spec, where, request, store, packages, json, in_place)
        return
    finish.check_place(place)
    clock = Clock()
    with watching() as spent:
        extracted = extract(spec, where, briefly=True)
        with stage("choose"):
            records = used_by(store, packages=packages)
        compiled = finish.compile_network(extracted, where, records, place, warn, False, in_place)
        if profile:
            finish.run_once(compiled)
    total = clock.spent()
    failed = path = ""
    try:
        check = finish.check(compiled)
        require_unchanged(extracted.files)
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
        stages = {"stages": {**ordered(spent), "all": total}} if profile else {}
        print_json(
            {
                **document,
                "packages": packages_used,
                "left": extracted.left,
                "loss": extracted.loss,
                **stages,
            }
        )
    else:
        _print_origins(report, where, packages_used, extracted.notes)
        console().print(f"{_check_text(check, where)}\nModule: {path or 'not kept'}")
        if profile:
            print_stages(ordered(spent), total)
    if failed:
        fail(failed)


def _compile_library(
    spec: NetworkSpec,
    where: Target,
    request: LibraryRequest,
    store: str,
    packages: bool,
    json: bool,
    in_place: bool,
) -> None:
    """The same for a shared library."""
    from flows.cli.output import warn
    from flows.cli.reading import say_problems, used_by
    from tasks.library import compile_levels, level_targets, link
    from tilework.errors import RunFailed

    targets = level_targets(request, where)
    records = used_by(store, packages=packages)
    try:
        compiled = compile_levels(spec, targets, records, warn, in_place)
    except RunFailed as error:
        fail(str(error))
    library = link(request, [module for _, module, _ in compiled])
    say_problems(records)
    checks = {str(t): check for t, (_, _, check) in zip(targets, compiled, strict=True)}
    if json:
        print_json({"library": library, "checks": checks, "tasks": list(compiled[0][1].report)})
        return
    print_task_reports(compiled[0][1].report, str(targets[0]))
    rows = [
        (
            level.name,
            level.target,
            f"{level.weights_bytes / 2**20:.1f}",
            "equal to the module" if level.checked else "not run: this machine cannot",
        )
        for level in library.levels
    ]
    out = console()
    out.print(table(["Level", "Target", ">Weights (MiB)", "Output"], rows))
    out.print(_check_text(checks[str(targets[0])], targets[0]))
    beside = f", weights {library.weights}" if library.weights else ""
    head = f", header {library.header}" if library.header else ""
    out.print(
        f"Library: {library.path}{beside}{head} ({library.nbytes / 2**20:.1f} MiB, functions "
        f"tw_{library.name}_*, linked by {library.linker})",
        soft_wrap=True,
    )


def _print_origins(
    report: Sequence[TaskReport],
    where: Target,
    packages_used: Mapping[str, int],
    notes: Sequence[str],
) -> None:
    """Where the schedules of a network come from, and what else is to be known."""
    print_task_reports(report, str(where))
    for origin, count in sorted(packages_used.items()):
        console().print(f"{count} of {len(report)} tasks: best schedule of {origin}")
    for line in notes:
        console().print(line, markup=False)


def print_stages(spent: Mapping[str, Spent], total: Spent) -> None:
    """Where the time of a compile went; threads that help work beside the other stages."""
    rows = [
        (name, f"{one.wall_s:.3f}", f"{one.cpu_s:.3f}")
        for name, one in [*spent.items(), ("all", total)]
    ]
    console().print(table(["Stage", ".Wall (s)", ".CPU (s)"], rows))


def _check_text(check: CheckResult | None, where: Target) -> str:
    if check is None:
        return f"Output not checked: this machine lacks {', '.join(where.missing_on_host())}"
    error = f"maximum relative error {check.max_rel_error:.1e}"
    return f"Output check against {check.reference}: {error}"


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
