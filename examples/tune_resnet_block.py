"""A ResNet block declared by hand: tune it, look at the convergence, compile it, time it.

    python examples/tune_resnet_block.py [--seconds 30] [--store resnet_block] [--target TEXT]

The block is a convolution, batch norm, ReLU and a residual addition. Tilework sees one fused
subgraph in it. Run the script again and the search goes on where it stopped; give it more seconds
and it goes deeper. ``--target "cuda -model=a100 -run=emulated"`` runs the CUDA C that is generated
for a GPU on this CPU, ``-run=simulated`` runs nothing and invents the times; both say so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tilework as tw
from flows.convergence import convergence, task_curves
from flows.plots import plot_png
from storage import RecordStore
from tilework.graph import Builder, Network
from tilework.lower.listing import listing_of
from tilework.space import SearchSpace
from tilework.target.runs import caveat, mark


def resnet_block(batch: int = 1, channels: int = 64, size: int = 56) -> Network:
    """Convolution 3x3 -> batch norm -> ReLU, plus the block's own input."""
    rng = np.random.default_rng(0)
    b = Builder("resnet_block")
    data = b.input("data", (batch, channels, size, size))
    scale = np.sqrt(2 / (9 * channels))
    weight = b.constant(
        rng.normal(0, scale, (channels, channels, 3, 3)).astype(np.float32), "weight1"
    )
    conv = b.op(
        "conv2d",
        data,
        weight,
        strides=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
        layout="NCHW",
    )
    statistics = [
        b.constant(values.astype(np.float32), name)
        for name, values in {
            "gamma": rng.uniform(0.5, 1.5, channels),
            "beta": rng.normal(0, 0.1, channels),
            "mean": rng.normal(0, 0.1, channels),
            "var": rng.uniform(0.5, 1.5, channels),
        }.items()
    ]
    norm = b.op("batch_norm", conv, *statistics, axis=1, epsilon=1e-5)
    out = b.op("add", b.op("relu", norm), data, name="out")
    return b.finish([out])


def reference(net: Network, data: np.ndarray) -> np.ndarray:
    """The same block in NumPy, float64: nine shifted products."""
    c = {name: array.astype(np.float64) for name, array in net.constants.items()}
    size = data.shape[2]
    padded = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    conv = sum(
        np.einsum(
            "oi,nihw->nohw", c["weight1"][:, :, y, x], padded[:, :, y : y + size, x : x + size]
        )
        for y in range(3)
        for x in range(3)
    )
    gamma, beta, mean, var = (c[n].reshape(-1, 1, 1) for n in ("gamma", "beta", "mean", "var"))
    return np.maximum((conv - mean) / np.sqrt(var + 1e-5) * gamma + beta, 0) + data


def show_best(task: tw.SearchTask, records: RecordStore) -> None:
    """The task's best schedule on record, in words; on a GPU also as CUDA C."""
    best = tw.load_best(records, task.workload_key, task.target)
    if best is None:
        return
    sketch = SearchSpace.of(task).sketch(best.sketch_id)
    print(f"Best schedule of {task.desc}:")
    print(sketch.describe(best.decisions))
    code = listing_of(sketch, best.decisions)
    if code is not None:
        print("\n".join(f"  {heading}: {fact}" for heading, fact in code.facts.items()))
        print(f"\nAs {code.language}:\n{code.text}")


def main() -> None:
    """Declare, extract, tune, plot, compile, check, time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="budget of the search")
    parser.add_argument("--store", default="resnet_block", help="folder of the records")
    parser.add_argument("--plot", default="resnet_block.png", help="where to draw the convergence")
    parser.add_argument("--target", default="llvm -mcpu=native", help="such as 'cuda'")
    args = parser.parse_args()

    target = tw.Target(args.target)
    said = mark(str(target))
    if said:
        print(f"Target: {target} ({caveat(str(target))})")
    net = resnet_block()
    tasks, weights = tw.extract_tasks(net, target)
    for task in tasks:
        print(f"task: {task.desc}, {task.flops / 1e6:.0f} million operations")
        print(task.compute_dag)

    records = RecordStore(args.store)
    with tw.Measurer(target) as measurer:
        result = tw.tune(
            tasks,
            weights,
            tw.TuningOptions(seconds=args.seconds, num_measures_per_round=16),
            records,
            measurer,
            network=net.name,
            callbacks=[
                lambda _, done: print(
                    f"{done.trials:5d} trials: {1e3 * done.estimated_total_s:.3f} ms{said}"
                )
            ],
        )
    print(f"{result.trials} trials, stopped because {result.stopped}")

    ours = {task.workload_key: task.weight for task in tasks}
    known = [r for r in records.read() if r.target == str(target)]
    rows = [r for r in known if r.workload_key in ours]
    Path(args.plot).write_bytes(
        plot_png(convergence(rows, ours), net.name + said, task_curves(rows, ours))
    )
    print(f"convergence: {args.plot}")
    show_best(max(tasks, key=lambda task: task.flops), records)
    if target.run == "simulated":
        print("Nothing is compiled or timed: no program ran.")
        return

    data = np.random.default_rng(1).normal(size=(1, 64, 56, 56)).astype(np.float32)
    with tw.ApplyHistoryBest(records):
        tuned = tw.compile(net, target)
    untuned = tw.compile(net, target, records=None)
    want = reference(net, data)
    error = np.abs(tuned.run({"data": data})[0] - want).max() / np.abs(want).max()
    print(f"largest error against NumPy: {error:.1e} of the largest output")
    if error > 1e-3:
        raise SystemExit("the compiled block computes something else")
    long = 1 if said else 100
    print(f"untuned{said}: {untuned.benchmark(repeat=5, min_repeat_ms=long)}")
    print(f"tuned{said}:   {tuned.benchmark(repeat=5, min_repeat_ms=long)}")


if __name__ == "__main__":  # worker processes import this file
    main()
