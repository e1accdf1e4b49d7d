"""What the search asks of a kind of machine: features of programs, and a first guess of time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework import kinds
from tilework.target import Target


class Draft(Protocol):
    """A kind's room ``draft``: the analytic model of its machines. No candidate is lowered."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the F feature columns, the same for every sketch."""

    def features(self, sketch: Any, rows: Any) -> NDArray[np.float32]:
        """Features of P rows: P x S x F, for the S blocks of the sketch."""

    def seconds(self, sketch: Any, rows: Any) -> NDArray[np.float64]:
        """Predicted run time of P rows, in seconds."""

    def block_seconds(self, sketch: Any, rows: Any) -> NDArray[np.float64]:
        """The same of each of the S blocks, P x S: all together they are `seconds`."""

    def machine(self, target: Target) -> dict[str, float]:
        """What describes a target's machine to a learned model: positive numbers.

        Their names are the same for every target of the kind; ``flops_per_s`` is the peak of
        float32, where it is known.
        """

    @property
    def parameters(self) -> tuple[str, ...]:
        """Numbers of a machine that may be fitted to measurements, by name."""

    def adjusted(self, factors: Mapping[str, float]) -> Draft:
        """The draft of a machine whose parameters are so many times the present ones.

        Without a factor it is equal to this one.

        Raises:
            ValueError: a name that is no parameter, or a factor that is not a positive number.
        """


def draft_of(target: Target) -> Draft:
    """The room ``draft`` of a target's kind."""
    found: Draft = kinds.room(target.kind, "draft")
    return found


def multiplied(
    parameters: tuple[str, ...],
    present: tuple[tuple[str, float], ...],
    factors: Mapping[str, float],
) -> tuple[tuple[str, float], ...]:
    """What an adjusted draft keeps: by parameter, the product of its factors where it is not 1.

    Raises:
        ValueError: a name that is no parameter, or a factor that is not a positive number.
    """
    known = dict(present)
    for name, factor in factors.items():
        if name not in parameters:
            raise ValueError(f"the draft has no parameter '{name}', only {', '.join(parameters)}")
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"the factor of '{name}' is {factor}: it must be a positive number")
        known[name] = known.get(name, 1.0) * float(factor)
    return tuple((n, known[n]) for n in parameters if known.get(n, 1.0) != 1.0)
