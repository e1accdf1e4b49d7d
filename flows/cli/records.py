"""``tilework records``: look at a store, take its best, put stores together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import maintenance, options
from flows.cli.output import console, print_json, table
from flows.numbers import gflops, milliseconds, plural
from tilework.errors import StoreError
from tilework.target.runs import CAVEATS, mark, run_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import RecordStore
    from tilework.record import Record

app = typer.Typer(
    no_args_is_help=True,
    help="Look at the stored measurements; look after stores.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("show")
def show(
    store: options.Store = options.DEFAULT_STORE,
    network: Annotated[str | None, typer.Option("--network", help="Only this network.")] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="List the most frequent causes of failures.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Count what a store holds: runs, trials, failures by kind.

    One row per measurement is a line of Python away:

      python -c "import pandas as pd; print(pd.read_parquet('records'))"
    """
    records = [r for r in _open(store).read() if network in (None, r.network)]
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(record.run_id, []).append(record)
    summaries = [_summary(rows) for rows in runs.values()]
    if json:
        print_json({"store": store, "records": len(records), "runs": summaries})
        return
    out = console()
    count = Counter(str(r.purpose) for r in records)
    out.print(
        f"{store}: {count['search']} measurements, {len(runs)} run{plural(len(runs))}"
        + (f", and {count['final']} of finals" if count["final"] else "")
        + (f", and {count['refused']} candidates refused" if count["refused"] else "")
    )
    columns = ["Run", "Network", "Target", ">Rounds", ">Tasks", ">Trials", "Failed", "Last"]
    out.print(
        table(
            columns,
            [
                (
                    s["run_id"], s["network"], s["target"], s["rounds"], s["tasks"], s["trials"],
                    ", ".join(f"{n} {kind}" for kind, n in s["failed"].items()) or "none",
                    f"{s['last']:%Y-%m-%d %H:%M}",
                )
                for s in summaries
            ],
        )
    )  # fmt: skip
    _print_caveats(s["target"] for s in summaries)
    if failures:
        _print_failures(records, store)


def _print_caveats(targets: Iterable[str]) -> None:
    """One line for each way in which latencies above are not those of a device."""
    for run in sorted({run_of(target) for target in targets} & CAVEATS.keys()):
        typer.echo(f"Rows of targets with -run={run} are {CAVEATS[run]}.")


def _print_failures(records: list[Record], store: str) -> None:
    """The ten most frequent causes, with a command that shows the first of each again."""
    from tilework.search.failures import frequent_causes

    for cause in frequent_causes(records, limit=10):
        typer.echo(f"{cause}\n  tilework reproduce {cause.first.record_id} --store {store}")


@app.command("best")
def best(
    store: options.Store = options.DEFAULT_STORE,
    network: Annotated[str | None, typer.Option("--network", help="Only this network.")] = None,
    json: options.Json = False,
) -> None:
    """List the best schedule of each workload and target."""
    found = [r for r in _best(_open(store)) if network in (None, r.network)]
    if json:
        print_json([_as_dict(r) for r in found])
        return
    code = ["Code"] if any(r.facts for r in found) else []
    console().print(
        table(
            ["Workload", "Target", ".Latency (ms)", ".GFLOPS", ">Sketch", ">Spread", *code],
            [
                (
                    r.workload, r.target, milliseconds(r.latency_s),
                    gflops(r.flops, r.latency_s), r.sketch_id, _percent(r.latency_spread),
                    *([_code(r)] if code else []),
                )
                for r in found
            ],
        )
    )  # fmt: skip
    _print_caveats(r.target for r in found)


@app.command("plot")
def plot(
    network: options.Network,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="PNG file; default: NET.png here.")
    ] = None,
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    batch: options.Batch = 1,
    layout: options.Layout = "NHWC",
    shape: options.Shapes = None,
) -> None:
    """Draw how the search for NET converged: speed against trials and against time.

    One panel for the network and one for each task, with every measurement.

    tilework records plot resnet-18 -o resnet-18.png
    """
    from flows.cli.networks import target_of
    from flows.convergence import convergence, task_curves
    from flows.plots import plot_png
    from tasks.network import NetworkSpec, extract, network_label

    spec = NetworkSpec(network, batch, layout, shapes=tuple(shape or ()))
    found = extract(spec, target_of(target, threads))
    weights = {
        task.workload_key: float(weight)
        for task, weight in zip(found.tasks, found.weights, strict=True)
    }
    wanted = str(found.tasks[0].target) if found.tasks else ""
    records = [r for r in _open(store).read() if r.target == wanted]
    curve = convergence(records, weights)
    if not curve.trials:
        raise StoreError(f"{store!r} holds no measurement of {network} for {wanted}")
    place = output or Path(f"{network_label(network)}.png")
    try:
        title = network_label(network) + mark(wanted)
        place.write_bytes(plot_png(curve, title, task_curves(records, weights)))
    except OSError as error:
        raise StoreError(f"cannot write the picture {str(place)!r}: {error}") from error
    typer.echo(f"{place}: {curve.trials[-1]} trials of {len(weights)} tasks{mark(wanted)}")


def _open(path: str) -> RecordStore:
    from storage import RecordStore

    if "://" not in path and not Path(path).is_dir():
        raise StoreError(
            f"there is no record store at {path!r}; name one with --store, "
            "or make one with `tilework tune`"
        )
    store = RecordStore(path)
    for problem in store.problems:
        typer.secho(f"warning: {problem}", fg="yellow", err=True)
    return store


def _best(store: RecordStore) -> list[Record]:
    keys = dict.fromkeys((r.workload_key, r.target) for r in store.read())
    found = (store.best(*key) for key in keys)
    return [record for record in found if record is not None]


def _summary(rows: list[Record]) -> dict[str, Any]:
    failed = Counter(str(r.status) for r in rows if not r.usable)
    return {
        "run_id": rows[0].run_id,
        "network": rows[0].network,
        "target": rows[0].target,
        "rounds": len({r.round for r in rows}),
        "tasks": len({r.workload_key for r in rows}),
        "trials": sum(r.purpose == "search" for r in rows),
        "finals": sum(r.purpose == "final" for r in rows),
        "failed": dict(failed),
        "first": min(r.created_at for r in rows),
        "last": max(r.created_at for r in rows),
    }


def _as_dict(record: Record) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(record)


def _code(record: Record) -> str:
    """What is known of a GPU's kernel, such as ``128 regs, 16 KiB shared, 2 blocks/SM``."""
    parts = []
    if record.registers is not None:
        parts.append(f"{record.registers} regs")
    if record.spill_bytes:
        parts.append(f"{record.spill_bytes} B spilled")
    if record.shared_bytes:
        parts.append(f"{-(-record.shared_bytes // 1024)} KiB shared")
    if record.blocks_per_sm is not None:
        parts.append(f"{record.blocks_per_sm} blocks/SM")
    return ", ".join(parts)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


maintenance.add_to(app)
