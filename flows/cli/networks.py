"""``tilework networks`` and ``extract``: look at networks before tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import options
from flows.cli.form import USUAL, NetworkForm, of_network
from flows.cli.output import console, print_json, table
from flows.numbers import digits, duration, number, operations

if TYPE_CHECKING:
    from tasks.extraction import Extracted
    from tilework.task import SearchTask


def networks(json: options.Json = False) -> None:
    """List the built-in networks. Any ONNX file is a network, too."""
    from tilework.graph import extract_tasks, zoo
    from tilework.target import Target

    documents: list[dict[str, Any]] = []
    for name in zoo.names():
        net = zoo.outline(name)  # weights would take seconds and say nothing here
        tasks, weights = extract_tasks(net, Target("llvm"))
        documents.append(
            {
                "name": name,
                "inputs": {n: list(t.shape) for n, t in net.inputs.items()},
                "parameters": net.num_parameters,
                "flops": sum(t.flops * w for t, w in zip(tasks, weights, strict=True)),
                "tasks": len(tasks),
                "calls": sum(weights),
            }
        )
    if json:
        print_json(documents)
        return
    rows = [
        (
            n["name"],
            _shapes(n["inputs"]),
            f"{n['parameters'] / 1e6:.2f} M",
            digits(n["flops"] / 1e9),
            n["tasks"],
            n["calls"],
        )
        for n in documents
    ]
    heads = ["Network", "Inputs at batch 1", ">Parameters", ".GFLOP", ">Tasks", ">Calls"]
    console().print(table(heads, rows))


def _shapes(inputs: Any) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in inputs.items())


@of_network
def extract(
    network: options.Network,
    target: options.TargetText = options.DEFAULT_TARGET,
    threads: options.Threads = None,
    form: NetworkForm = USUAL,
    show: Annotated[
        bool, typer.Option("--show", help="Print what each task computes, not only its name.")
    ] = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """List the search tasks of NET: the distinct subgraphs that tuning schedules one by one.

    Below the table: how long compiling and tuning them will take, by an estimate.

    [bold]Examples[/]

      tilework extract resnet-18

      tilework extract model.onnx --show
    """
    from tasks.extraction import extract as extract_network
    from tasks.network import target_of

    extracted = extract_network(form.of(network), target_of(target, threads))
    tasks = list(zip(extracted.tasks, extracted.weights, strict=True))
    if json:
        print_json(
            [
                {
                    "id": i, "description": task.desc, "workload_key": task.workload_key,
                    "weight": weight, "flops": task.flops, "real_flops": task.real_flops,
                    "dag": str(task.compute_dag),
                }
                for i, (task, weight) in enumerate(tasks)
            ]
        )  # fmt: skip
        return
    if show:
        for i, (task, _) in enumerate(tasks):
            typer.echo(f"========== Task {i}  (workload key: {task.workload_key}) ==========")
            typer.echo(f"{task.compute_dag}\n")
        return
    rows = [
        (i, task.desc, weight, digits(task.flops / 1e6), output_shape(task))
        for i, (task, weight) in enumerate(tasks)
    ]
    out = console()
    out.print(table([">ID", "Description", ">Weight", ".MFLOP", "Output"], rows))
    for line in extracted.notes:
        out.print(line, markup=False)
    total = sum(task.flops * weight for task, weight in tasks)
    real = sum(task.real_flops * weight for task, weight in tasks)
    as_dense = f" counted as dense, {operations(real)} made" if real < total else ""
    out.print(
        f"{len(tasks)} distinct tasks, {sum(extracted.weights)} calls, {operations(total)}"
        f"{as_dense}"
    )
    for line in _estimates(extracted):
        out.print(line, highlight=False)


def _estimates(extracted: Extracted) -> list[str]:
    """How long compiling and tuning will take; nothing for machines without figures."""
    from tasks.estimate import compile_time, tuning_time
    from tilework.graph.parts import networks_of
    from tilework.search import EFFORTS

    parts = networks_of(extracted.network)
    weights = sum(array.nbytes for part in parts for array in part.constants.values())
    compiling = compile_time(extracted.tasks, weights)
    if compiling is None or not extracted.tasks:
        return []
    efforts = []
    for name, effort in EFFORTS.items():
        tuning = tuning_time(effort, len(extracted.tasks), compiling)
        efforts.append(
            f"{name} about {duration(tuning.span.likely)} ({number(tuning.trials_per_task, 0)} "
            "trials a task)"
        )
    return [
        f"Compiling: about {duration(compiling.likely)} ({duration(compiling.least)} to "
        f"{duration(compiling.most)})",
        f"Tuning: {', '.join(efforts)}; less where nothing improves any more",
    ]


def output_shape(task: SearchTask) -> str:
    """The shape of a task's output, as ``1x56x56x64``."""
    from tilework.index.extents import shape_text

    return shape_text(task.compute_dag.outputs[-1].shape)
