"""Tables, charts and JSON of engines side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _engines import OURS, Result


def print_result(result: Result, peak_gflops: float) -> None:
    """A line of the table."""
    ours = result.ours
    speed = result.flops / ours.median_us * 1e-3
    cells = [
        f"{result.name:28s}", f"{ours.median_us:10.1f}", f"{speed:8.1f}",
        f"{speed / peak_gflops:6.0%}",
    ]  # fmt: skip
    for row in result.rows[1:]:
        cells.append(f"{row.median_us:10.1f} {row.layout:4s} {row.ratio:6.3f}")
    cells.append(",".join(result.schedules) or "no task")
    worst = max((r.max_rel_error or 0.0 for r in result.rows), default=0.0)
    cells.append(f"{worst:.0e}")
    if result.kernel_calls != 1:
        cells.append(f"{result.kernel_calls} calls")
    print("  ".join(cells), flush=True)


def print_head(peers: Sequence[str]) -> None:
    """The head of the table."""
    cells = [f"{'':28s}", f"{OURS + ' us':>10s}", f"{'GFLOP/s':>8s}", f"{'peak':>6s}"]
    cells += [f"{peer + ' us':>15s} {'ratio':>6s}" for peer in peers]
    print("  ".join([*cells, "schedule", "difference"]))


def print_table(results: Sequence[Result], peers: Sequence[str]) -> None:
    """The rows of benchmarks/README.md in ms, and per number of threads a geometric mean."""
    if not peers:
        return
    print("\n| network | threads | schedules | Tilework |", " | ".join(peers), "| ratios |")
    print("|---" * (5 + len(peers)) + "|")
    for r in results:
        times = [f"{row.median_us / 1e3:.3g}" for row in r.rows]
        ratios = ", ".join(f"**{row.ratio:.2f}**" for row in r.rows[1:])
        cells = [r.name, str(r.threads), " and ".join(r.schedules) or "no task", *times, ratios]
        print("|", " | ".join(cells), "|")
    for count in sorted({r.threads for r in results}):
        ratios_ = [r.ratio for r in results if r.threads == count and r.ratio]
        mean = math.exp(sum(map(math.log, ratios_)) / len(ratios_))
        print(f"geomean of the ratios to the better engine, {count} threads: {mean:.3f}")


def write_json(path: Path, machine: dict[str, Any], settings: dict[str, Any], runs: Any) -> None:
    """Everything measured, with the machine's description."""
    document = {"machine": machine, "settings": settings, "runs": runs}
    path.write_text(json.dumps(document, indent=1, default=str))


def as_json(result: Result) -> dict[str, Any]:
    """A result with its ratio to the best peer."""
    return {**asdict(result), "ratio": result.ratio}


def draw(path: Path, title: str, results: Sequence[Result]) -> None:
    """Bars: our time over each engine's, a panel per number of threads. Below 1 we are faster."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = sorted({r.threads for r in results})
    most = max(sum(r.threads == n for r in results) for n in counts)
    size = (5.5 * len(counts) + 2, 1.2 + 0.42 * most)
    figure, axes = plt.subplots(1, len(counts), figsize=size, sharey=True, squeeze=False)
    for axis, count in zip(axes[0], counts, strict=True):
        mine = [r for r in results if r.threads == count]
        peers = [row.engine for row in mine[0].rows[1:]]
        height = 0.8 / max(len(peers), 1)
        for k, peer in enumerate(peers):
            at = [i + (k - (len(peers) - 1) / 2) * height for i in range(len(mine))]
            values = [next(r.ratio for r in m.rows if r.engine == peer) for m in mine]
            bars = axis.barh(at, values, height * 0.92, label=f"against {peer}")
            axis.bar_label(bars, fmt="%.2f", padding=-22, fontsize=7, color="white")
        axis.axvline(1, color="black", linewidth=1)
        axis.set_yticks(range(len(mine)), [m.name for m in mine])
        axis.set_title(f"{count} thread{'s' if count > 1 else ''}", fontsize=10)
        axis.set_xlabel("Tilework's time / the other engine's (shorter is better)")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlim(0, max([1.1, *(r.ratio for m in mine for r in m.rows[1:])]) * 1.12)
    axes[0][0].invert_yaxis()
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=11)
    figure.legend(handles, labels, loc="lower center", ncols=max(len(labels), 1), frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=130)
    plt.close(figure)
