"""Whole networks on an emulated GPU, against ONNX Runtime: are they right, how long do they take?

    python benchmarks/cuda_networks.py                      # all of NETWORKS, on an A100's code
    python benchmarks/cuda_networks.py resnet-18 --target "cuda -model=h100 -run=emulated"

Schedules are the analytic model's: nothing is tuned. Times are those of this machine's processor
and say nothing of a GPU. A network that does not agree with ONNX Runtime, or takes longer than it
is given, ends the program with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
from _encoder import encoder

import tilework as tw
from tasks.engines import max_rel_error, random_inputs
from tilework.graph import Network, from_onnx, zoo
from tilework.record import MemoryHistory

NETWORKS = {
    "mlp": 1.0,
    "squeezenet_v1.1": 6.0,
    "mobilenet": 6.0,
    "resnet-18": 6.0,
    "resnet-50": 12.0,
    "encoder-1-768-12-128": 6.0,
}
"""Networks, and the seconds that a run may take."""

TARGET = "cuda -model=a100 -run=emulated"
TOLERANCE = 1e-3
"""Of the largest element of an output."""


@dataclass(frozen=True)
class Result:
    """One network.

    Attributes:
        error: largest difference to ONNX Runtime's outputs, relative to their largest element.
        compile_s: choosing schedules and printing kernels.
        build_s: compiling these for this machine, with the first run.
        run_s: one run, the least of two.
    """

    name: str
    calls: int
    kernels: int
    error: float
    compile_s: float
    build_s: float
    run_s: float


def measure(name: str, target: tw.Target) -> Result:
    """Compile a network, run it, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        net = _written(name, path)
        inputs = random_inputs(net)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        wanted = session.run(None, inputs)
    began = time.perf_counter()
    module = tw.compile(net, target, MemoryHistory())
    compiled = time.perf_counter()
    got = module.run(inputs)
    built = time.perf_counter()
    times = []
    for _ in range(2):
        start = time.perf_counter()
        got = module.run(inputs)
        times.append(time.perf_counter() - start)
    steps = module.image.steps
    return Result(
        name,
        len(steps),
        len({step.symbol for step in steps}),
        max_rel_error(got, wanted),
        compiled - began,
        built - compiled - min(times),
        min(times),
    )


def _written(name: str, path: Path) -> Network:
    """The network, and a file that ONNX Runtime reads."""
    if name.startswith("encoder-"):
        layers, width, heads, sequence = (int(n) for n in name.split("-")[1:])
        onnx.save(encoder(layers, width, heads, sequence), path)
        return from_onnx(path)
    net = zoo.get(name)
    net.to_onnx(path)
    return net


def main() -> int:
    """Print a table; 1 if a network is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="?", default=",".join(NETWORKS))
    parser.add_argument("--target", default=TARGET)
    args = parser.parse_args()
    target = tw.Target(args.target)
    print(f"{target}, without a search; seconds of this machine's processor")
    print("| network | calls | kernels | compile | build | run | error |\n" + "|---" * 7 + "|")
    wrong = False
    for name in args.networks.split(","):
        r = measure(name, target)
        wrong |= not r.error < TOLERANCE or r.run_s > NETWORKS.get(name, r.run_s)
        print(
            f"| {r.name} | {r.calls} | {r.kernels} | {r.compile_s:.1f} | {r.build_s:.1f} "
            f"| {r.run_s:.2f} | {r.error:.1e} |",
            flush=True,
        )
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
