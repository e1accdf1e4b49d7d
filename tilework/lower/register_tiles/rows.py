"""New rows of a cache, written where it lies: what a call does that continues an input in place.

Declared, every element of the cache asks whether it is one of the new ones (`ops.write_rows`).
Where input and output are one buffer, all others are there already::

    for b, m, s:  i = starts[b] + s;  if 0 <= i < P:  for h:  cache[b, m, i, h] = new[b, m, s, h]

Where rows fall off first, the others move, in their order, if there are any that do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilework.index.extents import Extent
from tilework.index.strides import Strides
from tilework.lower.common import LoopSpec, const, load, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import Buffer, If, Let, Program, Region, Stmt, Store, seq
from tilework.te import ComputeDAG
from tilework.te.expr import Expr, Logic, Select, binary, compare
from tilework.te.functions import cast
from tilework.te.tensor import Compute
from tilework.te.written import IN_PLACE, WRITTEN

_LANES = 16


def written_rows(dag: ComputeDAG, strides: Mapping[int, Strides]) -> Program | None:
    """The program of a call that writes rows in place; None for any other.

    One thread runs it: what it writes is small.

    Args:
        strides: of arguments that are not dense, by position.
    """
    (op,) = dag.compute_ops if len(dag.compute_ops) == 1 else (None,)
    if op is None or not op.attrs.get(IN_PLACE, False):
        return None
    kinds = ("input",) * len(dag.inputs) + ("updated",)
    tensors = (*dag.inputs, *dag.outputs)
    *inputs, out = (
        Buffer(t.name, t.shape, t.dtype, kind, 0, strides.get(i))
        for i, (t, kind) in enumerate(zip(tensors, kinds, strict=True))
    )
    _, new, starts, *fallen = inputs
    body = seq(*(_moved(op, by, out) for by in fallen), _rows(op, new, starts, out))
    return Program(tuple(inputs), (out,), (), (Region(op.name, (), body),))


def _moved(op: Compute, fallen: Buffer, out: Buffer) -> Stmt:
    """Rows that take the places of those that fall off."""
    axis = op.attrs[WRITTEN]
    loops = [loop_var(f"i{d}", n) for d, n in enumerate(out.shape)]
    at = [var_or_zero(v) for v in loops]
    by = cast("int32", load(fallen, at[:1]))
    source, place = binary("+", at[axis], by), loop_var("row", out.shape[axis])
    there = compare("<", source, const(out.shape[axis]))

    def store(last: Expr) -> Stmt:
        to = (*at[:-1], last)
        return Store(out, to, load(out, (*to[:axis], place, *to[axis + 1 :])))

    serial: list[LoopSpec] = [(v, v.extent, "serial") for v in loops]
    within = axis + 1 < len(loops)
    each = _in_vectors(out.shape[-1], store) if within else store(at[-1])
    each = nest(serial[axis + 1 : -1], each)
    row = nest(serial[axis:][:1], If(there, Let(place, source, each)))
    return nest(serial[:axis], If(compare(">", by, const(0)), row))


def _rows(op: Compute, new: Buffer, starts: Buffer, out: Buffer) -> Stmt:
    axis = op.attrs[WRITTEN]
    loops = [loop_var(f"i{d}", n) for d, n in enumerate(new.shape)]
    at = [var_or_zero(v) for v in loops]
    cached = const(out.shape[axis])
    row: Expr = binary("+", cast("int32", load(starts, at[:1])), at[axis])
    if op.attrs["circular"]:
        row = Select("int32", compare(">=", row, cached), binary("-", row, cached), row)
    inside = Logic("bool", "and", compare(">=", row, const(0)), compare("<", row, cached))
    place = loop_var("row", out.shape[axis])

    def store(last: Expr) -> Stmt:
        read = (*at[:-1], last)
        return Store(out, (*read[:axis], place, *read[axis + 1 :]), load(new, read))

    serial: list[LoopSpec] = [(v, v.extent, "serial") for v in loops]
    within = axis + 1 < len(loops)
    each = _in_vectors(new.shape[-1], store) if within else store(at[-1])
    written = If(inside, Let(place, row, nest(serial[axis + 1 : -1], each)))
    return nest(serial[: axis + 1], written)


def _in_vectors(count: Extent, store: Callable[[Expr], Stmt]) -> Stmt:
    """``store`` at each of so many neighbours, in vectors where that is a number."""
    whole = count // _LANES if isinstance(count, int) else 0
    vector, lane = loop_var("v", whole), loop_var("l", _LANES)
    rest = loop_var("r", count - whole * _LANES)
    first, last = (weighted_sum([(v, _LANES)]) for v in (var_or_zero(vector), const(whole)))
    loops: list[LoopSpec] = [(vector, whole, "serial"), (lane, _LANES, "vector")]
    return seq(
        nest(loops, store(binary("+", first, lane))) if whole else None,
        nest([(rest, rest.extent, "serial")], store(binary("+", last, var_or_zero(rest))))
        if rest.extent != 0
        else None,
    )
