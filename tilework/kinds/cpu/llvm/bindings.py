"""What the names of a loop program stand for in the function that is being written."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter

from tilework.frozen import frozen
from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.kinds.cpu.llvm.lanes import Lane
from tilework.lower.ir import Buffer
from tilework.te.expr import Axis


@frozen
class Dynamic:
    """A loop variable held in a 64-bit SSA value, available from ``depth`` inwards."""

    ssa: str
    depth: int


Binding = int | Dynamic | Lane
"""A loop variable's value: known now, computed by the code, or different in each lane."""
Terms = tuple[tuple[str, Extent, int], ...]
"""Dynamic terms of an index: SSA value, coefficient, loop depth."""
_Parts = tuple[Form[Axis], Terms, list[tuple[Axis, Extent]]]
"""A form, its terms that the code computes, which many points share, and its other ones."""
_BY_DEPTH = itemgetter(2, 0)


@dataclass
class Bindings:
    """Loop variables and buffers at the current point of the program.

    Attributes:
        loops: values of loop variables; they are changed by `bind`.
        vector: the variable of the vector loop that the point is in; None outside.
        base: pointers to the buffers.
        written: buffers that the region stores to.
    """

    loops: dict[Axis, Binding] = field(default_factory=dict)
    vector: Axis | None = None
    base: dict[Buffer, str] = field(default_factory=dict)
    written: frozenset[Buffer] = frozenset()
    _parts: dict[int, _Parts] = field(default_factory=dict)

    def bind(self, axis: Axis, to: Binding) -> None:
        """From now on a loop variable stands for something else."""
        if isinstance(to, Dynamic) or isinstance(self.loops.get(axis), Dynamic):
            self._parts.clear()
        self.loops[axis] = to

    def lane(self) -> Lane | None:
        """The lanes of the vector loop that the point is in; None for a single element."""
        bound = self.loops.get(self.vector) if self.vector is not None else None
        return bound if isinstance(bound, Lane) else None

    def split(self, form: Form[Axis]) -> tuple[Extent, Terms, Extent, Lane | None]:
        """A linear form here: constant, dynamic terms, the vector variable's coefficient, lanes.

        Terms are ordered by the depth of the loop that they come from.
        """
        parts = self._parts.get(id(form))
        if parts is None:
            parts = self._parts[id(form)] = self._of(form)
        const, lane = form.const, None
        lane_c: Extent = 0
        _, dynamic, others = parts
        loops = self.loops
        for axis, c in others:
            bound = loops[axis]
            if type(bound) is int:
                const += c * bound
            elif type(bound) is Lane:
                const += c * bound.offset
                lane_c, lane = c, bound
        return const, dynamic, lane_c, lane

    def _of(self, form: Form[Axis]) -> _Parts:
        dynamic: list[tuple[str, Extent, int]] = []
        others = []
        loops = self.loops
        for term in form.coefficients.items():
            bound = loops[term[0]]
            if isinstance(bound, Dynamic):
                dynamic.append((bound.ssa, term[1], bound.depth))
            else:
                others.append(term)
        if len(dynamic) > 1:
            dynamic.sort(key=_BY_DEPTH)
        return form, tuple(dynamic), others
