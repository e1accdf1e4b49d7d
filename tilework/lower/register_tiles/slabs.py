"""The program of all slabs, from that of one; see `tilework.space.slabs`.

Before, for one slab, whose results wait in buffers of its own size::

    region top, e, sum, y over i in 16

After::

    for s in parallel:  the same, one after the other, at rows s * 16 + i of inputs and outputs

Of 40 rows, the last slab begins at row 24, and leaves the first 8 of its rows to the one before::

    for s in parallel:
      first = min(s * 16, 24)
      the same at rows first + i, of which y stores those from s * 16 on

Where a run decides how many rows there are, there may be fewer than a slab has. Then the last one
reaches beyond them::

    for s in parallel:  the same at rows s * 16 + i, of which y stores those before the end
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from operator import is_
from typing import Any

from tilework.index.extents import Extent, known
from tilework.index.strides import Strides
from tilework.lower.common import const, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import (
    Buffer,
    Claim,
    If,
    Let,
    Load,
    Program,
    Region,
    Seq,
    Stmt,
    Store,
    expressions,
    walk_stmts,
)
from tilework.lower.loads import loads
from tilework.space.bounds import conjunction
from tilework.space.slabs import Margin, Places, Slabs, any_row
from tilework.te.expr import Axis, Expr, binary, compare, rewritten


def over_slabs(program: Program, slabs: Slabs, strides: Mapping[int, Strides]) -> Program:
    """One region, whose threads share the slabs.

    Args:
        program: of one slab.
        slabs: how many there are, and where.
        strides: of arguments of the whole that are not dense, by position.
    """
    return _Moved(program, slabs, strides).program()


class _Moved:
    def __init__(self, program: Program, slabs: Slabs, strides: Mapping[int, Strides]) -> None:
        self.old, self.slabs = program, slabs
        self.shared = slabs.shared or (0,) * len(slabs.vars)
        self.numbers = [
            loop_var(f"{v.name}.n", n) if s else v
            for v, n, s in zip(slabs.vars, slabs.counts, self.shared, strict=True)
        ]
        self.in_part = False  # whether some rows are no concern of this slab
        self.asked = False  # whether it is asked before something is read
        self.known: dict[bool, dict[Expr, Expr]] = {True: {}, False: {}}  # statements share nodes
        self.buffers: dict[Buffer, Buffer] = {}
        self.places: dict[Buffer, Places] = {}
        self.margins: dict[Buffer, tuple[Margin, ...]] = {}
        arguments = (*program.inputs, *program.outputs)
        each = zip(arguments, slabs.whole.tensors, slabs.places, slabs.margins, strict=True)
        for i, (b, tensor, at, margins) in enumerate(each):
            self.margins[b] = margins
            shape = tensor.shape if any_row(at) else b.shape  # that of packed weights is their own
            self.places[b] = at
            self.buffers[b] = replace(b, shape=shape, own_strides=strides.get(i))
        for b in program.temporaries:
            self.buffers[b] = replace(b, scope="thread")

    def program(self) -> Program:
        """See `over_slabs`."""
        old = self.old
        body: Stmt = Seq(tuple(self._region(region) for region in old.regions))
        for var, whole, count, rows, shared in self._each():
            if shared:
                last = const(rows * (known(count) - 1) - shared)
                body = Let(var, binary("min", whole, last), body)
        parallel = tuple(v for v in self.numbers if v.extent != 1)
        own = self._like(self.of(old.outputs[0]), self.places[old.outputs[0]])
        return Program(
            tuple(self.buffers[b] for b in old.inputs),
            tuple(self.buffers[b] for b in old.outputs),
            tuple(self.buffers[b] for b in old.temporaries),
            (Region(old.regions[-1].name, parallel, body, own=own),),
        )

    def _each(self) -> Iterator[tuple[Axis, Expr, Extent, int, int]]:
        """By row axis: the slab, its first row if none are shared, and `Slabs`."""
        slabs = self.slabs
        for var, number, count, rows, shared in zip(
            slabs.vars, self.numbers, slabs.counts, slabs.rows, self.shared, strict=True
        ):
            yield var, weighted_sum([(var_or_zero(number), rows)]), count, rows, shared

    def _region(self, region: Region) -> Stmt:
        """A region of one slab; of the last one, without the rows that are no concern of it."""
        loops = [(v, v.extent, "serial") for v in region.parallel]
        body, full = nest(loops, self.stmt(region.body)), self._full()
        if full is None or not self._asks(region.body):
            return body
        self.in_part = True
        part = nest(loops, self.stmt(region.body))
        self.in_part = False
        return If(full, body, part)

    def _asks(self, body: Stmt) -> bool:
        """Whether a region has to know which rows are its slab's own."""
        ragged = bool(self.slabs.ragged)
        seen: set[Expr] = set()
        return any(
            (isinstance(stmt, Store) and stmt.buffer in self.old.outputs)
            or (ragged and any(self._row_by_row(n.buffer) for n in loads(expressions(stmt), seen)))
            for stmt in walk_stmts(body)
        )

    def _row_by_row(self, buffer: Buffer) -> bool:
        """Whether an argument has the rows of the output, and no others."""
        return any_row(self.places.get(buffer, ())) and not any(map(any, self.margins[buffer]))

    def _full(self) -> Expr | None:
        """Whether all rows of a slab are its own; None where those of all slabs are."""
        ends = []
        for number in self.slabs.ragged:
            rows = self.slabs.rows[number]
            after = weighted_sum([(var_or_zero(self.slabs.vars[number]), rows), (const(1), rows)])
            ends.append(compare("<=", after, const(self._end(number))))
        first = [compare(">=", var, whole) for var, whole, *_, shared in self._each() if shared]
        return conjunction([*first, *ends])

    def _end(self, number: int) -> Extent:
        """Rows of the output on a row axis."""
        places = self.places[self.old.outputs[0]]
        return self.of(self.old.outputs[0]).shape[places.index(number)]

    def _like(self, output: Buffer, rows: Places) -> frozenset[Buffer]:
        """The arguments of which slabs have the same places as of the output, and it."""
        alike = [b for b, at in self.places.items() if at == rows]
        own = [self.of(b) for b in alike if not any(map(any, self.margins[b]))]
        return frozenset(b for b in own if b.strides == output.strides)

    def stmt(self, stmt: Stmt) -> Stmt:
        """A statement at the slab's place."""
        self.asked = isinstance(stmt, Store) and stmt.buffer in self.old.outputs
        held = {f.name: self.value(getattr(stmt, f.name)) for f in fields(stmt)}
        self.asked = False
        if isinstance(stmt, Store | Claim):
            held |= {
                "buffer": self.of(stmt.buffer),
                "indices": self.at(stmt.buffer, held["indices"]),
            }
        new = replace(stmt, **held)
        return self._own(new) if self.in_part and isinstance(new, Store) else new

    def _own(self, store: Store) -> Stmt:
        """A store of the last slab, of rows that are its own."""
        if store.buffer not in map(self.of, self.old.outputs):
            return store
        stmt: Stmt = store
        places = self.places[self.old.outputs[0]]
        for number, (_, whole, *_, shared) in enumerate(self._each()):
            if shared:
                stmt = If(compare(">=", store.indices[places.index(number)], whole), stmt)
        for number in self.slabs.ragged:
            row = store.indices[places.index(number)]
            stmt = If(compare("<", row, const(self._end(number))), stmt)
        return stmt

    def value(self, value: Any) -> Any:
        """What stands in a field of a statement, at the slab's place."""
        if isinstance(value, tuple):
            new = tuple([self.value(v) for v in value])
            return value if all(map(is_, value, new)) else new
        if isinstance(value, Expr):
            return self.expr(value)
        return self.stmt(value) if isinstance(value, Stmt) else value

    def expr(self, e: Expr) -> Expr:
        """A value at the slab's place."""

        def moved(node: Expr, kids: tuple[Expr, ...]) -> Expr | None:
            if not isinstance(node, Load):
                return None
            buffer, at = self.of(node.buffer), self.read_at(node.buffer, kids)
            if buffer is node.buffer and all(map(is_, node.indices, at)):
                return None
            return Load(node.dtype, buffer, at)

        return rewritten(e, moved, self.known[self.in_part and not self.asked])

    def of(self, buffer: Buffer) -> Buffer:
        """What stands for a buffer of the slab; registers are what they were."""
        return self.buffers.get(buffer, buffer)

    def at(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Indices into the whole of an argument."""
        places = self.places.get(buffer)
        if places is None or not any_row(places):
            return indices
        pairs = zip(indices, places, strict=True)
        return tuple([i if r is None else self.row(buffer, r, i) for i, r in pairs])

    def read_at(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The same where it is read: in place of rows beyond the last one, that one."""
        at, places = list(self.at(buffer, indices)), self.places.get(buffer, ())
        if self.in_part and not self.asked and self._row_by_row(buffer):
            for number in self.slabs.ragged:
                if number in places:
                    d = places.index(number)
                    at[d] = binary("min", at[d], const(self._end(number) - 1))
        return tuple(at)

    def row(self, buffer: Buffer, number: int, index: Expr) -> Expr:
        """A row of the slab as one of the whole."""
        each = 1 if self.shared[number] else self.slabs.rows[number]
        first = var_or_zero(self.slabs.vars[number])
        before, _ = self.margins[buffer][number]
        return weighted_sum([(first, each), (index, 1), (const(1), -before)])
