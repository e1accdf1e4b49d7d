"""What the names of a loop program stand for in the function that is being written."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter

from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.kinds.cpu.llvm.lanes import Lane
from tilework.lower.ir import Buffer
from tilework.te.expr import Axis


@dataclass(frozen=True)
class Dynamic:
    """A loop variable held in a 64-bit SSA value, available from ``depth`` inwards."""

    ssa: str
    depth: int


Binding = int | Dynamic | Lane
"""A loop variable's value: known now, computed by the code, or different in each lane."""
Terms = tuple[tuple[str, Extent, int], ...]
"""Dynamic terms of an index: SSA value, coefficient, loop depth."""
_BY_DEPTH = itemgetter(2, 0)


@dataclass
class Bindings:
    """Loop variables and buffers at the current point of the program.

    Attributes:
        loops: values of loop variables.
        vector: the variable of the vector loop that the point is in; None outside.
        base: pointers to the buffers.
        written: buffers that the region stores to.
    """

    loops: dict[Axis, Binding] = field(default_factory=dict)
    vector: Axis | None = None
    base: dict[Buffer, str] = field(default_factory=dict)
    written: frozenset[Buffer] = frozenset()

    def lane(self) -> Lane | None:
        """The lanes of the vector loop that the point is in; None for a single element."""
        bound = self.loops.get(self.vector) if self.vector is not None else None
        return bound if isinstance(bound, Lane) else None

    def split(self, form: Form[Axis]) -> tuple[Extent, Terms, Extent, Lane | None]:
        """A linear form here: constant, dynamic terms, the vector variable's coefficient, lanes.

        Terms are ordered by the depth of the loop that they come from.
        """
        const, lane = form.const, None
        lane_c: Extent = 0
        terms: list[tuple[str, Extent, int]] = []
        loops = self.loops
        for axis, c in form.coefficients.items():
            bound = loops[axis]
            if isinstance(bound, int):
                const += c * bound
            elif isinstance(bound, Dynamic):
                terms.append((bound.ssa, c, bound.depth))
            else:
                const += c * bound.offset
                lane_c, lane = c, bound
        if len(terms) > 1:
            terms.sort(key=_BY_DEPTH)
        return const, tuple(terms), lane_c, lane
