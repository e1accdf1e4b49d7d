"""Cells of recurrent layers: what a step makes of the states, written with other operators."""

from __future__ import annotations

from collections.abc import Callable

from tilework.frozen import frozen
from tilework.graph.onnx.context import Unsupported
from tilework.graph.onnx.values import Value
from tilework.index.extents import known

Function = Callable[[Value], Value]
State = tuple[Value, ...]
"""The hidden state, and the cell state of an LSTM: [B, H] each."""
_OPERATORS = {
    "elu": "elu", "hardsigmoid": "hard_sigmoid", "leakyrelu": "leaky_relu", "relu": "relu",
    "sigmoid": "sigmoid", "softplus": "softplus", "softsign": "softsign", "tanh": "tanh",
    "thresholdedrelu": "thresholded_relu",
}  # fmt: skip


@frozen(eq=False)
class Cell:
    """One direction of a layer.

    Attributes:
        weights: of the hidden state, [G * H, H].
        bias: of the hidden state, [G * H], where it is not part of what is projected.
        peepholes: of an LSTM: [H] for the gates i, o and f.
        functions: activations.
        limit: of what gates and candidates are before their activation, on both sides; 0: none.
        flag: of an LSTM, whether i and f are coupled; of a GRU, whether the hidden state is
            multiplied before it is reset.
        usual: whether activations are those of the standard, and nothing is limited.
    """

    weights: Value
    bias: Value | None
    peepholes: tuple[Value, ...]
    functions: tuple[Function, ...]
    limit: float
    flag: bool
    usual: bool

    def limited(self, x: Value) -> Value:
        """A gate or candidate before its activation."""
        return x.op("clip", low=-self.limit, high=self.limit) if self.limit else x

    def gates(self, h: Value, x: Value, first: int = 0) -> Value:
        """Some gates before their activation, by the columns of ``x``, those from ``first`` on."""
        weights = self.weights.part(0, first, x.shape[1])
        return h.op("dense", weights) + x


def _columns(x: Value, count: int) -> list[Value]:
    width = known(x.shape[1]) // count
    return [x.part(1, n * width, width) for n in range(count)]


def _rnn(cell: Cell, x: Value, state: State) -> State:
    return (cell.functions[0](cell.limited(cell.gates(state[0], x))),)


def _gru(cell: Cell, x: Value, state: State) -> State:
    """Gates z and r, and the candidate: the new state is between it and the old one."""
    (h,), (f, g) = state, cell.functions
    hidden = known(h.shape[1])
    if cell.flag:
        y = h.op("dense", cell.weights)
        if cell.bias is not None:
            y = y + cell.bias
        if cell.usual:
            return (x.op("gru_cell", y, h),)
        z, r, candidate = _columns(y, 3)
        xz, xr, xh = _columns(x, 3)
        z, reset = f(cell.limited(z + xz)), f(cell.limited(r + xr))
        new = g(cell.limited(reset * candidate + xh))
    else:
        z, reset = _columns(f(cell.limited(cell.gates(h, x.part(1, 0, 2 * hidden)))), 2)
        last = cell.gates(reset * h, x.part(1, 2 * hidden, hidden), 2 * hidden)
        new = g(cell.limited(last))
    return (new + z * (h - new),)


def _lstm(cell: Cell, x: Value, state: State) -> State:
    """Gates i, o and f, and the candidate that i lets into the cell."""
    (h, c), (f, g, last) = state, cell.functions
    gates = cell.gates(h, x)
    if cell.usual and not cell.peepholes and not cell.flag:
        c = gates.op("lstm_cell", c)
        return gates.op("lstm_output", c), c
    i, o, forget, candidate = _columns(gates, 4)
    if cell.peepholes:
        i, forget = i + c * cell.peepholes[0], forget + c * cell.peepholes[2]
    i = f(cell.limited(i))
    kept = 1 - i if cell.flag else f(cell.limited(forget))
    c = kept * c + i * g(cell.limited(candidate))
    if cell.peepholes:
        o = o + c * cell.peepholes[1]
    return f(cell.limited(o)) * last(c), c


STEPS: dict[str, Callable[[Cell, Value, State], State]] = {
    "RNN": _rnn,
    "GRU": _gru,
    "LSTM": _lstm,
}


def stepped(
    kind: str,
    cell: Cell,
    x: Value,
    state: State,
    goes_on: Value | None,
) -> State:
    """The states behind a step, which sequences that have ended leave as they are."""
    new = STEPS[kind](cell, x, state)
    if goes_on is None:
        return new
    return tuple(n.where(goes_on, s) for n, s in zip(new, state, strict=True))


def function_named(name: str, alpha: float | None, beta: float | None) -> Function:
    """An activation by its name in ONNX, in small letters.

    Args:
        name: of the function.
        alpha: its first parameter; None if it has none.
        beta: its second one, likewise.
    """
    attrs = {k: v for k, v in (("alpha", alpha), ("beta", beta)) if v is not None}
    if name not in (*_OPERATORS, "affine", "scaledtanh"):
        raise Unsupported(f"the activation {name} is not known")

    def apply(x: Value) -> Value:
        if name == "affine":
            return x * attrs["alpha"] + attrs["beta"]
        if name == "scaledtanh":
            return (x * attrs["beta"]).op("tanh") * attrs["alpha"]
        return x.op(_OPERATORS[name], **attrs)

    return apply
