"""Transformer encoders against PyTorch on the same GPU, in turns, each in three precisions.

    python benchmarks/gpu/encoders.py [minilm,vit,bert] [--tune 0]

Encoders of the sizes of MiniLM and BERT-base over 128 tokens, and of ViT tiny over an image of
224 x 224 (197 positions), with random weights. PyTorch runs each as a CUDA graph, with its own
fused attention: in float32 without and with TF32, and in bfloat16. Ours is read by `from_torch`,
and untuned, or tuned for so many seconds each. Times are those of a caller, inputs and outputs lie
in the device's memory. Differences are to PyTorch's float32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import arguments, begin, finish
from peers import device_of, pytorch

import tilework as tw
from tasks.engines import max_rel_error
from tilework.record import MemoryHistory
from tilework.runtime.samples import interleave

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

DRY = "cuda -model=a100 -run=emulated"
SIZES = {"minilm": (6, 384, 12), "bert": (12, 768, 12), "vit": (12, 192, 3), "tiny": (1, 32, 2)}
"""Layers, width and heads."""
PRECISIONS = ("f32", "tf32", "bf16")


def encoder(name: str) -> tuple[Any, Any]:
    """A module and its input."""
    torch = pytorch()
    from _torch_models import Encoder, ImageEncoder

    torch.manual_seed(0)
    if name == "vit":
        return ImageEncoder(*SIZES[name]).eval(), torch.randn(1, 3, 224, 224)
    tokens = 19 if name == "tiny" else 128
    return Encoder(*SIZES[name]).eval(), torch.randint(0, 1000, (1, tokens))


def in_pytorch(name: str, precision: str, device: str) -> tuple[Callable[[], None], np.ndarray]:
    """A call of PyTorch's that ends on the device, and what it computed."""
    torch = pytorch()
    module, x = encoder(name)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    module, x = module.to(device, dtype), x.to(device) if name != "vit" else x.to(device, dtype)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "f32"
    with torch.no_grad():
        out = module(x)
        if device == "cpu":
            return lambda: module(x), out.float().numpy()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                module(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = module(x)

    call = partial(_replay, graph, (module, x))
    call()
    return call, out.float().cpu().numpy()


def _replay(graph: Any, _kept: Any) -> None:
    """Run a graph to its end; what it reads is kept as long as the call is."""
    graph.replay()
    pytorch().cuda.synchronize()


def compare(
    name: str, target: tw.Target, device: str, seconds: float, tune: float
) -> list[dict[str, Any]]:
    """Rows of one encoder, all interleaved, so that a change of the clock meets all of them."""
    torch = pytorch()
    module, x = encoder(name)
    net = tw.from_torch(module, (x,))
    calls: dict[str, Callable[[], Any]] = {}
    outputs: dict[str, np.ndarray] = {}
    for precision in PRECISIONS:
        said = f"PyTorch {precision}"
        calls[said], outputs[said] = in_pytorch(name, precision, device)
    for precision in PRECISIONS:
        ours = _compiled(net, target, precision, tune)
        inputs = {next(iter(ours.inputs)): x.numpy()}
        said = f"Tilework {precision}"
        outputs[said] = np.array(ours.run(inputs)[0])
        there = inputs
        result = None
        if device == "cuda":
            there = {next(iter(ours.inputs)): x.to(device)}
            result = [torch.empty(out.shape, device=device) for out in ours.outputs]
        calls[said] = ours.bind(there, result)
    samples = interleave(calls, 400, min_sample_s=0.02, warmup=3, budget_s=seconds * len(calls))
    rows = []
    for precision in PRECISIONS:
        own, theirs = (samples[f"{who} {precision}"] for who in ("Tilework", "PyTorch"))
        difference = [
            max_rel_error([outputs[f"{who} {precision}"]], [outputs["PyTorch f32"]])
            for who in ("Tilework", "PyTorch")
        ]
        rows.append({
            "network": name, "precision": precision, "tilework_ms": 1e3 * own.median,
            "pytorch_ms": 1e3 * theirs.median, "differences": difference,
        })  # fmt: skip
    return rows


def _compiled(net: Any, target: tw.Target, precision: Any, tune: float) -> Any:
    """Ours, after so many seconds of search."""
    if not tune:
        return tw.compile(net, target, precision=precision)
    tasks, weights = tw.extract_tasks(net, target, precision=precision)
    history = MemoryHistory()
    with tw.Measurer(target) as measurer:
        tw.tune(tasks, weights, tw.TuningOptions(seconds=tune), history, measurer)
    return tw.compile(net, target, history, precision=precision)


def main() -> None:
    """All encoders, one after the other."""
    parser = arguments(__doc__)
    parser.add_argument("networks", nargs="?", default="minilm,vit,bert")
    parser.add_argument("--seconds", type=float, default=1.0, help="measured time of each call")
    parser.add_argument("--tune", type=float, default=0.0, help="seconds of search for each")
    args = parser.parse_args()
    torch = pytorch()
    target = begin(args.target, args.dry_run, DRY)
    device = device_of(target)
    if args.dry_run:
        args.networks, args.seconds = "tiny", 0.02
    found: list[dict[str, Any]] = []
    print("| network | precision | Tilework, ms | PyTorch, ms | ratio | differences |")
    print("|---|---|---|---|---|---|")
    for name in args.networks.split(","):
        for row in compare(name, target, device, args.seconds, args.tune):
            found.append(row)
            ratio = row["tilework_ms"] / row["pytorch_ms"]
            print(
                f"| {name} | {row['precision']} | {row['tilework_ms']:.4f} "
                f"| {row['pytorch_ms']:.4f} | {ratio:.2f} "
                f"| {' and '.join(f'{d:.1e}' for d in row['differences'])} |",
                flush=True,
            )
    finish(args.json, target, {"rows": found, "torch": torch.__version__})


if __name__ == "__main__":  # worker processes import this file
    main()
