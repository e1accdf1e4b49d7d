"""All networks of the zoo at full size: time of extraction, and whether the output is right.

    python benchmarks/zoo.py [NET ...] [--extract-only] [--layouts NHWC,NCHW] [--json FILE]

Extraction is everything from a network in memory to its search tasks: graph passes, fusion,
declarations; CPU seconds of one core, the best of three. For the outputs each network is compiled
untuned in both layouts, and compared with ONNX Runtime on the exported graph; the error is
relative to the largest output.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tilework as tw
from tilework.graph import Network


def main() -> None:
    """Run and print."""
    args = _arguments()
    target = tw.Target("llvm -mcpu=native")
    head = f"{'network':18}{'nodes':>6}{'tasks':>6}{'extraction s':>14}"
    print(head if args.extract_only else f"{head}  error by layout")
    found = []
    for name in args.networks or tw.zoo.names():
        row: dict[str, Any] = {"network": name, **extraction(name, target)}
        print(f"{name:18}{row['nodes']:6}{row['tasks']:6}{row['extraction_s']:14.3f}", end="")
        for layout in [] if args.extract_only else args.layouts.split(","):
            row[layout] = error(tw.zoo.get(name, layout=layout), target)
            print(f"  {layout} {row[layout]:.1e}", end="", flush=True)
        print(flush=True)
        found.append(row)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


def extraction(name: str, target: tw.Target) -> dict[str, float]:
    """Size of a network, and CPU seconds to extract its tasks."""
    seconds = []
    for _ in range(3):
        net = tw.zoo.get(name)  # a network's plan is kept: each time needs a new one
        start = time.process_time()
        tasks, _ = tw.extract_tasks(net, target)
        seconds.append(time.process_time() - start)
    return {"nodes": len(net.nodes), "tasks": len(tasks), "extraction_s": min(seconds)}


def error(net: Network, target: tw.Target) -> float:
    """Largest difference from ONNX Runtime's output, relative to its largest element."""
    import onnxruntime

    (kind,) = net.inputs.values()
    x = np.random.default_rng(0).standard_normal(kind.shape, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        net.to_onnx(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (want,) = session.run(None, {"data": x})
    (got,) = tw.compile(net, target).run({"data": x})
    return float(np.abs(got - want).max() / np.abs(want).max())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("networks", nargs="*", metavar="NET", help="default: all")
    add("--extract-only", action="store_true", help="no outputs")
    add("--layouts", default="NHWC,NCHW", help="layouts to compare the output in")
    add("--json", type=Path, help="also write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
