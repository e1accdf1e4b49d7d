"""Cells of recurrent layers, written out."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer


def _gates(w: Writer, gates: str, out: str, letters: str) -> list[str]:
    """The gates of a row, one value each."""
    from onnx import helper

    names = [f"{out}_{gates}_{n}" for n in letters]
    w.nodes.append(helper.make_node("Split", [gates], names, name=f"{out}_{gates}", axis=1))
    return names


def _lstm_cell(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    gates, c = inputs
    i, _, f, g = _gates(w, gates, out, "iofg")
    w.add("Sigmoid", [f], f"{f}_open")
    w.add("Sigmoid", [i], f"{i}_open")
    w.add("Tanh", [g], f"{g}_new")
    w.add("Mul", [f"{f}_open", c], f"{out}_kept")
    w.add("Mul", [f"{i}_open", f"{g}_new"], f"{out}_added")
    w.add("Add", [f"{out}_kept", f"{out}_added"], out)


def _lstm_output(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    gates, c = inputs
    _, o, _, _ = _gates(w, gates, out, "iofg")
    w.add("Sigmoid", [o], f"{o}_open")
    w.add("Tanh", [c], f"{out}_cell")
    w.add("Mul", [f"{o}_open", f"{out}_cell"], out)


def _gru_cell(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    x, y, h = inputs
    (zx, rx, nx), (zy, ry, ny) = (
        _gates(w, v, f"{out}{k}", "zrn") for k, v in (("x", x), ("y", y))
    )
    for a, b, name in ((zx, zy, "z"), (rx, ry, "r")):
        w.add("Add", [a, b], f"{out}_{name}_sum")
        w.add("Sigmoid", [f"{out}_{name}_sum"], f"{out}_{name}")
    w.add("Mul", [f"{out}_r", ny], f"{out}_reset")
    w.add("Add", [f"{out}_reset", nx], f"{out}_candidate")
    w.add("Tanh", [f"{out}_candidate"], f"{out}_new")
    w.add("Sub", [h, f"{out}_new"], f"{out}_away")
    w.add("Mul", [f"{out}_z", f"{out}_away"], f"{out}_kept")
    w.add("Add", [f"{out}_new", f"{out}_kept"], out)


WRITERS: dict[str, Write] = {
    "lstm_cell": _lstm_cell,
    "lstm_output": _lstm_output,
    "gru_cell": _gru_cell,
}
