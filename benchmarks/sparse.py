"""Block-sparse dense layers beside our own dense kernel of the same layer.

    python benchmarks/sparse.py [--threads 1] [--batches 1,16,128] [--blocks 16x1,16x4,4x1]
                                [--sparse 0.85] [--layer 2048x1000] [--tune N] [--json FILE]

Every layer has a bias and is searched with N trials first. Two comparisons, in microseconds:

- *in memory*: latencies of the searches' finals, taken as in a network: weights come from memory
  in each call, because the other layers' pass through the caches in between;
- *alone*: the compiled layers, called over and over in turns (A/B/A/B): what fits the caches stays
  there, the dense weights as far as they do.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from _machine import describe_machine, machine_line, measure_machine

import tilework as tw
from tilework.graph import Builder, Network
from tilework.record import MemoryHistory
from tilework.runtime.arrays import aligned_copy
from tilework.runtime.samples import interleave


@dataclass(frozen=True)
class Row:
    """One layer; times in microseconds."""

    batch: int
    threads: int
    weight: str
    in_memory_us: float
    alone_us: float


def layer(batch: int, columns: int, units: int) -> Network:
    """A dense layer with bias; seeded weights."""
    rng = np.random.default_rng(0)
    b = Builder(f"dense {columns}->{units}")
    x = b.input("data", (batch, columns))
    weight = rng.normal(0, columns**-0.5, (units, columns)).astype(np.float32)
    y = b.op("dense", x, b.constant(weight, "weight"))
    bias = b.constant(rng.normal(0, 1, units).astype(np.float32), "bias")
    return b.finish([b.op("add", y, bias)])


def main() -> None:
    """Search, time, print."""
    args = _arguments()
    columns, units = (int(n) for n in args.layer.split("x"))
    target = tw.Target(f"llvm -mcpu=native -num-cores={args.threads}")
    print(f"{target}\n{machine_line(target, measure_machine(target))}\n")
    print("batch  weight          in memory  ratio      alone  ratio")
    rows: list[Row] = []
    for batch in (int(n) for n in args.batches.split(",")):
        dense = layer(batch, columns, units)
        nets = {"dense": dense}
        for block in args.blocks.split(","):
            shape = tuple(int(n) for n in block.split("x"))
            nets[f"{args.sparse:.0%} of {block}"] = tw.sparsify(dense, args.sparse, shape)
        found = _timed(nets, target, args.tune, args.seconds)
        first = found[0]
        for row in found:
            print(
                f"{row.batch:5d}  {row.weight:14s} {row.in_memory_us:10.1f}  "
                f"{first.in_memory_us / row.in_memory_us:5.2f} {row.alone_us:10.1f}  "
                f"{first.alone_us / row.alone_us:5.2f}"
            )
        rows += found
    if args.json:
        document = {"machine": describe_machine(target), "rows": [asdict(r) for r in rows]}
        args.json.write_text(json.dumps(document, indent=1) + "\n")


def _timed(nets: dict[str, Network], target: tw.Target, trials: int, seconds: float) -> list[Row]:
    """Search every network, then time the modules in turns."""
    modules, known = {}, {}
    records = MemoryHistory()
    options = tw.TuningOptions(num_measure_trials=trials, num_measures_per_round=16)
    with tw.Measurer(target) as measurer:
        for name, net in nets.items():
            tasks, weights = tw.extract_tasks(net, target)
            result = tw.tune(tasks, weights, options, records, measurer, network=net.name)
            known[name] = 1e6 * result.estimated_total_s
            modules[name] = tw.compile(net, target, records=records)
    shape = nets["dense"].inputs["data"].shape
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    calls = {name: module.bind({"data": aligned_copy(x)}) for name, module in modules.items()}
    samples = interleave(
        calls, 1000, min_sample_s=0.005, warmup=3, settle_s=1e-3, budget_s=seconds * len(calls)
    )
    return [
        Row(shape[0], target.num_cores, name, known[name], 1e6 * samples[name].median)
        for name in nets
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--threads", type=int, default=1)
    add("--batches", default="1,16,128", help="batch sizes")
    add("--blocks", default="16x1,16x4,4x1", help="rows x columns of blocks")
    add("--sparse", type=float, default=0.85, help="share of the blocks that is pruned")
    add("--layer", default="2048x1000", help="inputs x outputs")
    add("--tune", type=int, default=48, metavar="N", help="trials of each search")
    add("--seconds", type=float, default=0.5, help="measured time of each compiled layer")
    add("--json", type=Path, help="also write the numbers, and the machine, to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
