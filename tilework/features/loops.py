"""Loop nests as the store features see them: statements inside loops, for P candidates at once.

The structure (which loops, in which order, around which statement) is fixed; extents and kinds of
loops are arrays of length P. A loop of extent 1 does not exist for that candidate. Loops that
enclose several statements are one object in each of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop.

    Attributes:
        axis: what its variable, times the extents of the loops of the same axis inside it, adds
            up to: indices are written in axes.
        extent: iterations, length P.
        reduce: whether the axis is reduced.
        parallel, vector, unrolled: candidates for which it is of that kind; None for no one.
    """

    axis: Hashable
    extent: Floats
    reduce: bool = False
    parallel: Mask | None = None
    vector: Mask | None = None
    unrolled: Mask | None = None


@dataclass(frozen=True)
class Index:
    """One dimension of an access: ``low + sum(coefficients[axis] * axis)``.

    Attributes:
        coefficients: by axis; None where the index is not linear in the axes.
        low: smallest constant term, where a buffer is read at several positions.
        spread: largest constant term less the smallest.
        others: axes that a nonlinear index depends on.
    """

    coefficients: dict[Hashable, float] | None
    low: float = 0.0
    spread: float = 0.0
    others: frozenset[Hashable] = frozenset()


@dataclass(frozen=True, eq=False)
class BufferAccess:
    """What one statement does with one buffer.

    Attributes:
        buffer: identity.
        kind: ``"read"``, ``"write"`` or ``"update"`` (both).
        indices: one per dimension.
        shape: extents of the buffer.
        element_bytes: size of an element.
    """

    buffer: Hashable
    kind: str
    indices: tuple[Index, ...]
    shape: tuple[int, ...]
    element_bytes: int

    def depends_on(self, axis: Hashable) -> bool:
        """Whether an index changes with the axis."""
        return any(
            axis in (i.others if i.coefficients is None else i.coefficients) for i in self.indices
        )


@dataclass(frozen=True, eq=False)
class Statement:
    """A store inside its loops.

    Attributes:
        loops: outermost first.
        accesses: the stored buffer first, then what is read, one entry per buffer.
        ops: operations of one execution by kind (`tilework.features.stores.OPS`).
        limits: extents of axes; loops of ragged tiles together cover no more.
        unroll: most operations that an expanded body may hold, length P.
        alloc: bytes of the stored buffer if it is allocated inside the nest, length P, and the
            position among ``loops`` at which it is: the loops before it are outside.
    """

    loops: tuple[Loop, ...]
    accesses: tuple[BufferAccess, ...]
    ops: dict[str, float]
    limits: dict[Hashable, float] = field(default_factory=dict)
    unroll: Floats | None = None
    alloc: tuple[Floats, int] | None = None

    @property
    def stored(self) -> BufferAccess:
        """The access to the buffer that is stored to."""
        return self.accesses[0]
