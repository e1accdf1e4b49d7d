"""Draws ratios to other engines from the first table of benchmarks/README.md.

python docs/pictures/ratios.py        # writes docs/pictures/ratios.png
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "benchmarks" / "README.md"


def rows(text: str) -> list[tuple[str, float, float]]:
    """Networks on two threads, with their ratios to ONNX Runtime and to OpenVINO."""
    section = text.split("## Networks against other engines")[1].split("\n## ")[0]
    section = section.split("\n### ")[0]
    found = []
    for line in section.splitlines():
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[1] == "2" and re.fullmatch(r"\d+\.\d+", cells[6]):
            found.append((cells[0], float(cells[6]), float(cells[7])))
    return found


def main() -> None:
    """Draw the picture."""
    table = rows(TABLE.read_text("utf-8"))
    names = [name.replace("mlp ", "mlp\n") for name, _, _ in table]
    figure, axes = plt.subplots(figsize=(8.6, 0.36 * len(table) + 1.2), dpi=100)
    for shift, column, label, colour in (
        (-0.19, 1, "to ONNX Runtime", "#3b6ea5"),
        (0.19, 2, "to OpenVINO (f32)", "#d08c3a"),
    ):
        values = [row[column] for row in table]
        at = [i + shift for i in range(len(table))]
        bars = axes.barh(at, values, height=0.36, color=colour, label=label)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(table)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12)
    axes.set_xlabel("Tilework's time over the other's: below 1 Tilework is faster")
    axes.set_title("Batch 1, two threads of Zen 4, after a minute or two of search", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.45, -0.085), ncol=2, frameon=False, fontsize=9
    )
    figure.tight_layout()
    figure.savefig(HERE / "ratios.png")


if __name__ == "__main__":
    main()
