"""Vectors whose lanes lie apart, loaded four at a time and transposed in registers.

The columns of four neighbours of a tile, one lane a row, as a product of few rows reads a matrix
that lies the other way (queries and keys)::

    for u in 0..3 (expanded): for t in 0..15 (vector): ... x[t, u] ...

Lane by lane these are 64 loads and as many insertions. Four numbers of a row at once::

    z[j] = x[j, 0:4] beside x[j + 4, 0:4] beside ...          j in 0..3: 16 loads
    four vectors = the z, each block of 4 x 4 of which is transposed: 8 shuffles
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilework.index.form import Form
from tilework.index.symbols import range_of
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.llvm.lanes import Lane
from tilework.kinds.cpu.llvm.load_store import LoadStore, extent_of
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa, vector_type
from tilework.lower.ir import VALUES, Buffer, For, If, Let, Store, walk_stmts
from tilework.te.expr import Axis, Expr, IfThenElse, walk

SIDE = 4
"""Rows and columns of the blocks that are transposed: numbers of 128 bits."""
_LINE = LINE_BYTES // BYTES["float32"]


class TransposedLoads:
    """Emits loads whose lanes lie apart, where the next vectors are their neighbours."""

    def __init__(self, memory: LoadStore) -> None:
        self.memory, self._fn = memory, memory.fn
        self._expanded: dict[Axis, int] = {}
        self._plain: dict[int, tuple[For, bool]] = {}

    @contextmanager
    def within(self, s: For) -> Iterator[None]:
        """An expanded loop is being emitted: what one point reads, all of them do."""
        hit = self._plain.get(id(s))
        if hit is None:
            hit = self._plain[id(s)] = (s, unconditional(s))
        if hit[1] and isinstance(s.extent, int):
            self._expanded[s.var] = s.extent
        try:
            yield
        finally:
            self._expanded.pop(s.var, None)

    def load(self, buffer: Buffer, form: Form[Axis]) -> Ssa | None:
        """A vector at linear indices; None where its neighbours are not read as well."""
        memory = self.memory
        const, terms, step, lane = memory.bindings.split(form)
        if lane is None or lane.width % SIDE or not isinstance(step, int) or memory.guards:
            return None
        width, active = extent_of(lane)
        own = (*terms, ("lanes", step, 0))
        value = memory.loads.get((buffer, own, const, width, active, ()))
        axis = next((a for a in self._expanded if form.step(a) == 1), None)
        if value is not None or axis is None or buffer.dtype != "float32":
            return value
        at = memory.bindings.loops[axis]
        assert isinstance(at, int)
        if at - at % SIDE + SIDE > self._expanded[axis]:
            return None
        if lane.some is not None and range_of(buffer.size)[0] < SIDE:
            return None
        first = const - at % SIDE
        ahead = buffer.streamed != 0 and at % _LINE < SIDE
        rows = []
        for i in range(lane.active):
            pointer = memory.addresses.pointer(buffer, terms, first + i * step)
            if ahead:
                memory.prefetch(pointer, buffer.streamed)
            rows.append(self._row(buffer, pointer, lane, i))
        for i, column in enumerate(self._columns(rows, width)):
            memory.loads[buffer, own, first + i, width, active, ()] = Ssa(column, width, "float32")
        return memory.loads[buffer, own, const, width, active, ()]

    def _row(self, buffer: Buffer, pointer: str, lane: Lane, i: int) -> str:
        """Four neighbours of a lane's row; of one that does not count, any."""
        memory = self.memory
        if lane.some is None:
            return memory.load_at(buffer, pointer, SIDE, SIDE).ssa
        with memory.guarded(memory.masked.counts(lane.some, i)):
            return memory.load_at(buffer, pointer, SIDE, SIDE).ssa

    def _columns(self, rows: list[str], width: int) -> list[str]:
        """The columns of rows of four, of as many lanes."""
        rows = rows + ["poison"] * (width - len(rows))
        blocks = [self._beside(rows[i::SIDE]) for i in range(SIDE)]
        low, high = (0, 1), (2, 3)
        pairs = [
            self._shuffled(blocks[i], blocks[i + 1], (a, a + width, b, b + width), width)
            for a, b in (low, high)
            for i in (0, 2)
        ]
        return [
            self._shuffled(pairs[i], pairs[i + 1], (a, b, a + width, b + width), width)
            for i in (0, 2)
            for a, b in (low, high)
        ]

    def _beside(self, parts: list[str]) -> str:
        """Vectors one after the other in one."""
        width = SIDE
        while len(parts) > 1:
            lanes = range(2 * width)
            parts = [
                self._shuffle(a, b, lanes, width)
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def _shuffled(self, a: str, b: str, lanes: tuple[int, ...], width: int) -> str:
        """The same lanes of two vectors in each part of 128 bits."""
        return self._shuffle(a, b, [n + i for i in range(0, width, SIDE) for n in lanes], width)

    def _shuffle(self, a: str, b: str, lanes: Sequence[int], width: int) -> str:
        kind = vector_type("float32", width)
        mask = ", ".join(f"i32 {n}" for n in lanes)
        return self._fn.emit(
            f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{mask}>"
        )


def unconditional(s: For) -> bool:
    """Whether all points of a loop read what they read, whatever is known of them."""
    parts = list(walk_stmts(s.body))
    values = (n for x in parts if isinstance(x, Store) for n in walk(x.value, VALUES))
    bounds = (e for x in parts if isinstance(x, For) for e in (x.start, x.extent))
    return (
        not any(isinstance(x, If | Let) for x in parts)
        and not any(isinstance(e, Expr) for e in bounds)
        and not any(isinstance(n, IfThenElse) for n in values)
    )
