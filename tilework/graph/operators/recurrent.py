"""Cells of recurrent layers, each one node however many steps there are.

lstm_cell(gates[B, 4H], c[B, H])             lstm_output(gates[B, 4H], c[B, H])
gru_cell(x[B, 3H], y[B, 3H], h[B, H])        see `tilework.ops.recurrent`
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilework.graph.operators.base import (
    FLOATS,
    Attrs,
    Operator,
    Pattern,
    Shape,
    declared,
    shaped,
)
from tilework.ops import recurrent


def _cell(gates: int, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    *given, state = shapes
    if len(state) != 2 or any(tuple(s) != (state[0], gates * state[1]) for s in given):
        raise ValueError(
            f"a state of {list(state)} has {gates} gates in each row, not {[*map(list, given)]}"
        )
    return state


OPERATORS = tuple(
    Operator(name, shaped(partial(_cell, gates), FLOATS), declared(function), Pattern.INJECTIVE)
    for name, gates, function in (
        ("lstm_cell", 4, recurrent.lstm_cell),
        ("lstm_output", 4, recurrent.lstm_output),
        ("gru_cell", 3, recurrent.gru_cell),
    )
)
