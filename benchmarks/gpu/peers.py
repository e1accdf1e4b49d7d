"""Networks against PyTorch with cuDNN on the same GPU, in turns.

    python benchmarks/gpu/peers.py [resnet-18,resnet-50,mobilenet] [--store resnet18-gpu]

PyTorch runs the same operators and weights, batch norms folded, without and with TF32, channels
first and last, each as a CUDA graph, and once without one. Ours is compiled with the records of a
store, untuned without. Times are those of a caller, from the call to the end of the device's work;
inputs and outputs lie in the device's memory. Results are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import arguments, begin, finish
from _torch_network import TorchNetwork

import tilework as tw
from tasks.engines import max_rel_error, random_inputs
from tasks.stores import open_store
from tilework.runtime.samples import interleave

DRY = "cuda -model=a100 -run=emulated"


def pytorch() -> Any:
    """PyTorch, or one line about what is missing."""
    try:
        import torch
    except ImportError:
        sys.exit("error: PyTorch is not installed: pip install torch")
    return torch


def device_of(target: Any) -> str:
    """Where PyTorch runs beside a target, in its words."""
    if target.run != "device":
        print("PyTorch runs on the CPU here: the times below compare nothing")
        return "cpu"
    if not pytorch().cuda.is_available():
        sys.exit("error: this PyTorch finds no CUDA device: install one built for CUDA")
    return "cuda"


class PyTorchRuns:
    """One way in which PyTorch runs a network: its outputs, and a call that ends on the device.

    Args:
        net: in NCHW.
        inputs: arrays by name, in NCHW.
        device: ``cuda``, or ``cpu`` to see that it works.
        tf32: let convolutions and products of float32 round their factors.
        channels_last: PyTorch's format of that name.
        graph: capture the network as a CUDA graph.
    """

    def __init__(
        self, net: Any, inputs: dict[str, np.ndarray], device: str, tf32: bool,
        channels_last: bool, graph: bool,
    ) -> None:  # fmt: skip
        torch = pytorch()
        self._torch, self._device, self._tf32 = torch, device, tf32
        self._network = TorchNetwork(net, device, channels_last, torch.float32)
        self._inputs = {name: self._network.tensor(array) for name, array in inputs.items()}
        self._graph = None
        torch.backends.cudnn.benchmark = True
        self._set_precision()
        for _ in range(3):  # cuDNN looks for its fastest algorithms in the first calls
            self._outputs = self._network(self._inputs)
        if graph and device == "cuda":
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._outputs = self._network(self._inputs)

    def __call__(self) -> None:
        """Run once, to the end."""
        self._set_precision()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._outputs = self._network(self._inputs)
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def outputs(self) -> list[np.ndarray]:
        """What the last call computed."""
        return [out.float().cpu().numpy() for out in self._outputs]

    def _set_precision(self) -> None:
        self._torch.backends.cuda.matmul.allow_tf32 = self._tf32
        self._torch.backends.cudnn.allow_tf32 = self._tf32


WAYS: dict[str, dict[str, bool]] = {
    "PyTorch": {"tf32": False, "channels_last": False, "graph": False},
    "PyTorch, graph": {"tf32": False, "channels_last": False, "graph": True},
    "PyTorch, graph, channels last": {"tf32": False, "channels_last": True, "graph": True},
    "PyTorch, graph, TF32": {"tf32": True, "channels_last": False, "graph": True},
    "PyTorch, graph, TF32, channels last": {"tf32": True, "channels_last": True, "graph": True},
}


def compare(
    name: str, batch: int, target: tw.Target, store: str, device: str, seconds: float
) -> list[dict[str, Any]]:
    """Rows of one network: ours in float32 and, where the target has it, in TF32, then PyTorch.

    Interleaved, so that a change of the clock meets all of them.
    """
    net = tw.zoo.get(name, batch=batch, layout="NCHW")
    inputs = random_inputs(net)
    calls: dict[str, Callable[[], Any]] = {}
    outputs: dict[str, list[np.ndarray]] = {}
    schedules: dict[str, str] = {}
    for precision in ("f32", "tf32"):
        try:
            module = tw.compile(net, target, open_store(store), precision=precision)
        except tw.TileworkError as error:
            print(f"  {precision} is left out: {error}")
            continue
        said = "Tilework" + (", TF32" if precision == "tf32" else "")
        outputs[said] = [np.array(out) for out in module.run(inputs)]
        calls[said] = module.bind(*_resident(module, inputs, device))
        tuned = sum(row.tuned for row in module.report)
        schedules[said] = f"{tuned} of {len(module.report)} tasks tuned"
    for way, options in WAYS.items():
        run = PyTorchRuns(net, inputs, device, **options)
        run()
        outputs[way], calls[way] = run.outputs(), run
    samples = interleave(calls, 400, min_sample_s=0.02, warmup=3, budget_s=seconds * len(calls))
    first = next(iter(outputs.values()))
    return [
        {
            "network": name,
            "engine": way,
            "median_ms": 1e3 * found.median,
            "min_ms": 1e3 * min(found.seconds),
            "difference": max_rel_error(outputs[way], first),
            "schedules": schedules.get(way, ""),
        }
        for way, found in samples.items()
    ]


def _resident(module: Any, inputs: dict[str, np.ndarray], device: str) -> tuple[Any, Any]:
    """Inputs and outputs of a call, as tensors in the device's memory where there is one."""
    if device == "cpu":
        return inputs, None
    torch = pytorch()
    outputs = [torch.empty(out.shape, device=device) for out in module.outputs]
    return {name: torch.tensor(array, device=device) for name, array in inputs.items()}, outputs


def main() -> None:
    """All networks, one after the other."""
    parser = arguments(__doc__)
    parser.add_argument("networks", nargs="?", default="resnet-18,resnet-50,mobilenet")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of each engine")
    parser.add_argument("--store", default="resnet18-gpu", help="records of ours")
    args = parser.parse_args()
    torch = pytorch()
    target = begin(args.target, args.dry_run, DRY)
    device = device_of(target)
    if args.dry_run:
        args.networks, args.seconds = "mlp", 0.02
    found: list[dict[str, Any]] = []
    print("| network | engine | median ms | min ms | difference | |\n|---|---|---|---|---|---|")
    for name in args.networks.split(","):
        for row in compare(name, args.batch, target, args.store, device, args.seconds):
            found.append(row)
            print(
                f"| {name} | {row['engine']} | {row['median_ms']:.4f} | {row['min_ms']:.4f} "
                f"| {row['difference']:.1e} | {row['schedules']} |",
                flush=True,
            )
    finish(args.json, target, {"rows": found, "torch": torch.__version__})


if __name__ == "__main__":
    main()
