"""Whole networks: our time beside that of ONNX Runtime and OpenVINO.

    python benchmarks/networks.py [NET ...] [--threads 1,2] [--store DIR] [--tune N]
                                  [--peers onnxruntime,openvino] [--json FILE] [--chart FILE]

NET is a name of the zoo, an ONNX file, ``mlp-A-B-...-Z``: dense layers of these sizes, or
``encoder-LAYERS-WIDTH-HEADS-SEQUENCE``: a transformer encoder (BERT-base: 12-768-12-128); by
default resnet-18, resnet-50 and mlp-150528-128-64-1000. Every engine runs the same network in
float32 at batch 1 with the same number of threads, on fixed buffers, in turns (A/B/A/B); of zoo
networks a peer has its choice of NHWC and NCHW input. Times are medians, a ratio is the median
over paired samples of our time divided by theirs; samples in which a thread waited for a core are
discarded. Our schedules come from the store (``tilework tune NET --store DIR`` fills it), or
without a record from the draft model; ``--tune N`` searches every task with N trials first.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import onnx
from _encoder import encoder
from _engines import Result, compare
from _machine import describe_machine, machine_line, measure_machine
from _models import NCHW, NHWC, mlp
from _report import as_json, draw, print_head, print_result, write_json

import tilework as tw
from tasks.finish import open_store
from tasks.network import is_onnx, network_label
from tasks.peers import PEERS, require_peers
from tilework.graph import Network
from tilework.graph.onnx.export import to_model
from tilework.record import MemoryHistory

_DEFAULT = ["resnet-18", "resnet-50", "mlp-150528-128-64-1000"]


def main() -> None:
    """Run and print."""
    args = _arguments()
    peers = [p for p in args.peers.split(",") if p]
    require_peers(peers)
    records: Any = None
    if args.store:
        records = open_store(args.store)
    elif args.tune:
        records = MemoryHistory()  # the schedules serve this run alone
    machine, runs, results = describe_machine(tw.Target(args.target)), [], []
    loaded = {name: models_of(name) for name in args.networks or _DEFAULT}
    for count in map(int, args.threads.split(",")):
        target = tw.Target(f"{args.target} -num-cores={count}")
        figures = measure_machine(target)
        print(f"\n{target}\n{machine_line(figures)}\n")
        print_head(peers)
        found: list[Result] = []
        for name, (net, models) in loaded.items():
            label = network_label(name)
            result = compare(
                label, models, target, peers, records, args.seconds, args.tune, net=net
            )
            print_result(result, figures["fma_peak_gflops"])
            found.append(result)
        results += found
        runs.append({**figures, "networks": [as_json(r) for r in found]})
    if args.json:
        write_json(args.json, machine, vars(args), runs)
    if args.chart and peers:
        draw(args.chart, f"Networks, batch 1, float32; {machine['cpu']}", results)


def models_of(name: str) -> tuple[Network | None, dict[str, onnx.ModelProto]]:
    """A network for ourselves (None: import the first model), and its models by layout."""
    if is_onnx(name):
        return None, {NCHW: onnx.load(name)}
    if re.fullmatch(r"mlp(-\d+){2,}", name):
        return None, {NHWC: mlp(tuple(map(int, name.split("-")[1:])))}
    if re.fullmatch(r"encoder(-\d+){4}", name):
        layers, width, heads, sequence = map(int, name.split("-")[1:])
        return None, {NHWC: encoder(layers, width, heads, sequence)}
    nets = {form: tw.zoo.get(name, layout=form) for form in (NHWC, NCHW)}
    return nets[NHWC], {form: to_model(net) for form, net in nets.items()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("networks", nargs="*", metavar="NET", help=f"default: {' '.join(_DEFAULT)}")
    add("--threads", default="1,2", help="thread counts, such as 1,2")
    add("--peers", default=",".join(PEERS), help="engines to compare with, or nothing")
    add("--target", default="llvm -mcpu=native", help="target without -num-cores")
    add("--store", help="record store to take tuned schedules from, and to keep new ones in")
    add("--tune", type=int, default=0, metavar="N", help="search every task with N trials first")
    add("--seconds", type=float, default=4.0, help="measured time of each engine and network")
    add("--json", type=Path, help="also write the numbers, and the machine, to this file")
    add("--chart", type=Path, help="also draw the ratios to this PNG file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
