"""torch.compile with this backend, beside eager PyTorch and Inductor, timed in turns.

    python benchmarks/torch_compile.py [--threads 1] [--models resnet-18 unet] [--rounds 7]
                                       [--store records] [--no-inductor] [--json FILE]

Each model runs at batch 1 under `torch.no_grad`. Results are compared with eager before anything
is timed. A round times each of the three for a while; the ratio of a model is the median over the
rounds of ratios within a round, the last line their geometric means. Inductor freezes parameters
too (`torch._inductor.config.freezing`).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _torch_models import MODELS, example, model

from flows.torch_backend import tilework


def main() -> None:
    """Compile, compare, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one turn")
    parser.add_argument("--store", help="a store whose records are used, too")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch._inductor.config.freezing = True
    rows = []
    with torch.no_grad():
        for name in args.models:
            rows.append(_row(name, args))
            print(_text(rows[-1]), flush=True)
            torch._dynamo.reset()
    for peer in ("eager", "inductor"):
        ratios = [r["ratios"][peer] for r in rows if peer in r["ratios"]]
        if ratios:
            print(f"ours over {peer}: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


def _row(name: str, args: argparse.Namespace) -> dict[str, Any]:
    net, x = model(name), example(name)
    options = {"store": args.store} if args.store else {}
    runs: dict[str, Callable[[Any], Any]] = {
        "eager": net,
        "ours": torch.compile(net, backend=tilework, options=options),
    }
    if not args.no_inductor:
        runs["inductor"] = torch.compile(net)
    want = net(x)
    compile_s, error = {}, {}
    for peer, run in runs.items():
        begun = time.perf_counter()
        found = run(x)
        compile_s[peer] = time.perf_counter() - begun
        error[peer] = _error(found, want)
    if error["ours"] > 1e-3:
        raise SystemExit(f"{name}: wrong by {error['ours']:.1e} of the largest element")
    times: dict[str, list[float]] = {peer: [] for peer in runs}
    for _ in range(args.rounds):
        for peer, run in runs.items():
            times[peer].append(_time(lambda run=run: run(x), args.seconds))
    ratios = {
        peer: statistics.median(o / t for o, t in zip(times["ours"], times[peer], strict=True))
        for peer in runs
        if peer != "ours"
    }
    ms = {peer: 1e3 * statistics.median(t) for peer, t in times.items()}
    return {
        "model": name, "threads": args.threads, "ms": ms, "ratios": ratios,
        "compile_s": compile_s, "error": error["ours"],
    }  # fmt: skip


def _time(run: Callable[[], Any], seconds: float) -> float:
    """The median time of a call, in seconds, over calls that last about so long together."""
    run()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 3:
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _error(found: Any, want: Any) -> float:
    """The largest difference over the largest element, of all results."""
    a, b = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (found, want))
    return max(((p - q).abs().max() / q.abs().max()).item() for p, q in zip(a, b, strict=True))


def _text(row: dict[str, Any]) -> str:
    ms = "  ".join(f"{peer} {t:9.3f} ms" for peer, t in row["ms"].items())
    ratios = "  ".join(f"/{peer} {r:.2f}" for peer, r in row["ratios"].items())
    seconds = "  ".join(f"{p} {s:.1f} s" for p, s in row["compile_s"].items() if p != "eager")
    return f"{row['model']:16s} {ms}  {ratios}  first call: {seconds}  error {row['error']:.0e}"


if __name__ == "__main__":
    main()
