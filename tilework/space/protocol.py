"""What the schedule space asks of a kind of machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework import kinds
from tilework.space.blocks import Block
from tilework.space.decision import Open
from tilework.space.levels import Tiling
from tilework.space.nest import BlockNest, Ints
from tilework.space.nests import Capability
from tilework.space.slabs import Slabs
from tilework.space.state import Rules
from tilework.target import Target
from tilework.te import ComputeDAG


class Space(Protocol):
    """A kind's room ``space``: its rules, and what a row may choose."""

    @property
    def version(self) -> int:
        """Raised whenever a sketch or the meaning of its columns changes.

        Rows of another version are never replayed.
        """

    @property
    def rules(self) -> Rules:
        """The rules that sketches are derived by, in order."""

    @property
    def tiling(self) -> Tiling:
        """How stages are tiled."""

    def capabilities(self, target: Any) -> tuple[Capability, ...]:
        """What is found about each block of a finished sketch, in order."""

    def slabs(self, dag: ComputeDAG, target: Any) -> Slabs | None:
        """How a computation may be cut into slabs as well, if it may; their sketches come last."""
        return None

    def decisions(self, block: Block, target: Any) -> list[Open]:
        """What a row decides about a block, in the order of its columns."""

    def fits(self, block: Block, tiles: Sequence[Ints], target: Any) -> NDArray[np.bool_]:
        """Which innermost tiles of the block's spatial axes any valid row has: by default all.

        No row with others is drawn. ``tiles`` holds an array for each axis, in order.
        """
        return np.ones(len(tiles[0]), bool)

    def valid(self, nest: BlockNest, target: Any) -> NDArray[np.bool_]:
        """Which rows are programs within the target's limits."""

    def steady(self, block: Block, target: Any) -> int:
        """Up to how many loops a row may fuse of which `valid` says the same wherever it is.

        Of rows of the block's tables, looked at at any point; -1 where it does so of no row. By
        default that is not known: it is asked everywhere.
        """
        return -1

    def canonical(self, nest: BlockNest, target: Any) -> dict[str, Ints]:
        """Columns, by the kind of their decision, without what has no effect on the program.

        No effect that a search could be after: the code may differ in how it counts a loop.
        """

    def notes(self, nest: BlockNest) -> list[str]:
        """What one row decides beside tiles and loops, in words, a line each."""
        return []


def space_of(target: Target) -> Space:
    """The room ``space`` of a target's kind."""
    room: Space = kinds.room(target.kind, "space")
    return room
