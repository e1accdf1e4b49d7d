"""Cells of recurrent layers, behind their products: the usual ones, with sigmoid and tanh.

With a batch of B and H hidden units, gates stand beside each other in rows of [B, G * H].
"""

from __future__ import annotations

from collections.abc import Callable

from tilework import te
from tilework.ops.storage import computed


def _of_units(
    state: te.Tensor, value: Callable[[te.Expr, te.Expr], te.Expr], name: str
) -> te.Tensor:
    return te.compute(state.shape, value, name=name, axis_names=("b", "j"))


def _gate(x: te.Tensor, n: int, state: te.Tensor) -> Callable[[te.Expr, te.Expr], te.Expr]:
    """The n-th gate of a unit, before its activation."""
    return lambda b, j: computed(x[b, j + n * state.shape[1]])


def lstm_cell(gates: te.Tensor, c: te.Tensor) -> te.Tensor:
    """``sigmoid(f) * c + sigmoid(i) * tanh(g)`` of gates i, o, f and g."""
    i, f, g = (_gate(gates, n, c) for n in (0, 2, 3))
    return _of_units(
        c,
        lambda b, j: (
            te.sigmoid(f(b, j)) * computed(c[b, j]) + te.sigmoid(i(b, j)) * te.tanh(g(b, j))
        ),
        "lstm_cell",
    )


def lstm_output(gates: te.Tensor, c: te.Tensor) -> te.Tensor:
    """``sigmoid(o) * tanh(c)`` of gates i, o, f and g, and the new state of the cell."""
    o = _gate(gates, 1, c)
    return _of_units(
        c, lambda b, j: te.sigmoid(o(b, j)) * te.tanh(computed(c[b, j])), "lstm_output"
    )


def gru_cell(x: te.Tensor, y: te.Tensor, h: te.Tensor) -> te.Tensor:
    """``n + sigmoid(zx + zy) * (h - n)``, where ``n = tanh(sigmoid(rx + ry) * ny + nx)``.

    Args:
        x: of the step's input, z, r and n.
        y: the same of the hidden state.
        h: the hidden state.
    """
    (zx, rx, nx), (zy, ry, ny) = ([_gate(a, n, h) for n in range(3)] for a in (x, y))

    def value(b: te.Expr, j: te.Expr) -> te.Expr:
        new = te.tanh(te.sigmoid(rx(b, j) + ry(b, j)) * ny(b, j) + nx(b, j))
        return new + te.sigmoid(zx(b, j) + zy(b, j)) * (computed(h[b, j]) - new)

    return _of_units(h, value, "gru_cell")
