"""Products on tensor cores: the draft's best schedules in bf16, f16 and tf32.

    python benchmarks/gpu/tensor_cores.py [--size 4096] [--count 16]

For a square product (the second operand transposed) and a convolution of 32 images: the fastest of
``count`` schedules that the analytic model likes, their share of the peak on paper, how far the
model is off, and, where PyTorch is installed, cuBLAS. Three minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from _common import arguments, begin, finish

import tilework as tw
from tilework import ops, te
from tilework.kinds.cuda.roofline import tensor_flops
from tilework.kinds.cuda.tiling import MMA
from tilework.measure import Candidate
from tilework.model.draft import draft_of
from tilework.space import SearchSpace

DRY = "cuda -model=a100 -run=emulated"
STORED = {"bf16": "bfloat16", "f16": "float16", "tf32": "float32"}


def tasks(size: int, images: int, target: tw.Target) -> Iterator[tuple[str, str, tw.SearchTask]]:
    """Name, precision and task of each measurement."""
    for precision, dtype in STORED.items():
        a, b = te.placeholder((size, size), "a", dtype), te.placeholder((size, size), "b", dtype)
        data = te.placeholder((images, 28, 28, 128), "data", dtype)
        weight = te.placeholder((3, 3, 128, 128), "weight", dtype)
        pads = (1, 1, 1, 1)
        found = {
            f"{size} cubed": ([a, b], ops.matmul(a, b, transpose_b=True)),
            f"3x3, {images}x28x28x128": (
                [data, weight],
                ops.conv(data, weight, (1, 1), pads, layout_free=True),
            ),
        }
        for name, (inputs, out) in found.items():
            out = ops.tf32_products(out) if precision == "tf32" else out
            dag = te.ComputeDAG([*inputs, out])
            yield name, precision, tw.SearchTask(dag, target, f"{name} {precision}")


def choices(task: tw.SearchTask, count: int) -> tuple[list[Candidate], list[float]]:
    """Schedules on tensor cores that the draft likes best, and the seconds that it expects."""
    found: list[tuple[float, int, tuple[int, ...]]] = []
    for sketch in SearchSpace.of(task).sketches:
        if all(b.levels != MMA for b in sketch.blocks):
            continue
        rows = np.unique(sketch.sample(np.random.default_rng(0), 20000), axis=0)
        seconds = draft_of(task.target).seconds(sketch, rows)
        found += [
            (float(seconds[i]), sketch.id, tuple(int(n) for n in rows[i]))
            for i in np.argsort(seconds)[:count]
        ]
    best = sorted(found)[:count]
    return [Candidate(sketch, row, 0.0, "") for _, sketch, row in best], [s for s, _, _ in best]


def cublas(size: int, precision: str) -> float | None:
    """Seconds of PyTorch's product on the device; None where there is no such PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = True
    dtype = getattr(torch, STORED[precision])
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    times = []
    for _ in range(12):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        torch.mm(a, b.T)
        last.record()
        last.synchronize()
        times.append(1e-3 * first.elapsed_time(last))
    return float(sorted(times[2:])[5])


def main() -> None:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--count", type=int, default=16)
    args = parser.parse_args()
    target: Any = begin(args.target, args.dry_run, DRY)
    size, images, count = (64, 1, 2) if args.dry_run else (args.size, 32, args.count)
    print("| product | precision | TFLOP/s | of the peak | draft | cuBLAS |")
    print("|---|---|---|---|---|---|")
    found: dict[str, dict[str, Any]] = {}
    with tw.Measurer(target) as measurer:
        for name, precision, task in tasks(size, images, target):
            candidates, drafted = choices(task, count)
            measured = measurer.measure(task, candidates)
            good = [(m.latency_s, s) for m, s in zip(measured, drafted, strict=True)
                    if m.latency_s is not None]  # fmt: skip
            peer = cublas(size, precision) if "cubed" in name and target.run == "device" else None
            best, draft = min(good, default=(None, None))
            found[task.desc] = {"seconds": best, "draft_s": draft, "cublas_s": peer,
                                "ok": len(good), "of": len(candidates)}  # fmt: skip
            share = task.flops / best / tensor_flops(target, precision) if best else 0.0
            speeds = [f"{1e-12 * task.flops / s:.3g}" if s else "-" for s in (best, draft, peer)]
            print(
                f"| {name} | {precision} | {speeds[0]} | {share:.0%} | {speeds[1]} | {speeds[2]} |"
            )
    finish(args.json, target, {"size": size, "products": found})


if __name__ == "__main__":  # worker processes import this file
    main()
