"""Whole networks: our time beside that of ONNX Runtime and OpenVINO.

    python benchmarks/networks.py [NET ...] [--threads 1,2] [--store DIR] [--tune N]
                                  [--effort draft|quick|full] [--search-seconds S]
                                  [--peers onnxruntime,openvino] [--json FILE] [--chart FILE]

NET is a name of the zoo, an ONNX file, ``mlp-A-B-...-Z``: dense layers of these sizes, or
``encoder-LAYERS-WIDTH-HEADS-SEQUENCE``: a transformer encoder (BERT-base: 12-768-12-128); by
default the seven networks of the table in benchmarks/README.md. Every engine runs the same
network in float32 at batch 1 with the same number of threads, on fixed buffers, in turns
(A/B/A/B); of zoo networks a peer has its choice of NHWC and NCHW input. Times are medians, a
ratio is the median over paired samples of our time divided by theirs; samples in which a thread
waited for a core are discarded. Our schedules come from the store (``tilework tune NET --store
DIR`` fills it), or without a record from the draft model; ``--tune N`` searches every task with N
trials first, ``--effort`` the network as ``tilework tune`` does, for the effort's budget or
``--search-seconds`` (a search that the store has seen to its end is not made again). At the end
come the rows of the table, and the geometric mean of the ratios to the better engine. Without a
search a network takes some 15 s on one thread and 25 s on two.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from _encoder import encoder
from _engines import Result, Search, compare
from _machine import describe_machine, machine_line, measure_machine
from _models import NCHW, NHWC, mlp
from _report import as_json, draw, print_head, print_result, print_table, write_json

import tilework as tw
from tasks.network import is_onnx, network_label
from tasks.peers import PEERS, require_peers
from tasks.stores import open_store
from tilework.graph import Network
from tilework.graph.onnx.export import to_model
from tilework.record import MemoryHistory, RecordLog

_DEFAULT = [
    "resnet-18", "resnet-50", "mobilenet", "squeezenet_v1.1", "inception_v3", "resnet3d-18",
    "mlp-150528-128-64-1000",
]  # fmt: skip


def main() -> None:
    """Run and print."""
    args = _arguments()
    peers = [p for p in args.peers.split(",") if p]
    require_peers(peers)
    records: Any = None
    if args.store:
        records = open_store(args.store)
    elif args.tune or args.effort:
        records = MemoryHistory()  # the schedules serve this run alone
    machine, runs, results = describe_machine(tw.Target(args.target)), [], []
    names = [n for given in args.networks for n in given.split(",") if n] or _DEFAULT
    for count in map(int, args.threads.split(",")):
        target = tw.Target(f"{args.target} -num-cores={count}")
        figures = measure_machine(target)
        print(f"\n{target}\n{machine_line(target, figures)}\n")
        print_head(peers)
        found: list[Result] = []
        for name in names:
            net, models = models_of(name)
            result = compare(
                network_label(name),
                models,
                target,
                peers,
                records,
                args.seconds,
                args.tune,
                net=net,
                search=_search(args, network_label(name)),
            )
            print_result(result, figures["fma_peak_gflops"])
            found.append(result)
        results += found
        runs.append({**figures, "networks": [as_json(r) for r in found]})
    print_table(results, peers)
    if args.json:
        write_json(args.json, machine, vars(args), runs)
    if args.chart and peers:
        draw(args.chart, f"Networks, batch 1, float32; {machine['cpu']}", results)


def _search(args: argparse.Namespace, label: str) -> Search | None:
    """The search that the arguments ask for."""
    if not args.effort:
        return None

    def search(net: Network, target: tw.Target, records: RecordLog) -> None:
        from tilework.measure import Measurer
        from tilework.search import EFFORTS, tune

        options = EFFORTS[args.effort]
        if args.search_seconds:
            options = replace(options, seconds=args.search_seconds, num_measure_trials=None)
        tasks, weights = tw.extract_tasks(net, target)
        run = f"networks-{label}-{target.num_cores}-{args.effort}-{options.seconds:g}"
        with Measurer(target) as measurer:
            found = tune(tasks, weights, options, records, measurer, run_id=run, network=label)
        print(
            f"    {label}: {found.trials} trials of {len(tasks)} tasks, {found.elapsed_s:.0f} s",
            flush=True,
        )

    return search


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
    add("--effort", choices=("draft", "quick", "full"), help="search each network first")
    add("--search-seconds", type=float, help="of each search, instead of the effort's budget")
    add("--seconds", type=float, default=4.0, help="measured time of each engine and network")
    add("--json", type=Path, help="also write the numbers, and the machine, to this file")
    add("--chart", type=Path, help="also draw the ratios to this PNG file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
