"""Rounding errors of Winograd: a layer whose weights do not suit it gets a direct schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tilework.compiler.choose import choose_schedule
from tilework.model.choice import Choice
from tilework.record import History
from tilework.task import SearchTask

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilework.compiler.kernels import Kernels

ERROR_BOUND = 1e-4
"""Largest error of a layer's outputs, relative to its largest output, that a Winograd schedule
may cause."""
_SAMPLE_SHARE = 0.5
"""Share of the bound that the estimate, made on a sample of outputs, may reach."""


class LayerChoice(NamedTuple):
    """The schedule that a layer is compiled with.

    Attributes:
        error: estimated rounding error of the Winograd schedule chosen at first, relative to the
            largest output; None if none was chosen.
        refused: whether that was too much, so that ``choice`` is a direct schedule instead.
    """

    choice: Choice
    error: float | None = None
    refused: bool = False


def within_bound(
    task: SearchTask,
    choice: Choice,
    weights: Mapping[str, NDArray[Any]],
    history: History | None,
    kernels: Kernels,
) -> LayerChoice:
    """The choice, or the best direct schedule if it is Winograd's and its error is too large.

    Args:
        task: what the layer computes.
        choice: the schedule chosen for it.
        weights: the layer's constants by name of the task's input.
        history, kernels: where to look for direct schedules.
    """
    transforms = kernels.transforms(task, choice)
    known = [(t, weights[name]) for name, t in transforms.items() if name in weights]
    if not known:
        return LayerChoice(choice)
    from tilework.space.winograd.error import rounding_error

    error = max(
        rounding_error(t, weight.reshape(t.source).astype("float32", copy=False))
        for t, weight in known
    )
    if error <= _SAMPLE_SHARE * ERROR_BOUND:
        return LayerChoice(choice, error)
    return LayerChoice(
        choose_schedule(task, history, direct=True, kernels=kernels), error, refused=True
    )
