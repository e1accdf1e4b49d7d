"""``tilework networks``, ``extract`` and ``explain``: look at networks before and after tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import options
from flows.cli.output import console, gflops, milliseconds, print_json, table
from tilework.errors import NetworkError

if TYPE_CHECKING:
    from tilework.record import Record
    from tilework.target import Target
    from tilework.task import SearchTask


def networks(json: options.Json = False) -> None:
    """List the built-in networks. Any ONNX file is a network, too."""
    from tilework.graph import zoo

    found = []
    for name in zoo.names():
        net = zoo.get(name)
        inputs = {n: list(t.shape) for n, t in net.inputs.items()}
        found.append({"name": name, "inputs": inputs, "parameters": net.num_parameters})
    if json:
        print_json(found)
        return
    rows = [
        (n["name"], _shapes(n["inputs"]), f"{n['parameters'] / 1e6:.2f} M")  # type: ignore[operator]
        for n in found
    ]
    console().print(table(["Network", "Inputs at batch 1, NHWC", ">Parameters"], rows))


def _shapes(inputs: Any) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in inputs.items())


def extract(
    network: options.Network,
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    batch: options.Batch = 1,
    layout: options.Layout = "NHWC",
    show: Annotated[
        bool, typer.Option("--show", help="Print what each task computes, not only its name.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the search tasks of NET: the distinct subgraphs that tuning schedules one by one.

    [bold]Examples[/]

      tilework extract resnet-18

      tilework extract model.onnx --show
    """
    from tasks.network import extract as extract_network

    found = extract_network(network, target_of(target, threads), batch, layout)
    if json:
        print_json(
            [
                {
                    "id": i, "description": task.desc, "workload_key": task.workload_key,
                    "weight": weight, "flops": task.flops, "dag": str(task.compute_dag),
                }
                for i, (task, weight) in enumerate(zip(found.tasks, found.weights, strict=True))
            ]
        )  # fmt: skip
        return
    if show:
        for i, task in enumerate(found.tasks):
            typer.echo(f"========== Task {i}  (workload key: {task.workload_key}) ==========")
            typer.echo(f"{task.compute_dag}\n")
        return
    rows = [
        (i, task.desc, weight, f"{task.flops / 1e6:.1f}", output_shape(task))
        for i, (task, weight) in enumerate(zip(found.tasks, found.weights, strict=True))
    ]
    out = console()
    out.print(table([">ID", "Description", ">Weight", ">MFLOP", "Output"], rows))
    total = sum(t.flops * w for t, w in zip(found.tasks, found.weights, strict=True))
    out.print(
        f"{len(found.tasks)} distinct tasks, {sum(found.weights)} calls, {total / 1e9:.3f} GFLOP"
    )


def target_of(text: str, threads: int | None) -> Target:
    """The target that ``--target`` and ``--threads`` name together.

    Raises:
        TargetError: the text does not name a supported machine.
    """
    from tilework.target import Target

    target = Target(text)
    return target if threads is None else target.with_cores(threads)


def output_shape(task: SearchTask) -> str:
    """The shape of a task's output, as ``1x56x56x64``."""
    return "x".join(map(str, task.compute_dag.outputs[-1].shape))


def explain(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="NET:ID, with the ID that `extract` lists.")
    ],
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    store: options.Store = options.DEFAULT_STORE,
    batch: options.Batch = 1,
    layout: options.Layout = "NHWC",
    json: options.Json = False,
) -> None:
    """Show what TASK computes, its best schedule, and how it compares with the others measured.

    tilework explain resnet-18:3
    """
    from tasks.finish import open_store
    from tasks.network import extract as extract_network

    network, _, number = task.rpartition(":")
    if not network or not number.isdigit():
        raise NetworkError(f"'{task}' names no task: write NET:ID, for instance resnet-18:3")
    found = extract_network(network, target_of(target, threads), batch, layout)
    if int(number) >= len(found.tasks):
        raise NetworkError(f"{network} has tasks 0 to {len(found.tasks) - 1}, not {number}")
    chosen = found.tasks[int(number)]
    records = open_store(store).of(chosen.workload_key, str(chosen.target))
    document = explanation(chosen, records)
    if json:
        print_json(document)
        return
    _print_explanation(document)


def explanation(task: SearchTask, records: list[Record]) -> dict[str, Any]:
    """What is known about a task: its definition, its best schedule, the field around it."""
    from tilework.space import SearchSpace

    space = SearchSpace.of(task)
    usable = sorted((r for r in records if r.usable), key=lambda r: r.latency_s or 0.0)
    statuses: dict[str, int] = {}
    for record in records:
        statuses[str(record.status)] = statuses.get(str(record.status), 0) + 1
    return {
        "description": task.desc,
        "workload_key": task.workload_key,
        "target": str(task.target),
        "flops": task.flops,
        "dag": str(task.compute_dag),
        "sketches": [
            {"id": s.id, "name": s.name, "decisions": s.num_decisions} for s in space.sketches
        ],
        "measured": statuses,
        "best": [_described(space, record) for record in usable[:3]],
        "median_latency_s": usable[len(usable) // 2].latency_s if usable else None,
    }


def _described(space: Any, record: Record) -> dict[str, Any]:
    import numpy as np

    sketch = space.sketches[record.sketch_id]
    row = np.asarray(record.decisions, dtype=np.int32)
    return {
        "record_id": record.record_id,
        "sketch_id": sketch.id,
        "latency_s": record.latency_s,
        "spread": record.latency_spread,
        "draft_s": float(sketch.draft(row[None, :])[0]),
        "schedule": sketch.describe(row),
    }


def _print_explanation(document: dict[str, Any]) -> None:
    out = console()
    out.print(f"[bold]{document['description']}[/]  {document['flops'] / 1e6:.1f} MFLOP")
    typer.echo(f"workload {document['workload_key']}\ntarget   {document['target']}\n")
    typer.echo(document["dag"])
    typer.echo("sketches:")
    for sketch in document["sketches"]:
        typer.echo(f"  {sketch['id']}  {sketch['name']} ({sketch['decisions']} decisions)")
    measured = ", ".join(f"{n} {kind}" for kind, n in sorted(document["measured"].items()))
    out.print(f"measured: {measured or 'nothing yet (tilework tune makes records)'}")
    if not document["best"]:
        return
    rows = [
        (
            str(place), milliseconds(b["latency_s"]), gflops(document["flops"], b["latency_s"]),
            milliseconds(b["draft_s"]), b["sketch_id"],
        )
        for place, b in enumerate(document["best"], 1)
    ]  # fmt: skip
    rows.append(("median", milliseconds(document["median_latency_s"]), "", "", ""))
    out.print(
        table([">Place", ">Latency (ms)", ">GFLOPS", ">Draft model says (ms)", ">Sketch"], rows)
    )
    typer.echo(f"Best schedule:\n{document['best'][0]['schedule']}")
