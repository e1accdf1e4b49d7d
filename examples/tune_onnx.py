"""Tune an ONNX file from Python, without Prefect and the command line.

    python examples/tune_onnx.py model.onnx [SECONDS]

Without an argument, a small network is exported first, so that there is something to tune.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import tilework as tw
from storage import RecordStore


def main(path: str, seconds: float) -> None:
    """Tune, compile, run and time the network of an ONNX file."""
    net = tw.from_onnx(path)
    target = tw.Target("llvm -mcpu=native")
    tasks, weights = tw.extract_tasks(net, target)
    records = RecordStore("records")
    with tw.Measurer(target) as measurer:
        result = tw.tune(
            tasks,
            weights,
            tw.TuningOptions(seconds=seconds),
            records,
            measurer,
            run_id=f"example-{net.name}",  # the same id goes on with an interrupted run
            network=net.name,
            callbacks=[
                lambda _, done: print(f"{done.trials} trials: {done.estimated_total_s:.6f} s")
            ],
        )
    print(f"{result.trials} trials, stopped because {result.stopped}")

    module = tw.compile(net, target, records=records)
    inputs = {n: np.zeros(kind.shape, np.float32) for n, kind in net.inputs.items()}
    print("output shapes:", [out.shape for out in module.run(inputs)])
    print(module.benchmark(repeat=3, min_repeat_ms=100))
    module.save(f"{net.name}.tw")


if __name__ == "__main__":  # worker processes import this file
    budget = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    if len(sys.argv) > 1:
        main(sys.argv[1], budget)
    else:
        with tempfile.TemporaryDirectory() as folder:
            example = str(Path(folder) / "mlp.onnx")
            tw.zoo.get("mlp").to_onnx(example)
            main(example, budget)
