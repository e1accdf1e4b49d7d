"""What features and draft scores of GPU schedules cost, for each row: no GPU is needed.

    python benchmarks/cuda_features.py [--target "cuda -model=a100"] [--rows 4096] [--json FILE]

CPU time of features and draft together, microseconds a row, for every form of kernel that tasks of
the zoo and a sparse product have; medians of several populations. A row of a sketch with several
kernels counts once for each of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

import tilework as tw
from tilework.kinds.cuda.draft import CudaDraft
from tilework.kinds.cuda.tiling import form_of
from tilework.space import SearchSpace
from tilework.space.sketch import Sketch

NETWORKS = ("resnet-18", "mobilenet")
AIM = 10.0


def seconds_of(sketch: Sketch, count: int, repeat: int) -> list[float]:
    """CPU seconds of features and scores of each of several populations."""
    rng, draft, found = np.random.default_rng(0), CudaDraft(), []
    for _ in range(repeat):
        rows = sketch.sample(rng, count)
        begin = time.process_time()
        draft.seconds(sketch, rows)
        draft.features(sketch, rows)
        found.append((time.process_time() - begin) / len(rows))
    return found


def main() -> None:
    """Measure, print a table, and keep the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda -model=a100")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    target = tw.Target(args.target)
    by_forms: dict[str, list[float]] = {}
    for network in NETWORKS:
        for task in tw.extract_tasks(tw.zoo.get(network, batch=1), target)[0][::3]:
            for sketch in SearchSpace.of(task).sketches:
                forms = " + ".join(form_of(b) for b in sketch.blocks)
                own = by_forms.setdefault(forms, [])
                if len(own) < 4 * args.repeat:
                    times = seconds_of(sketch, args.rows, args.repeat)
                    own += [1e6 * t / len(sketch.blocks) for t in times]
    print(f"{'forms of kernels':40} {'us a row and kernel':>20}")
    for forms, times in sorted(by_forms.items()):
        print(f"{forms:40} {statistics.median(times):20.1f}")
    median = statistics.median(t for times in by_forms.values() for t in times)
    print(f"{'all':40} {median:20.1f}   aim: {AIM:.0f}")
    if args.json:
        args.json.write_text(json.dumps({"median_us": median, "by_forms": by_forms}, indent=1))


if __name__ == "__main__":
    main()
