"""What the search asks of a kind of machine: features of programs, and a first guess of time."""

from __future__ import annotations

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

    def least(self, sketch: Any, closely: bool = False, alone: bool = False) -> float:
        """Seconds that no valid row takes less than; 0 where nothing is known of that.

        Args:
            closely: not by the work alone: also by what of it cannot be done at full speed.
            alone: of those rows that have no loop in parallel.
        """
        return 0.0

    def lengths(self, sketch: Any, rows: Any) -> NDArray[np.float64]:
        """About how many instructions the code of P rows has; all 0 where that tells nothing."""
        return np.zeros(len(rows))

    def machine(self, target: Target) -> dict[str, float]:
        """What describes a target's machine to a learned model: positive numbers.

        Their names are the same for every target of the kind; ``flops_per_s`` is the peak of
        float32, where it is known.
        """


def draft_of(target: Target) -> Draft:
    """The room ``draft`` of a target's kind."""
    draft: Draft = kinds.room(target.kind, "draft")
    return draft
