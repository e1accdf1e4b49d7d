"""What block sparsity gains: the same MLP dense and sparse, both tuned, timed in turns.

    python examples/tune_sparse_mlp.py [--sparse 0.85] [--block 16x1] [--seconds 20] [--batch 1]

A three-layer perceptron (2048 -> 2048 -> 1024 -> 1000) is pruned: of each weight, 85 % of the
blocks of 16 outputs x 1 input become zero. Its layers become sparse products, tasks with their own
sketch rules that are measured with the network's own index arrays. Both networks are searched for
so many seconds each. The script goes on where it stopped.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np

import tilework as tw
from storage import RecordStore
from tilework.graph import Builder, Network
from tilework.graph.sparse import densify, sparse_layers
from tilework.runtime import Module
from tilework.runtime.samples import interleave, paired_ratio

SIZES = (2048, 2048, 1024, 1000)


def get_mlp(batch: int) -> Network:
    """Dense layers with bias, ReLU between them, softmax at the end; seeded weights."""
    rng = np.random.default_rng(0)
    b = Builder("mlp-2048")
    x = b.input("data", (batch, SIZES[0]))
    for number, (columns, units) in enumerate(pairwise(SIZES), 1):
        weight = rng.normal(0, columns**-0.5, (units, columns)).astype(np.float32)
        bias = rng.normal(0, 0.1, units).astype(np.float32)
        x = b.op("dense", x, b.constant(weight, f"weight{number}"))
        x = b.op("add", x, b.constant(bias, f"bias{number}"))
        x = b.op("relu", x) if units != SIZES[-1] else b.op("softmax", x, axis=-1)
    return b.finish([x])


def tuned(net: Network, target: tw.Target, records: RecordStore, seconds: float) -> Module:
    """The network, searched and compiled with what was found."""
    tasks, weights = tw.extract_tasks(net, target)
    for task in tasks:
        real = f" ({task.real_flops / 1e6:.2f} made)" if task.real_flops < task.flops else ""
        print(f"  {task.desc}: {task.flops / 1e6:.2f} MFLOP{real}")
    with tw.Measurer(target) as measurer:
        options = tw.TuningOptions(
            seconds=seconds, num_measures_per_round=16, warmup_measures=8, min_share=0.005
        )
        result = tw.tune(tasks, weights, options, records, measurer, network=net.name)
    print(f"  {result.trials} trials: {1e3 * result.estimated_total_s:.4f} ms estimated in all")
    return tw.compile(net, target, records=records)


def main() -> None:
    """Make both networks, tune both, compare outputs and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sparse", type=float, default=0.85, help="share of blocks to prune")
    parser.add_argument("--block", default="16x1", help="rows x columns of a block")
    parser.add_argument("--seconds", type=float, default=20.0, help="search of each network")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--store", default="records", help="folder of the records")
    args = parser.parse_args()

    rows, columns = (int(n) for n in args.block.split("x"))
    target = tw.Target(f"llvm -mcpu=native -num-cores={args.threads}")
    records = RecordStore(args.store)
    dense = get_mlp(args.batch)
    sparse = tw.sparsify(dense, args.sparse, (rows, columns))
    print("Sparse layers:")
    for layer in sparse_layers(sparse):
        print(f"  {layer.units} x {layer.columns}, {layer.density:.1%} of the blocks stored")

    print("Tuning the dense network...")
    dense_module = tuned(dense, target, records, args.seconds)
    print("Tuning the sparse network...")
    sparse_module = tuned(sparse, target, records, args.seconds)

    # The same pruned weights, computed as if they were dense: the outputs must be equal.
    x = np.random.default_rng(1).normal(size=(args.batch, SIZES[0])).astype(np.float32)
    same = tw.compile(densify(sparse), target)
    (want,), (got,) = same.run({"data": x}), sparse_module.run({"data": x})
    print(f"Largest error: {np.abs(got - want).max() / np.abs(want).max():.1e} of the largest")

    calls = {}
    for name, module in (("dense", dense_module), ("sparse", sparse_module)):
        calls[name] = module.bind()  # fixed arrays: nothing but the kernels is timed
        calls[name].inputs["data"][...] = x
    samples = interleave(calls, 200, min_sample_s=0.002, settle_s=1e-3, budget_s=4.0)
    for name, found in samples.items():
        print(f"{name:>6}: {1e3 * found.median:.4f} ms")
    ratio = paired_ratio(samples["dense"], samples["sparse"])
    print(f"The sparse network is {ratio:.1f} times as fast.")


if __name__ == "__main__":  # worker processes import this file
    main()
