"""Recurrent layers (RNN, GRU, LSTM): their steps one after another.

With T steps, a batch of B, G gates and H hidden units, each direction is

    projected = x @ W.T + bias           [T * B, G * H], one product for all steps
    state     = step(rows of projected, state)           T times

All values are matrices of [B, H] or [B, G * H], so that what a step reads lies in the product's
result, what it writes lies in the layer's, and nothing is copied; every step is the same task.
Where there are many, or a run decides how many, a step is the body of a node that repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.ir import Builder
from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.cells import (
    STEPS,
    Cell,
    Function,
    State,
    function_named,
    stepped,
)
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, constant, value
from tilework.index.extents import known
from tilework.index.symbols import Symbolic, range_of

_DEFAULTS = {
    "RNN": ("tanh",),
    "GRU": ("sigmoid", "tanh"),
    "LSTM": ("sigmoid", "tanh", "tanh"),
}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_MANY = 64
"""Steps from which on they are repeated: fewer are as fast, or faster, one after another, and soon
compiled."""

_ALPHA = {
    "affine": 1.0, "elu": 1.0, "hardsigmoid": 0.2, "leakyrelu": 0.01, "scaledtanh": 1.0,
    "thresholdedrelu": 1.0,
}  # fmt: skip
_BETA = {"affine": 0.0, "hardsigmoid": 0.5, "scaledtanh": 1.0}


def _convert(kind: str) -> Converter:
    return lambda c, node: Layer(c, node, kind).outputs()


class Layer:
    """The conversion of one node.

    Raises:
        Unsupported: an activation is not known.
    """

    def __init__(self, c: OnnxContext, node: NodeProto, kind: str) -> None:
        self._c, self._node, self._kind, self._a = c, node, kind, attributes(node)
        self._by_batch = bool(self._a.get("layout", 0))
        x = value(c, node.input[0])
        if self._by_batch:
            x = x.transpose(1, 0, 2)
        self._steps, self._batch, size = x.shape
        self._directions, _, self._hidden = c.sizes(node.input[2])
        self._repeats = isinstance(self._steps, Symbolic) or self._steps >= _MANY
        self._x = x.reshape(self._steps * self._batch, size)
        self._valid = self._mask()

    def outputs(self) -> Result:
        """What the node computes: of each step, then the last states."""
        functions = list(self._functions())
        each = len(functions) // self._directions
        runs = []
        for d in range(self._directions):
            back = self._a.get("direction") == "reverse" or d == 1
            runs.append(self._run(d, tuple(functions[d * each : (d + 1) * each]), back))
        b, directions, hidden = self._batch, self._directions, self._hidden
        along = 1 if self._by_batch else 0
        y = self._masked(self._all_steps([y for y, _ in runs]))
        lasts = [_joined([last[n] for _, last in runs], along) for n in range(len(runs[0][1]))]
        shape = (b, directions, hidden) if self._by_batch else (directions, b, hidden)
        return [y.name, *(s.reshape(*shape).name for s in lasts)]

    def _all_steps(self, runs: Sequence[Sequence[Value]]) -> Value:
        """What all steps of each direction give, as the layer's result."""
        b, steps, directions, hidden = self._batch, self._steps, self._directions, self._hidden
        if self._repeats:  # all of a direction are one value
            each = [y.reshape(steps, b, hidden) for (y,) in runs]
            if self._by_batch:
                each = [y.transpose(1, 0, 2).reshape(b, steps, 1, hidden) for y in each]
                return _joined(each, 2)
            return _joined([y.reshape(steps, 1, b, hidden) for y in each], 1)
        rows = _joined(
            [h for step in zip(*runs, strict=True) for h in step], 1 if self._by_batch else 0
        )
        if self._by_batch:
            return rows.reshape(b, steps, directions, hidden)
        return rows.reshape(steps, directions, b, hidden)

    def _run(
        self, d: int, functions: tuple[Function, ...], back: bool
    ) -> tuple[list[Value], State]:
        """One direction: the hidden state at each step, in order of time, and the last state.

        Where steps are repeated, those of all are one value, [T * B, H].
        """
        cell, bias = self._cell(d, functions)
        projected = self._projected(d)
        if bias is not None:
            projected = projected + bias
        count = 2 if self._kind == "LSTM" else 1
        state: State = tuple(self._initial(5 + n, d) for n in range(count))
        b = self._batch
        if self._repeats:
            return self._repeated(cell, projected, state, back)
        hs: list[Value] = []
        steps = range(known(self._steps))
        for t in reversed(steps) if back else steps:
            goes_on = None if self._valid is None else self._valid.part(0, t * b, b)
            state = stepped(self._kind, cell, projected.part(0, t * b, b), state, goes_on)
            hs.append(state[0])
        return hs[::-1] if back else hs, state

    def _repeated(
        self, cell: Cell, projected: Value, state: State, back: bool
    ) -> tuple[list[Value], State]:
        """The same of steps that are repeated."""
        b, steps = self._batch, self._steps
        scanned = [projected] if self._valid is None else [projected, self._valid]
        others = [v for v in (cell.weights, cell.bias, *cell.peepholes) if v is not None]
        c = OnnxContext(Builder("step"), self._c.opset)
        c.budget = self._c.budget

        def inside(name: str, v: Value, rows: bool = False) -> Value:
            shape = (b, *v.shape[1:]) if rows else v.shape
            return Value(c, c.b.input(name, shape, v.dtype))

        x, *goes_on = [inside(f"x{n}", v, True) for n, v in enumerate(scanned)]
        before = tuple(inside(f"state{n}", v) for n, v in enumerate(state))
        fixed = iter([inside(f"other{n}", v) for n, v in enumerate(others)])
        own = replace(
            cell,
            weights=next(fixed),
            bias=None if cell.bias is None else next(fixed),
            peepholes=tuple(fixed),
        )
        new = stepped(self._kind, own, x, before, goes_on[0] if goes_on else None)
        result = projected.op(
            "loop", *scanned[1:], *state, *others, body=c.b.finish([v.name for v in new]),
            trips=steps, scanned=len(scanned), carried=len(state), backwards=back,
        )  # fmt: skip
        behind = steps * b
        starts = [n * (behind + b) for n in range(len(state))]
        lasts = tuple(result.part(0, s if back else s + behind, b) for s in starts)
        return [result.part(0, 0 if back else b, behind)], lasts

    def _cell(self, d: int, functions: tuple[Function, ...]) -> tuple[Cell, Value | None]:
        """A direction's cell, and the bias of what is projected."""
        width = _GATES[self._kind] * self._hidden
        flag = bool(
            self._a.get({"LSTM": "input_forget"}.get(self._kind, "linear_before_reset"), 0)
        )
        limit = float(self._a.get("clip", 0.0))
        usual = not limit and "activations" not in self._a
        bias = inner = None
        if optional(self._node, 3):
            both = self._of_direction(3, d)
            bias, inner = both.part(0, 0, width), both.part(0, width, width)
            if self._kind == "GRU" and flag:  # the candidate's is reset as well
                first = 2 * self._hidden
                keep = np.arange(width) < first
                bias = bias + inner * keep
                inner = inner * ~keep
            else:
                bias, inner = bias + inner, None
        peepholes: tuple[Value, ...] = ()
        if self._kind == "LSTM" and optional(self._node, 7):
            p = self._of_direction(7, d)
            peepholes = tuple(p.part(0, n * self._hidden, self._hidden) for n in range(3))
        return Cell(
            self._of_direction(2, d), inner, peepholes, functions, limit, flag, usual
        ), bias

    def _projected(self, d: int) -> Value:
        """What all steps of a direction add to their gates, [T * B, G * H], without biases."""
        return self._x.op("dense", self._of_direction(1, d))

    def _of_direction(self, number: int, d: int) -> Value:
        """A direction's part of an input whose first dimension they are."""
        name = self._node.input[number]
        if name in self._c.constants:
            array = self._c.constants[name]
            return Value(self._c, self._c.b.constant(array[d], name))  # a view
        x = value(self._c, name)
        return x.part(0, d, 1).reshape(*x.shape[1:])

    def _initial(self, number: int, d: int) -> Value:
        """The state before the first step: [B, H]."""
        if not optional(self._node, number):
            zero = constant(self._c, np.zeros((1, 1), numpy_dtype(self._x.dtype)))
            return zero.op("expand", shape=(self._batch, self._hidden))
        x = value(self._c, self._node.input[number])
        if self._by_batch:
            x = x.transpose(1, 0, 2)
        return x.part(0, d, 1).reshape(self._batch, self._hidden)

    def _mask(self) -> Value | None:
        """Which steps count, where a batch has sequences of different lengths: [T * B, 1].

        Behind the end of its sequence a state stays as it is. The other way around the end comes
        first, so that the first state stays until then.
        """
        name = optional(self._node, 4)
        if not name:
            return None
        if name in self._c.constants and np.all(
            self._c.constants[name] >= range_of(self._steps)[1]
        ):
            return None
        lengths = value(self._c, name).cast("int32").reshape(1, self._batch)
        times = self._c.op(
            "arange", shape=(self._steps, 1), axis=0, start=0, step=1, dtype=lengths.dtype
        )
        return (Value(self._c, times) < lengths).reshape(self._steps * self._batch, 1)

    def _masked(self, y: Value) -> Value:
        """Results of steps, 0 where there are none."""
        if self._valid is None:
            return y
        valid = self._valid.reshape(self._steps, 1, self._batch, 1)
        if self._by_batch:
            valid = valid.transpose(2, 0, 1, 3)
        return y.where(valid, 0)

    def _functions(self) -> Iterator[Function]:
        """The activations of all directions, one after the other."""
        a = self._a
        names = a.get("activations") or _DEFAULTS[self._kind] * self._directions
        alphas, betas = (iter(a.get(f"activation_{n}", ())) for n in ("alpha", "beta"))
        for name in names:
            name = (name.decode() if isinstance(name, bytes) else name).lower()
            alpha, beta = _ALPHA.get(name), _BETA.get(name)
            yield function_named(
                name,
                None if alpha is None else float(next(alphas, alpha)),
                None if beta is None else float(next(betas, beta)),
            )


def _joined(parts: Sequence[Value], axis: int) -> Value:
    first, *others = parts
    return first.op("concat", *others, axis=axis) if others else first


CONVERTERS: dict[str, Converter] = {kind: _convert(kind) for kind in STEPS}
