"""What is searched, how long, and with what a search begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilework.search import TuningOptions
    from tilework.task import SearchTask

CHAMPION, NONE = "champion", "none"
"""What a user may ask for in place of a model's name."""


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """What is searched, and how long.

    Attributes:
        tasks: all of one target.
        weights: what each counts, for instance its calls in a network.
        options: budgets, and the effort of a proposal.
        run_id: the same id finds its finished rounds again.
        seed: of every random choice.
        label: the network's name in the records; or one for each task.
        extend: spend the budget on top of what the run has spent before; see `tasks.goals`.
        reproduce: command line that measures a record again, for messages.
        model: what the search begins with: "champion", "none", or a model's name; see
            `tasks.starts`.
        packages: whether what installed and shipped packages hold is tried, too.
    """

    tasks: Sequence[SearchTask]
    weights: Sequence[float]
    options: TuningOptions
    run_id: str
    seed: int = 0
    label: str | Sequence[str] = ""
    extend: bool = False
    reproduce: str = ""
    model: str = CHAMPION
    packages: bool = True
