"""Single layers: our time beside that of ONNX Runtime and OpenVINO.

    python benchmarks/layers.py [--threads 1,2] [--layers 3x3,dense] [--store DIR] [--tune N]
                                [--peers onnxruntime,openvino] [--json FILE] [--chart FILE]
    python benchmarks/layers.py --direct [--network resnet-50] [--threads 1,2] [--store DIR]

Every engine gets the same layer (weights, bias, ReLU) as an ONNX model in float32 with the same
number of threads, keeps its inputs and outputs in fixed buffers, and takes its turn in one run
(A/B/A/B). Peers have their choice of NHWC or NCHW at the boundary; ours takes NHWC. Times are
medians, a ratio is the median over paired samples of our time divided by theirs; samples in which
a thread waited for a core are discarded. Our schedules come from the store, or without a record
from the draft model; ``--tune N`` searches every layer with N trials first.

``--direct`` prints another table: a network's convolutions without Winograd, beside the
multiply-add peak; with ``--peak`` any schedule may be taken.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from _engines import Result, compare
from _machine import describe_machine, machine_line, measure_machine
from _models import layers
from _peak import peak_table
from _report import as_json, draw, print_head, print_result, write_json

import tilework as tw
from tasks.peers import PEERS, require_peers
from tasks.stores import open_store
from tilework.errors import TileworkError
from tilework.record import MemoryHistory


def main() -> None:
    """Run and print."""
    args = _arguments()
    counts = [int(n) for n in args.threads.split(",")]
    records: Any = None
    if args.store:
        records = open_store(args.store)
    if args.direct or args.peak:
        runs: list[Any] = [peak_table(args.network, n, records, args.direct) for n in counts]
        if args.json:
            write_json(args.json, describe_machine(tw.Target(args.target)), vars(args), runs)
        return
    if args.tune and records is None:
        records = MemoryHistory()  # the schedules serve this run alone
    peers = [p for p in args.peers.split(",") if p]
    require_peers(peers)
    machine, runs, results = describe_machine(tw.Target(args.target)), [], []
    for count in counts:
        target = tw.Target(f"{args.target} -num-cores={count}")
        figures = measure_machine(target)
        print(f"\n{target}\n{machine_line(target, figures)}\n")
        print_head(peers)
        found = _measure(args, target, peers, records, figures["fma_peak_gflops"])
        results += found
        runs.append({**figures, "layers": [as_json(r) for r in found]})
    if args.json:
        write_json(args.json, machine, vars(args), runs)
    if args.chart and peers and results:
        draw(args.chart, f"Single layers, batch 1, float32; {machine['cpu']}", results)


def _measure(
    args: argparse.Namespace, target: tw.Target, peers: list[str], records: Any, peak: float
) -> list[Result]:
    wanted = [w for w in args.layers.split(",") if w]
    found = []
    for layer in layers():
        if wanted and not any(w in layer.name for w in wanted):
            continue
        models = {layout: layer.model(layout) for layout in layer.layouts}
        try:
            result = compare(
                layer.name,
                models,
                target,
                peers,
                records,
                args.seconds,
                args.tune,
                layer.flops,
            )
        except TileworkError as error:
            print(f"{layer.name:28s}  left out: {str(error).splitlines()[-1].strip()}")
            continue
        print_result(result, peak)
        found.append(result)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--threads", default="1,2", help="thread counts, such as 1,2")
    add("--layers", default="", help="parts of names of layers, such as 3x3,dense; default: all")
    add("--peers", default=",".join(PEERS), help="engines to compare with, or nothing")
    add("--target", default="llvm -mcpu=native", help="target without -num-cores")
    add("--store", help="record store to take tuned schedules from, and to keep new ones in")
    add("--tune", type=int, default=0, metavar="N", help="search every layer with N trials first")
    add("--seconds", type=float, default=0.7, help="measured time of each engine and layer")
    add("--json", type=Path, help="also write the numbers, and the machine, to this file")
    add("--chart", type=Path, help="also draw the ratios to this PNG file")
    add("--direct", action="store_true", help="table of direct convolutions beside the peak")
    add("--peak", action="store_true", help="table of any convolutions beside the peak")
    add("--network", default="resnet-50", help="network of the --direct and --peak tables")
    return parser.parse_args()


if __name__ == "__main__":
    main()
