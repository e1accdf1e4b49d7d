"""The stores of a scheduled sketch: their loops and accesses, for any number of rows at once.

A store has a stack of loops, outermost first. A loop that several stores share is one object. Its
extent, like every number that depends on the row, is an array of length P; where a row makes it 1
the loop does not exist. What the engine does with a nest is restated as the original's lowered
program would show it: the tile of a stage with a later consumer is a buffer of its own, which its
consumer reads after the loops that both share; a producer placed inside a nest fills its region
first. Initial stores of reductions are left out: they carry no operations, and their row is that
of the update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ansor.operations import Operations, operations_of
from tilework.dtypes import dtype_bytes
from tilework.space.blocks import Attached
from tilework.space.nest import BlockNest
from tilework.space.regions import attached_extents, attached_read
from tilework.space.sketch import Sketch
from tilework.te.affine import linear
from tilework.te.expr import Axis, Binary, Const, Expr, Read, reads
from tilework.te.tensor import Operation

Floats = NDArray[np.float64]
Index = Mapping[Axis, float] | None
"""Coefficients of axes in one index; None where it is not linear."""


@dataclass(frozen=True, eq=False)
class Part:
    """What a loop iterates of one axis: ``extent`` points, ``step`` points of the axis apart."""

    extent: Floats
    step: Floats


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop, ``kind`` being serial, parallel, vector or unroll; fused ones have many parts."""

    kind: str
    parts: Mapping[Axis, Part]

    @cached_property
    def extent(self) -> Floats:
        """Iterations."""
        total = np.ones(1)
        for part in self.parts.values():
            total = total * part.extent
        return total

    def occurs(self, axes: Iterable[Axis]) -> NDArray[np.bool_]:
        """Whether indices in these axes depend on the loop."""
        found = np.zeros(len(self.extent), bool)
        for axis in axes:
            if axis in self.parts:
                found |= self.parts[axis].extent > 1
        return found


@dataclass(frozen=True, eq=False)
class Access:
    """A buffer that a store touches.

    Attributes:
        buffer: its identity.
        kind: ``read``, ``write``, or ``both``.
        shape, element_bytes: of the whole tensor.
        dims: coefficients of each index, outermost dimension first.
        spread: by how much constants of several reads of the buffer differ, per dimension.
    """

    buffer: tuple[Operation, str]
    kind: str
    shape: tuple[int, ...]
    element_bytes: int
    dims: tuple[Index, ...]
    spread: tuple[float, ...]

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """Axes that some index depends on."""
        return frozenset(a for d in self.dims for a in d or {})


@dataclass(frozen=True, eq=False)
class Store:
    """A statement that stores to one buffer.

    Attributes:
        loops: outermost first.
        accesses: the stored buffer, then those that are read.
        operations: of one execution.
        unroll: the limit of expansion that stands over the nest.
        allocated: elements of the stored buffer where it is allocated, and the iterations of the
            loops around that; None for an output of the program.
    """

    loops: tuple[Loop, ...]
    accesses: tuple[Access, ...]
    operations: Operations
    unroll: Floats
    allocated: tuple[Floats, Floats] | None = None


@dataclass(frozen=True, eq=False)
class _Positions:
    """How axes of a nested stage follow from those of the nest around it."""

    of: Mapping[Axis, Index] = field(default_factory=dict)

    def index(self, expression: Expr) -> tuple[Index, float]:
        """Coefficients of the loops' axes in an index, and its constant."""
        divisor = 1.0
        match expression:
            case Binary(op="//", a=inner, b=Const(value=value)):
                divisor, expression = float(value), inner
        form = linear(expression)
        if form is None:
            return None, 0.0
        return self.combined(form.coefficients, 1.0 / divisor), form.const / divisor

    def combined(self, coefficients: Mapping[Axis, float], scale: float = 1.0) -> Index:
        """A linear form in the loops' axes."""
        out: dict[Axis, float] = {}
        for axis, c in coefficients.items():
            inner = self.of.get(axis, {axis: 1.0})
            if inner is None:
                return None
            for a, factor in inner.items():
                out[a] = out.get(a, 0.0) + c * scale * factor
        return out


def stores_of(sketch: Sketch, rows: NDArray[np.int32]) -> list[Store]:
    """The stores of all nests of a sketch, in program order."""
    outputs = {t.op for t in sketch.dag.outputs}
    found = []
    for nest in sketch.nests(rows):
        found += _Nest(nest, sketch.target.lanes(), outputs).stores()
    return found


class _Nest:
    """The stores of one block."""

    def __init__(self, nest: BlockNest, lanes: int, outputs: set[Operation]) -> None:
        self.nest, self.block, self.lanes, self.outputs = nest, nest.block, lanes, outputs
        self.one = np.ones(nest.count)
        self.unroll = nest.unroll.astype(np.float64)
        self.loops = self._loops()
        self.names = {a.op: "local" for a in self.block.attached}

    def stores(self) -> list[Store]:
        """Attached producers, the anchor, and what is computed of its finished tile."""
        block = self.block
        out = [s for a in block.attached for s in self._attached(a)]
        loops = tuple(loop for loop, _ in self.loops)
        late = bool(block.epilogue) or bool(block.write_depth)
        name = "local" if late else ""
        shared = self._shared() if late else ()
        allocated = None
        if late:
            held = self.one
            for axis in block.spatial:
                held = held * self._rest(axis)
            allocated = (held, _iterations(shared, self.one))
        elif block.op not in self.outputs:
            allocated = (self.one * _points(block.spatial), self.one)
        same = _Positions()
        expressions = [block.source]
        accesses = self._accesses(
            (block.op, name), block.spatial, expressions, same, both=bool(block.reduce)
        )
        operations = operations_of(block.body)
        out.append(Store(loops, accesses, operations, self.unroll, allocated))
        if late:
            out.append(self._late(shared))
        return out

    # --- loops -------------------------------------------------------------------------------

    def _loops(self) -> list[tuple[Loop, int]]:
        """The anchor's loops with the position of their level, the parallel ones fused."""
        block, nest = self.block, self.nest
        steps: dict[int, Floats] = {}
        seen: dict[Axis, Floats] = {}
        order = [
            (axis, number, position)
            for position, (level, number) in enumerate(block.levels.numbered)
            for axis in block.axes_of(level.kind)
        ]
        for i in reversed(range(len(order))):
            axis, number, _ = order[i]
            steps[i] = seen.get(axis, self.one)
            seen[axis] = steps[i] * nest.tiles[axis][number]
        fused: dict[Axis, Part] = {}
        rest: list[tuple[Loop, int]] = []
        last = len(block.levels.items) - 1
        parallel = {loop: i for i, loop in enumerate(block.parallel_loops)}
        for i, (axis, number, position) in enumerate(order):
            extent = nest.tiles[axis][number].astype(np.float64)
            if axis.kind == "spatial" and (axis, number) in parallel:
                taken = nest.parallel > parallel[axis, number]
                outer = fused.get(axis, Part(self.one, self.one))
                iterations = outer.extent * np.where(taken, extent, 1.0)
                fused[axis] = Part(iterations, np.where(taken, steps[i], outer.step))
                extent = np.where(taken, 1.0, extent)
            kind = "serial"
            if position == last and axis.kind == "spatial":
                kind = "vector" if axis is block.spatial[-1] else "unroll"
            rest.append((Loop(kind, {axis: Part(extent, steps[i])}), position))
        return [(Loop("parallel", fused), 0), *rest] if fused else rest

    def _shared(self, depth: int | None = None) -> tuple[Loop, ...]:
        """Loops of the ``depth`` outermost levels; by default those around the finished tile."""
        block = self.block
        if depth is None:
            depth = block.write_depth
        if not depth:  # written tile by tile: after all spatial levels but the last
            last = len(block.levels.items) - 1
            return tuple(
                loop for loop, at in self.loops
                if at < last and all(a.kind == "spatial" for a in loop.parts)
            )  # fmt: skip
        return tuple(loop for loop, at in self.loops if at < depth)

    def _rest(self, axis: Axis) -> Floats:
        """Points of an axis that the anchor's finished tile holds."""
        level = (
            self.block.levels.within(self.block.write_depth)[0] if self.block.write_depth else -1
        )
        out = self.one
        for extent in self.nest.tiles[axis][level:]:
            out = out * extent
        return out

    def _own(self, extents: Mapping[Axis, Floats], vectorised: Axis | None) -> list[Loop]:
        """Loops over a region, its last axis cut into vectors."""
        out = []
        for axis, extent in extents.items():
            if axis is not vectorised:
                out.append(Loop("serial", {axis: Part(extent, self.one)}))
        if vectorised is not None:
            extent = extents[vectorised]
            vector = np.minimum(extent, self.lanes)
            out.append(Loop("serial", {vectorised: Part(np.ceil(extent / vector), vector)}))
            out.append(Loop("vector", {vectorised: Part(vector, self.one)}))
        return out

    # --- other stores of the nest ------------------------------------------------------------

    def _late(self, shared: Sequence[Loop]) -> Store:
        """What is computed of the anchor's finished tile: its consumer, or a copy of it."""
        block = self.block
        own = self._own({a: self._rest(a) for a in block.spatial}, block.spatial[-1])
        done = block.result
        positions = _Positions()
        if block.epilogue is not None and block.epilogue_body is not None:
            pairs = zip(block.epilogue.axes, block.spatial, strict=True)
            positions = _Positions({a: {b: 1.0} for a, b in pairs})
            expressions, operations = [block.epilogue_body], operations_of(block.epilogue_body)
        else:
            expressions, operations = [], Operations()
        buffer = (done, "")
        accesses = list(self._accesses(buffer, block.spatial, expressions, positions, both=False))
        if not expressions:
            read = self._access((block.op, "local"), "read", block.spatial)
            accesses.append(read)
        allocated = None
        if done not in self.outputs:
            allocated = (self.one * _points(block.spatial), self.one)
        return Store((*shared, *own), tuple(accesses), operations, self.unroll, allocated)

    def _attached(self, attached: Attached) -> list[Store]:
        """A producer's region inside the nest: its reduction, if it has one, and its values."""
        nest = self.nest
        shared = self._shared(attached.depth)
        extents = [e.astype(np.float64) for e in attached_extents(nest, attached)]
        region = self.one
        for extent in extents:
            region = region * extent
        allocated = (region, _iterations(shared, self.one))
        out = []
        block = attached.block
        if block is not None:
            where = self._positions(attached, block.spatial)
            own = self._own(dict(zip(block.spatial, extents, strict=True)), None)
            own += [Loop("serial", {a: Part(self.one * a.extent, self.one)}) for a in block.reduce]
            name = "sum" if block.epilogue_body is not None else "local"
            out.append(
                Store(
                    (*shared, *own),
                    self._accesses(
                        (block.op, name), block.spatial, [block.source], where, both=True
                    ),
                    operations_of(block.body),
                    self.unroll,
                    allocated,
                )
            )
            if block.epilogue_body is None:
                return out
        axes = attached.op.axes
        where = self._positions(attached, axes)
        own = self._own(dict(zip(axes, extents, strict=True)), axes[-1] if axes else None)
        body = attached.body if block is None else block.epilogue_body
        assert body is not None
        inner = {} if block is None else {block.op: "sum"}
        accesses = self._accesses(
            (attached.op, "local"), axes, [body], where, both=False, names=inner
        )
        out.append(Store((*shared, *own), accesses, operations_of(body), self.unroll, allocated))
        return out

    def _positions(self, attached: Attached, axes: Sequence[Axis]) -> _Positions:
        """A producer's axes: its own loops, and where its readers' loops put its region."""
        read = attached_read(self.nest.block, attached)
        reader = attached.reader
        outer = _Positions()
        if reader is not None:
            whole = self._positions(reader, reader.axes)
            # the reader's own loops are none of this producer's
            outer = _Positions(
                {
                    axis: {a: c for a, c in (index or {}).items() if a is not axis}
                    for axis, index in whole.of.items()
                }
            )
        found: dict[Axis, Index] = {}
        for axis, expression in zip(axes, read.indices, strict=True):
            index, _ = outer.index(expression)
            found[axis] = None if index is None else {**index, axis: 1.0}
        return _Positions(found)

    # --- accesses ----------------------------------------------------------------------------

    def _accesses(
        self,
        buffer: tuple[Operation, str],
        axes: Sequence[Axis],
        expressions: Sequence[Expr],
        positions: _Positions,
        *,
        both: bool,
        names: Mapping[Operation, str] | None = None,
    ) -> tuple[Access, ...]:
        stored = self._access(buffer, "both" if both else "write", axes, positions)
        found: dict[tuple[Operation, str], list[Read]] = {}
        for expression in expressions:
            for read in reads(expression):
                op = read.tensor.op
                name = (names or {}).get(op, self.names.get(op, ""))
                if op is self.block.op and op is not buffer[0]:
                    name = "local"
                found.setdefault((op, name), []).append(read)
        out = [stored]
        for key, several in found.items():
            if key != buffer:
                out.append(_merged(key, several, positions))
        return tuple(out)

    def _access(
        self,
        buffer: tuple[Operation, str],
        kind: str,
        axes: Sequence[Axis],
        positions: _Positions | None = None,
    ) -> Access:
        """A buffer touched at the axes themselves."""
        op = buffer[0]
        known = (positions or _Positions()).of
        dims = tuple(known.get(a, {a: 1.0}) for a in axes)
        size = dtype_bytes(op.dtype)
        return Access(buffer, kind, op.shape, size, dims, (0.0,) * len(dims))


def _merged(
    buffer: tuple[Operation, str], several: Sequence[Read], positions: _Positions
) -> Access:
    """Reads of one buffer as one access: the largest coefficients, the spread of constants."""
    op = buffer[0]
    dims: list[Index] = []
    spread = []
    for indices in zip(*(r.indices for r in several), strict=True):
        found = [positions.index(i) for i in indices]
        if any(d is None for d, _ in found):
            dims.append(None)
            spread.append(0.0)
            continue
        union: dict[Axis, float] = {}
        for d, _ in found:
            for a, c in (d or {}).items():
                union[a] = max(union.get(a, 0.0), abs(c))
        dims.append(union)
        constants = [c for _, c in found]
        spread.append(max(constants) - min(constants))
    return Access(buffer, "read", op.shape, dtype_bytes(op.dtype), tuple(dims), tuple(spread))


def _points(axes: Sequence[Axis]) -> float:
    return float(np.prod([a.extent for a in axes], dtype=np.float64))


def _iterations(loops: Sequence[Loop], one: Floats) -> Floats:
    total = one
    for loop in loops:
        total = total * loop.extent
    return total
