"""Weights of products of bytes: what fits a byte with a sign, and what is left of them.

A quantiser spreads the range of weights over 256 numbers: less their zero point they go from -120
to 135, say, and all but very few fit a byte with a sign::

    sum over k of x[k] * w[k, f]  =  sum over k of x[k] * int8(w[k, f])  +  x[5] * more[f]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.graph.passes._quantised import FLIP, QuantisedConstant

_BOUNDS = np.iinfo(np.int8)
_PRODUCT, _ADDITION, _INPUT, _SUM = 32, 10, 18, 800
"""What an output, an input, and a sum take, as measured with registers of 64 bytes."""


@frozen(eq=False)
class SignedWeights:
    """Weights less their zero points, but for ``zeros``: ``numbers``, and what these lack.

    Attributes:
        numbers: int8; int16 of groups of channels whose weights do not fit.
        along: the dimension that inputs are.
        more: what ``numbers`` lack, by input.
        zeros: the zero point that each output channel still has.
    """

    numbers: NDArray[Any]
    along: int
    more: dict[int, NDArray[np.int64]]
    zeros: NDArray[np.int64]

    @staticmethod
    def grouped(w: QuantisedConstant, zeros: NDArray[np.int64]) -> SignedWeights:
        """Weights of several groups: sums of windows would be as much work as their product."""
        whole = w.numbers - w.zeros
        dtype = np.int8 if np.abs(whole).max() < FLIP else np.int16
        return SignedWeights(whole.astype(dtype), 1, {}, np.zeros_like(zeros))

    @staticmethod
    def of(w: QuantisedConstant, zeros: NDArray[np.int64], along: int, most: int) -> SignedWeights:
        """Weights of one group, with no zero points if they fit but for ``most`` inputs.

        Args:
            w: the weights.
            zeros: their zero points, by output channel.
            along: the dimension that inputs are.
            most: inputs of which some may not fit.
        """
        whole = w.numbers - w.zeros
        fits = np.clip(whole, _BOUNDS.min, _BOUNDS.max)
        lacks = np.moveaxis(whole - fits, along, 0)
        more = {int(k): lacks[k] for k in np.flatnonzero(lacks.reshape(len(lacks), -1).any(1))}
        if len(more) <= most and np.abs(lacks).max(initial=0) < FLIP:
            return SignedWeights(fits.astype(np.int8), along, more, np.zeros_like(zeros))
        by = FLIP if w.dtype == "uint8" else 0
        return SignedWeights((w.numbers - by).astype(np.int8), along, {}, zeros - by)

    @property
    def whole(self) -> NDArray[np.int64]:
        """Numbers with all that they lack."""
        whole = np.moveaxis(self.numbers.astype(np.int64), self.along, 0)
        for k, lacks in self.more.items():
            whole[k] += lacks
        return np.moveaxis(whole, 0, self.along)

    def filled(self, room: int) -> tuple[SignedWeights, tuple[int, ...]]:
        """The same of ``room`` inputs more, and those that are given once more there.

        Numbers of these are what the others lack, where there is room for all of it.
        """
        again = tuple(self.more) if len(self.more) <= room else ()
        rows = np.moveaxis(self.numbers, self.along, 0)
        behind = np.zeros((room, *rows.shape[1:]), rows.dtype)
        for at, k in enumerate(again):
            behind[at] = self.more[k]
        numbers = np.moveaxis(np.concatenate([rows, behind]), 0, self.along)
        more = {} if again else self.more
        return SignedWeights(numbers, self.along, more, self.zeros), again


def few_inputs(inputs: int, outputs: int) -> int:
    """Inputs that are better multiplied once more than all of them summed.

    Each point takes a product and an addition for each output, and a broadcast, beside a sum of
    all inputs and an addition for each output.
    """
    return (_INPUT * inputs + _SUM + _ADDITION * outputs) // (_PRODUCT * outputs)
