"""Decisions: what a sketch leaves open, and which columns of a row close it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.space.blocks import Attached
from tilework.te.expr import Axis

Rows = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Open:
    """A decision of one block before it has columns: a row takes one row of ``choices``.

    Attributes:
        name: what it decides, unique in its block.
        choices: N x C, one choice a row, C columns each.
        kind: ``tile``, or the name under which `BlockNest.values` holds it (``parallel``, ...).
        axis: whose inner factors it chooses, outermost first; None for anything else.
        attached: whose register tile it cuts; None for anything else.
    """

    name: str
    choices: Rows
    kind: str
    axis: Axis | None = None
    attached: Attached | None = None


@dataclass(frozen=True, eq=False)
class Decision:
    """One open decision: ``columns`` of the row take together one row of ``choices``.

    ``key`` is equal for the same decision in different sketches of a task; the others are those of
    `Open`.
    """

    name: str
    columns: tuple[int, ...]
    choices: Rows
    kind: str
    key: str = ""
    axis: Axis | None = None
    attached: Attached | None = None
