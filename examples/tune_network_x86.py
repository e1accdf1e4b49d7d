"""Tune a whole network for this CPU: extract its tasks, tune them, compile, time.

    python examples/tune_network_x86.py [resnet-18] [--seconds 60] [--layout NHWC] [--batch 1]

The network is one of the zoo (``tilework networks``) or an ONNX file. The task scheduler gives
its time to the tasks that promise most for the whole network. The script goes on where it
stopped; with ``--seconds 900`` it does what ``tilework tune --effort quick`` does.
"""

from __future__ import annotations

import argparse

import numpy as np

import tilework as tw
from storage import RecordStore
from tilework.graph import Network


def get_network(name: str, batch: int, layout: str) -> Network:
    """A network of the zoo, or one from an ONNX file."""
    if name.endswith(".onnx"):
        return tw.from_onnx(name)
    return tw.zoo.get(name, batch=batch, layout=layout)


def main() -> None:
    """Get the network, print its tasks, tune them, compile the best, time it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", default="resnet-18", help="name or ONNX file")
    parser.add_argument("--seconds", type=float, default=60.0, help="budget of the search")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layout", default="NHWC", help="NHWC or NCHW: of the network's input")
    parser.add_argument("--store", default="records", help="folder of the records")
    args = parser.parse_args()

    net = get_network(args.network, args.batch, args.layout)
    target = tw.Target("llvm -mcpu=native")

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
                seconds=args.seconds, num_measures_per_round=16, warmup_measures=8, min_share=0.005
            ),
            records,
            measurer,
            network=net.name,
            callbacks=[
                lambda _, done: print(
                    f"{done.trials:5d} trials: {1e3 * done.estimated_total_s:.3f} ms in all"
                )
            ],
        )
    print(f"{result.trials} trials, stopped because {result.stopped}")
    for task, best in zip(tasks, result.best, strict=True):
        known = f"{1e3 * best.latency_s:9.4f} ms" if best else "not measured"
        print(f"{known:>12}  x{task.weight}  {task.desc}")

    print("Compile...")
    with tw.ApplyHistoryBest(records):
        module = tw.compile(net, target)

    print("Evaluate inference time cost...")
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.normal(size=kind.shape).astype(kind.dtype) for name, kind in net.inputs.items()
    }
    print("output shapes:", [list(out.shape) for out in module.run(inputs)])
    print(module.benchmark(repeat=3, min_repeat_ms=500))


if __name__ == "__main__":  # worker processes import this file
    main()
