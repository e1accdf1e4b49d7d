"""``tilework records``: what a store holds, its best, and pictures of how searches converged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import maintenance, options, packages, questions
from flows.cli.commands import Commands
from flows.cli.form import USUAL, NetworkForm, of_network
from flows.cli.output import console, print_json, table, warn
from flows.cli.reading import columns_of, say_problems, to_read
from flows.cli.record_tables import (
    OnlyNetwork,
    OnlyTarget,
    Place,
    Places,
    failed_text,
    print_causes,
    print_caveats,
)
from flows.numbers import gflops, milliseconds, percent, plural, when
from tilework.errors import StoreError
from tilework.record import FACTS
from tilework.target.runs import mark

if TYPE_CHECKING:
    from storage import RecordStore
    from tilework.record import Record

app = Commands(
    help="Look at the stored measurements, ask what they say, keep stores in order.",
)


@app.command("show")
def show(
    store: options.Store = options.DEFAULT_STORE,
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="List the most frequent causes of failures.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Show so many runs at most.")] = 40,
    json: options.Json = False,
) -> None:
    """Count what a store holds: runs, trials, failures by kind; the latest run last.

    One row per measurement is a line of Python away:

      python -c "import pandas as pd; print(pd.read_parquet('records'))"
    """
    from tasks.analysis import failures as causes
    from tasks.analysis.runs import COLUMNS, runs

    opened = to_read(store)
    columns = (*COLUMNS, *causes.COLUMNS) if failures else COLUMNS
    frame = columns_of(opened, columns, network, target)
    all_runs = runs(frame)
    if json:
        print_json({"store": opened.path, "records": len(frame), "runs": all_runs})
        return
    out = console()
    count = Counter(frame["purpose"].astype(str))
    others = {"final": "of finals", "canary": "of canaries", "refused": "refused unmeasured"}
    said = "".join(f", {count[name]:,} {what}" for name, what in others.items() if count[name])
    number = len({one.run_id for one in all_runs})
    out.print(f"{opened.path}: {count['search']:,} trials of {number} run{plural(number)}{said}")
    shown = all_runs[-rows:]
    places = Places(shown)
    heads = ["Run", "Network", *places.heads, ">Rounds", ">Tasks", ">Trials", "Failed", ">Last"]
    cells = [
        (
            one.run_id, one.network, *places.cells(one), one.rounds, one.tasks, one.trials,
            failed_text(one.failed), when(one.last),
        )
        for one in shown
    ]  # fmt: skip
    out.print(table(heads, cells, title=places.title))
    if hidden := len(all_runs) - len(shown):
        out.print(f"{hidden:,} earlier row{plural(hidden)} left out: --rows")
    print_caveats(one.target for one in all_runs)
    if failures:
        print_causes(causes.causes(frame, 10), opened.path)


@app.command("best")
def best(
    store: options.Store = options.DEFAULT_STORE,
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    json: options.Json = False,
) -> None:
    """List the best schedule of each workload, target and device; the slowest workload first.

    Records of other rules than today's count too; a compile does not use them.
    """
    from tasks.analysis.frames import NEEDED_BY_BEST, best_rows

    opened = to_read(store)
    columns = (*NEEDED_BY_BEST, "workload", "network", "flops", "sketch_id", "latency_spread")
    frame = columns_of(opened, (*columns, *FACTS), network, target)
    bests = best_rows(frame).rename(columns={"machine": "device_shown"})
    rows = sorted(
        bests.itertuples(), key=lambda row: (row.target, row.device_shown, -row.latency_s)
    )
    if json:
        print_json([_record(opened, row) for row in rows])
        return
    where = [Place(str(row.target), str(row.device_shown)) for row in rows]
    places = Places(where)
    code = ["Code"] if any(_code(row) for row in rows) else []
    heads = ["Workload", *places.heads, ".Latency (ms)", ".GFLOPS", ">Sketch", ">Spread", *code]
    cells = [
        (
            row.workload, *places.cells(place), milliseconds(row.latency_s),
            gflops(row.flops, row.latency_s), row.sketch_id,
            percent(_known(row.latency_spread)), *([_code(row)] if code else []),
        )
        for row, place in zip(rows, where, strict=True)
    ]  # fmt: skip
    console().print(table(heads, cells, title=places.title))
    print_caveats(place.target for place in where)


@app.command("plot")
@of_network
def plot(
    network: options.Network,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="PNG file; default: NET.png here.")
    ] = None,
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    form: NetworkForm = USUAL,
) -> None:
    """Draw how the search for NET converged: speed against trials and against time.

    One panel for the network and one for each task, with every measurement. Of several devices
    that the store has records of, this machine is drawn, or else the one measured last.

    tilework records plot resnet-18 -o resnet-18.png
    """
    from flows.convergence import convergence, task_curves
    from flows.plots import plot_png
    from tasks.extraction import extract
    from tasks.network import target_of
    from tasks.stores import records_of

    spec = form.of(network)
    extracted = extract(spec, target_of(target, threads))
    weights = {
        task.workload_key: float(weight)
        for task, weight in zip(extracted.tasks, extracted.weights, strict=True)
    }
    wanted = str(extracted.tasks[0].target) if extracted.tasks else ""
    opened = to_read(store)
    recorded = [record for task in extracted.tasks for record in records_of(opened, task)]
    records = _of_one_device(recorded, wanted)
    say_problems(opened)
    curve = convergence(records, weights)
    if not curve.trials:
        raise StoreError(f"{opened.path!r} holds no measurement of {network} for {wanted}")
    place = output or Path(f"{spec.label}.png")
    try:
        place.write_bytes(
            plot_png(curve, spec.label + mark(wanted), task_curves(records, weights))
        )
    except OSError as error:
        raise StoreError(f"cannot write the picture {str(place)!r}: {error}") from error
    typer.echo(f"{place}: {curve.trials[-1]} trials of {len(weights)} tasks{mark(wanted)}")


questions.add_to(app)
maintenance.add_to(app)
packages.add_to(app)


def _of_one_device(records: list[Record], target: str) -> list[Record]:
    """Of this machine if there are any, else of the device that was measured last."""
    from tilework.target import Target
    from tilework.target.identity import device_here

    here = device_here(Target(target))
    own = [r for r in records if here is not None and here.owns(r)]
    if own or not records:
        shown = own
    else:
        last = max(records, key=lambda r: r.created_at)
        shown = [r for r in records if (r.device_id, r.host) == (last.device_id, last.host)]
    if hidden := len(records) - len(shown):
        name = shown[0].device_id or shown[0].device
        warn(f"drawn: {name}; {hidden} record{plural(hidden)} of other devices left out")
    return shown


def _record(store: RecordStore, row: Any) -> dict[str, Any]:
    """All columns of the record that a row of a table stands for."""
    import dataclasses

    same = store.of(str(row.workload_key), str(row.target))
    return dataclasses.asdict(next(r for r in same if r.record_id == row.record_id))


def _known(value: Any) -> float | None:
    """A number of a table, or None where a GPU's or a failed record has none."""
    return None if value != value else float(value)


def _code(row: Any) -> str:
    """What is known of a GPU's kernel, such as ``128 regs, 16 KiB shared, 2 blocks/SM``."""
    parts = []
    if (registers := _known(row.registers)) is not None:
        parts.append(f"{registers:.0f} regs")
    if spilled := _known(row.spill_bytes):
        parts.append(f"{spilled:.0f} B spilled")
    if shared := _known(row.shared_bytes):
        parts.append(f"{-(-int(shared) // 1024)} KiB shared")
    if (blocks := _known(row.blocks_per_sm)) is not None:
        parts.append(f"{blocks:.0f} blocks/SM")
    return ", ".join(parts)
