"""``tilework bench``: time the compiled network, alone or interleaved with other engines."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import options
from flows.cli.form import USUAL, NetworkForm, of_network
from flows.cli.output import console, print_json, table
from flows.numbers import show_ms, speed
from tilework.errors import TileworkError
from tilework.target.runs import caveat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tasks.compare import Comparison
    from tilework.runtime import KernelTime


@of_network
def bench(
    network: options.Network,
    compare: Annotated[
        str,
        typer.Option("--compare", help="Engines to time beside it: onnxruntime,openvino."),
    ] = "",
    threads: Annotated[
        str,
        typer.Option("--threads", help="Thread counts to time, such as 1,2; default: all cores."),
    ] = "",
    target: options.TargetText = options.DEFAULT_TARGET,
    store: options.Store = options.DEFAULT_STORE,
    packages: options.Packages = True,
    form: NetworkForm = USUAL,
    seconds: Annotated[
        float,
        typer.Option("--seconds", min=0.1, help="Measured time per engine and thread count."),
    ] = 5.0,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also a table of the kernel calls.")
    ] = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Time NET end to end, compiled with the best records of the store.

    Engines take turns in one run (A/B/A/B), so that a change of the machine's speed meets all of
    them. A ratio below 1 means that Tilework is faster. Schedules are chosen per thread count.
    With --profile every kernel call is timed within the network: "of peak" is the least time
    that the machine's multiply-add peak and memory bandwidth allow, as a share of the call's time
    (above 100 % where a Winograd schedule multiplies less). If the network takes over a tenth
    longer than its tasks on record, the kernels that make the difference are named.

    [bold]Examples[/]

      tilework bench resnet-18

      tilework bench resnet-18 --compare onnxruntime --threads 1,2

      tilework bench resnet-18 --threads 1 --profile

      tilework bench resnet-50 --precision bf16 --compare openvino     both in bfloat16
    """
    from flows.cli.device import held
    from flows.cli.reading import say_problems, used_by
    from tasks.compare import compare_engines
    from tasks.extraction import load, stored_precision
    from tasks.network import target_of
    from tasks.peers import require_peers

    engines = [name.strip() for name in compare.split(",") if name.strip()]
    require_peers(engines)
    targets = [target_of(target, count) for count in _counts(threads)]
    spec = form.of(network)
    records = used_by(store, packages=packages)
    stored = stored_precision(form.precision)
    comparisons = []
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(spec, folder)
        for where in targets:
            with held(where, f"bench {network}"):
                comparisons.append(
                    compare_engines(
                        loaded.network, where, records, engines, seconds, profile, stored,
                        loaded.source,
                    )
                )  # fmt: skip
    say_problems(records)
    if json:
        print_json(comparisons)
        return
    for comparison in comparisons:
        _print(comparison)
    if loaded.loss is not None:
        console().print(str(loaded.loss))


def _counts(text: str) -> list[int | None]:
    """The thread counts of ``--threads``; a single None stands for all cores."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        return [None]
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise TileworkError(f"--threads {text}: write one or more numbers, such as 1,2")
    return [int(word) for word in words]


def _print(comparison: Comparison) -> None:
    out = console()
    precision = "" if comparison.precision == "f32" else f"{comparison.precision}, "
    threads = "1 thread" if comparison.threads == 1 else f"{comparison.threads} threads"
    where = threads if "-num-cores=" in comparison.target else comparison.target
    rows = [
        (
            row.engine, show_ms(row.timing.median_ms), show_ms(row.timing.mean_ms),
            show_ms(row.timing.min_ms), show_ms(row.timing.std_ms), f"{row.ratio:.3f}",
            f"{row.max_rel_error:.1e}" if row.max_rel_error is not None else "",
        )
        for row in comparison.rows
    ]  # fmt: skip
    out.print(
        table(
            ["Engine", ".median ms", ".mean", ".min", ".std", ">ratio", ">difference"],
            rows,
            title=f"{comparison.network}, {precision}{where}, {comparison.schedules}",
        )
    )
    if comparison.left:
        out.print(comparison.left, markup=False)
    if said := caveat(comparison.target):
        out.print(said)
    if comparison.accuracy is not None:
        error, reference = comparison.accuracy.max_rel_error, comparison.accuracy.reference
        out.print(
            f"Largest difference from float32 ({reference}): {error:.1e} of the largest output"
        )
    if comparison.profile:
        out.print(_profile_table(comparison.profile))
    if comparison.helpers:
        out.print(comparison.helpers, markup=False)
    for line in comparison.gap:
        out.print(line, markup=False)


def _profile_table(rows: Sequence[KernelTime]) -> Table:
    """A row per kernel call, in the order in which they run."""
    cells = [
        (
            row.desc, show_ms(row.time_ms), f"{row.share:.1%}", speed(row.gflops),
            f"{row.gb_per_s:.1f}", f"{row.roofline:.0%}", row.symbol,
        )
        for row in rows
    ]  # fmt: skip
    total = sum(row.time_ms for row in rows)
    cells.append(("all kernels", show_ms(total), "", "", "", "", ""))
    columns = ["Kernel", ".ms", ">share", ".GFLOPS", ">GB/s", ">of peak", "function"]
    return table(columns, cells)
