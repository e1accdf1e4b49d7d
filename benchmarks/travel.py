"""Networks compiled without a measurement of their target, beside the tuned and the untuned.

    python benchmarks/travel.py --target TEXT --tuned STORE --others STORE[,STORE ...]
                                [--model FILE] [--networks NET,...] [--seconds S] [--hide-cpu]
                                [--json FILE]

What the other stores know of the target itself is hidden, and of what is left only the best record
of each task, target and device counts: as if packages of the other targets were installed. Each
network is compiled three times: with the records of ``--tuned``, with what travels from the
others, and with no record. The three run in turns in one process; times are medians, ratios
medians over pairs. ``--model`` is a cost model's document, which decides in place of the draft
what travels; ``--hide-cpu`` hides all targets of the same CPU, whatever their threads.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from _machine import describe_machine
from _models import mlp

import tilework as tw
from storage import RecordStore
from tasks.engines import random_inputs, time_engines
from tasks.peers import Engine
from tilework.graph import Network
from tilework.record import MemoryHistory
from tilework.runtime.image import TRANSFERRED_FROM
from tilework.runtime.samples import paired_ratio

_DEFAULT = [
    "resnet-18", "resnet-50", "mobilenet", "squeezenet_v1.1", "inception_v3", "resnet3d-18",
    "mlp-150528-128-64-1000",
]  # fmt: skip


def main() -> None:
    """Compile, time, print."""
    args = _arguments()
    target = tw.Target(args.target)
    hidden = _hidden(target, args.hide_cpu)
    others = known_elsewhere(
        (RecordStore(p, must_exist=True) for p in args.others.split(",")), hidden
    )
    if args.model:
        others.keep_champion(target.kind, Path(args.model).read_text())
    tuned = RecordStore(args.tuned, must_exist=True)
    print(f"{target}; machine: {describe_machine(target)['cpu']}; hidden: {', '.join(hidden)}")
    print(f"{'network':26s} {'tuned':>9s} {'travelled':>9s} {'draft':>9s} {'over tuned':>10s} "
          f"{'draft over':>10s}  tasks")  # fmt: skip
    rows = []
    for name in args.networks.split(","):
        row = compare(name, target, tuned, others, args.seconds)
        rows.append(row)
        print(
            f"{name:26s} {row['tuned_ms']:9.3f} {row['travelled_ms']:9.3f} {row['draft_ms']:9.3f} "
            f"{row['over_tuned']:10.3f} {row['draft_over_tuned']:10.3f}  {row['sources']}",
            flush=True,
        )
    for what in ("over_tuned", "draft_over_tuned"):
        mean = math.exp(sum(math.log(row[what]) for row in rows) / len(rows))
        print(f"{what}: geometric mean {mean:.3f}, worst {max(row[what] for row in rows):.3f}")
    if args.json:
        Path(args.json).write_text(json.dumps({"arguments": vars(args), "rows": rows}, indent=1))


def known_elsewhere(stores: Iterable[RecordStore], hidden: Iterable[str]) -> MemoryHistory:
    """The best record of each task and device of all targets that are not hidden."""
    history, without = MemoryHistory(), set(hidden)
    for store in stores:
        entries = store.keys()
        for target, key in entries:
            if target not in without:
                history.append(store.hints(key, target, None))
                document = store.workload(key)
                if document is not None:
                    history.keep_workload(key, document)
    return history


def compare(
    name: str, target: tw.Target, tuned: RecordStore, others: MemoryHistory, seconds: float
) -> dict[str, Any]:
    """One network's row."""
    network = _network(name)
    engines: dict[str, Engine] = {"tuned": tw.compile(network, target, records=tuned)}
    began = time.perf_counter()
    travelled = tw.compile(network, target, records=others)
    took = time.perf_counter() - began
    began = time.perf_counter()
    engines["travelled"], engines["draft"] = travelled, tw.compile(network, target)
    plain = time.perf_counter() - began
    samples = time_engines(engines, random_inputs(network), seconds)
    report = tuned_report(engines["tuned"])
    if report:
        print(f"    {name}: {report}", file=sys.stderr)
    return {
        "network": name,
        **{f"{what}_ms": 1e3 * found.median for what, found in samples.items()},
        "over_tuned": paired_ratio(samples["travelled"], samples["tuned"]),
        "draft_over_tuned": paired_ratio(samples["draft"], samples["tuned"]),
        "sources": _sources(travelled),
        "compile_s": {"travelled": round(took, 2), "draft, spaces known": round(plain, 2)},
        "report": [(row.desc, row.weight, row.source) for row in travelled.report],
    }


def _network(name: str) -> Network:
    if name.startswith("mlp-"):
        return tw.from_onnx(mlp(tuple(map(int, name.split("-")[1:]))))
    return tw.zoo.get(name)


def tuned_report(module: Any) -> str:
    """What is not tuned in the module that should be; empty if everything is."""
    missing = [row.desc for row in module.report if not row.tuned]
    return f"not tuned: {', '.join(missing)}" if missing else ""


def _sources(module: Any) -> str:
    """How many tasks have what, in short."""
    count = Counter(row.source.removeprefix(TRANSFERRED_FROM) for row in module.report)
    return ", ".join(f"{n} {source}" for source, n in count.most_common())


def _hidden(target: tw.Target, whole_cpu: bool) -> list[str]:
    counts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128) if whole_cpu else ()
    return sorted({str(target), *(str(target.with_cores(n)) for n in counts)})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True, help="held out: no record of it is used")
    parser.add_argument("--tuned", required=True, help="record store in which the target is tuned")
    parser.add_argument("--others", required=True, help="stores of other targets")
    parser.add_argument("--model", help="document of a cost model that decides what travels")
    parser.add_argument("--networks", default=",".join(_DEFAULT))
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of each module")
    parser.add_argument("--hide-cpu", action="store_true", help="and the CPU's other targets")
    parser.add_argument("--json", help="where the rows are written")
    return parser.parse_args()


if __name__ == "__main__":
    main()
