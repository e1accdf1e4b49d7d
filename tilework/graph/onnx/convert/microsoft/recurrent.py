"""``DynamicQuantizeLSTM``: what ONNX Runtime's `quantize_dynamic` makes of an LSTM.

Weights are bytes, with a scale for each direction or for each of its gates' columns. The data of
all steps are quantised at once, and the hidden state anew at each step, by one scale and zero
point for all sequences, as ONNX Runtime does on one thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.graph.onnx.context import Converter, OnnxContext, Result, Unsupported
from tilework.graph.onnx.convert.cells import Cell, Function
from tilework.graph.onnx.convert.quantised import quantised_dynamically
from tilework.graph.onnx.convert.quantised_products import matrix_of_bytes, signed_weights
from tilework.graph.onnx.convert.recurrent import Layer
from tilework.graph.onnx.convert.scales import check_parameters
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, constant
from tilework.overriding import override

_INPUT, _HIDDEN = (1, 8, 9), (2, 10, 11)
"""Inputs: weights, their scales, and their zero points."""


@frozen
class _Bytes:
    """Weights of one direction.

    Attributes:
        numbers, points: int8 and the zero points [K, 4 * H]: see `signed_weights`.
        scales: float32, [] or [4 * H].
    """

    numbers: NDArray[np.int8]
    points: NDArray[np.int64]
    scales: NDArray[np.float32]

    def product(self, x: Value) -> Value:
        """Rows [M, K] times the weights: [M, 4 * H]."""
        data, scale, zero = quantised_dynamically(x)
        sums = matrix_of_bytes(data, zero.cast("int32"), self.numbers, self.points)
        return sums.cast("float32") * (scale * constant(x.c, self.scales))


@frozen(eq=False)
class _QuantisedCell(Cell):
    """A direction whose weights are bytes."""

    bytes: _Bytes

    @override
    def gates(self, h: Value, x: Value, first: int = 0) -> Value:
        return self.bytes.product(h) + x


class _QuantisedLayer(Layer):
    def __init__(self, c: OnnxContext, node: NodeProto) -> None:
        names = [node.input[n] for kind in (_INPUT, _HIDDEN) for n in kind]
        if not all(name in c.constants for name in names):
            raise Unsupported("weights, scales and zero points have to be constants")
        for w, scales, zero in (_INPUT, _HIDDEN):
            check_parameters(c, node.input[scales], node.input[zero], node.input[w])
        super().__init__(c, node, "LSTM")
        self._hidden //= 4  # weights lie the other way round
        for name in (node.input[n] for n in (*_INPUT[1:], *_HIDDEN[1:])):
            self._check_shape(name)
        if self._valid is not None:
            raise Unsupported("sequences of different lengths are quantised in another way")

    def _check_shape(self, name: str) -> None:
        each = (self._directions,)
        if self._c.shape(name) not in (each, (*each, 4 * self._hidden)):
            raise Unsupported(
                f"'{name}' has the shape {self._c.shape(name)}; it holds one number for each "
                "direction, or one for each column of its gates"
            )

    @override
    def _projected(self, d: int) -> Value:
        return self._bytes(_INPUT, d).product(self._x)

    @override
    def _cell(self, d: int, functions: tuple[Function, ...]) -> tuple[Cell, Value | None]:
        cell, bias = super()._cell(d, functions)
        own: dict[str, Any] = {name: getattr(cell, name) for name in Cell.__annotations__}
        return _QuantisedCell(**own, bytes=self._bytes(_HIDDEN, d)), bias

    def _bytes(self, inputs: tuple[int, int, int], d: int) -> _Bytes:
        w, scales, zero = (self._c.constants[self._node.input[n]][d] for n in inputs)
        return _Bytes(*signed_weights(w, zero), scales)


def _lstm(c: OnnxContext, node: NodeProto) -> Result:
    return _QuantisedLayer(c, node).outputs()


CONVERTERS: dict[str, Converter] = {"DynamicQuantizeLSTM": _lstm}
