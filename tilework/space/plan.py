"""What becomes of each stage of a compute DAG in one sketch: a table that rules fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilework.frozen import frozen
from tilework.space.levels import Levels
from tilework.te.tensor import Compute


@frozen
class Root:
    """A nest of its own."""


@frozen
class Inlined:
    """Substituted into its readers."""


@frozen(eq=False)
class At:
    """Computed per tile of its reader's nest, inside the ``depth`` outermost levels of it."""

    reader: Compute
    depth: int


@frozen(eq=False)
class Fused:
    """Computed on the finished register tile of ``anchor``, a reduction with a nest of its own."""

    anchor: Compute


@frozen(eq=False)
class FinishedBy:
    """A reduction that ``stage``, which is computed per tile of another nest, finishes."""

    stage: Compute


Place = Root | Inlined | At | Fused | FinishedBy


@frozen(eq=False)
class StagePlan:
    """What becomes of one stage.

    Attributes:
        place: where it is computed.
        levels: how its nest is tiled; None where it has none.
        sums: where partial sums wait between two visits when the outer reduce level has more than
            one iteration: in the ``output``, or in a thread-local ``tile``.
        write_depth: 0 writes a register tile as soon as it is finished; another depth keeps
            finished ones in a thread-local buffer and writes the whole tile after the loops that
            lie inside so many levels.
    """

    place: Place
    levels: Levels | None = None
    sums: str = "output"
    write_depth: int = 0

    def moved(self, op: Callable[[Any], Any]) -> StagePlan:
        """The plan with other stages: ``op`` says what stands for one."""
        match self.place:
            case At(reader, depth):
                return replace(self, place=At(op(reader), depth))
            case Fused(anchor):
                return replace(self, place=Fused(op(anchor)))
            case FinishedBy(stage):
                return replace(self, place=FinishedBy(op(stage)))
        return self
