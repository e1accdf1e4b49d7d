"""Tune a whole network for an NVIDIA GPU: extract its tasks, tune them, compile, time.

    python examples/tune_network_cuda.py [resnet-18] [--trials 200] [--target "cuda -model=a100"]

The network is one of the zoo (``tilework networks``) or an ONNX file. Each subgraph is a task; the
task scheduler gives its trials to those that promise most for the whole network. 200 trials are a
demonstration: 20,000 are what such a network is worth. The script goes on where it stopped, killed
or not.

Without a GPU the search runs *simulated*: code is generated and compiled for the device as ever,
but nothing is run, and latencies are invented by a model of it. The target's text and every record
say so, and no compile for a real device uses such records.
"""

from __future__ import annotations

import argparse

import numpy as np

import tilework as tw
from storage import RecordStore
from tilework.graph import Network
from tilework.lower.listing import listing_of
from tilework.search.report import TuneResult
from tilework.space import SearchSpace
from tilework.target.runs import caveat, mark


def choose_target(text: str) -> tw.Target:
    """The target of that text; without one the GPU that is here, or else a simulated one."""
    if text:
        target = tw.Target(text)
    else:
        try:
            target = tw.Target("cuda")
        except tw.TileworkError:
            target = tw.Target("cuda -model=a100 -run=simulated")
    print(f"Target: {target}" + (f" ({caveat(str(target))})" if mark(str(target)) else ""))
    return target


def get_network(name: str, batch: int, layout: str) -> Network:
    """A network of the zoo, or one from an ONNX file."""
    if name.endswith(".onnx"):
        return tw.from_onnx(name)
    return tw.zoo.get(name, batch=batch, layout=layout)


def print_table(result: TuneResult, target: tw.Target) -> None:
    """The task scheduler's table: latency and speed of each task, and what it was given."""
    title = f"Task scheduler{mark(str(target))}"
    print(f"\n{title:-^64}")
    print("|  ID  | Latency (ms) | Speed (GFLOPS) | Trials | Weight | Description")
    for row in result.rows:
        latency = "-" if row.latency_ms is None else f"{row.latency_ms:.3f}"
        speed = "-" if row.gflops is None else f"{row.gflops:.2f}"
        print(
            f"| {row.id:4d} | {latency:>12} | {speed:>14} | {row.trials:6d} "
            f"| {row.weight:6g} | {row.desc}"
        )
    print(
        f"Estimated total latency: {1e3 * result.estimated_total_s:.3f} ms  "
        f"Trials: {result.trials}  Used time: {result.elapsed_s:.0f} s\n"
    )


def show_best(task: tw.SearchTask, records: RecordStore) -> None:
    """The task's best schedule on record: in words, and as the CUDA C that it becomes."""
    best = tw.load_best(records, task.workload_key, task.target)
    if best is None:
        print(f"no schedule of {task.desc} was valid")
        return
    sketch = SearchSpace.of(task).sketch(best.sketch_id)
    print(f"The best schedule of {task.desc}{mark(str(task.target))}:")
    print(sketch.describe(best.decisions))
    code = listing_of(sketch, best.decisions)
    if code is not None:
        for heading, fact in code.facts.items():
            print(f"  {heading}: {fact}")
        print(f"\nAs {code.language}:\n{code.text}")


def main() -> None:
    """Get the network, print its tasks, tune them, compile the best, time it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", default="resnet-18", help="name or ONNX file")
    parser.add_argument("--trials", type=int, default=200, help="schedules to measure in all")
    parser.add_argument("--target", default="", help="such as 'cuda -model=h100'")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layout", default="NHWC", help="NHWC or NCHW: of the network's input")
    parser.add_argument("--store", default="records-cuda", help="folder of the records")
    args = parser.parse_args()

    target = choose_target(args.target)
    net = get_network(args.network, args.batch, args.layout)

    print("Extract tasks...")
    tasks, weights = tw.extract_tasks(net, target)
    for index, task in enumerate(tasks):
        print(f"========== Task {index}  (workload key: {task.workload_key}) ==========")
        print(task.compute_dag)

    print("Begin tuning...")
    records = RecordStore(args.store)
    with tw.Measurer(target) as measurer:
        result = tw.tune(
            tasks,
            weights,
            tw.TuningOptions(
                num_measure_trials=args.trials, num_measures_per_round=16, warmup_measures=8
            ),
            records,
            measurer,
            run_id=f"{net.name}-{args.batch}-{args.layout}-{str(target).replace(' ', '')}",
            network=net.name,
            callbacks=[
                lambda _, done: print(
                    f"{done.trials:5d} trials: {1e3 * done.estimated_total_s:.3f} ms in all"
                )
            ],
        )
    print(f"{result.trials} trials, stopped because {result.stopped}")
    print_table(result, target)
    print(
        "A later call with more --trials goes on from there; the process may be killed at any "
        "time.\nThe best of each task alone, to keep or to share: "
        f"tilework records distill best-records --store {args.store}"
    )

    costs = [
        weight * (row.latency_ms or 0.0) for weight, row in zip(weights, result.rows, strict=True)
    ]
    show_best(tasks[int(np.argmax(costs))], records)

    if target.run == "simulated":
        print("Nothing is compiled or timed: no program ran, so there is nothing to choose by.")
        return
    print("Compile...")
    with tw.ApplyHistoryBest(records):
        module = tw.compile(net, target)

    print("Evaluate inference time cost...")
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.normal(size=kind.shape).astype(kind.dtype) for name, kind in net.inputs.items()
    }
    print("output shapes:", [list(out.shape) for out in module.run(inputs)])
    if target.run == "emulated":
        print(module.benchmark(repeat=1, min_repeat_ms=1), "(of the emulation)")
    else:
        print(module.benchmark(repeat=3, min_repeat_ms=500))


if __name__ == "__main__":  # worker processes import this file
    main()
