"""Sums of as many terms as data say: loops with ends, and indices, that are read from memory.

Before::

    out[j] = sum over e < indptr[j // R + 1] - indptr[j // R] of data[indptr[j // R] + e, ..] * ..

After, in a register tile of the points j0 .. j0 + R - 1 with two accumulators of each::

    let b0 = indptr[j0 / R], b1 = indptr[j0 / R + 1]
    for s in 0 .. (b1 - b0) / 2:
      let i = indices[b0 + 2 s]:      acc[0, :] += data[b0 + 2 s, ..] * x[i, ..]
      let i = indices[b0 + 2 s + 1]:  acc[1, :] += data[b0 + 2 s + 1, ..] * x[i, ..]
    for e in (b1 - b0) / 2 * 2 .. b1 - b0:  acc[0, :] += ...
    acc[0, :] += acc[1, :]

Every integer that is read to find a position is a `Let`: a scalar, read once, by which addresses
are linear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from tilework.dtypes import is_float
from tilework.frozen import frozen
from tilework.lower.common import ZERO, Index, const, expanded_loops, loop_var, nest, weighted_sum
from tilework.lower.ir import For, Let, Stmt, seq
from tilework.te.expr import Axis, Expr, Read, binary, children, rebuild, walk
from tilework.te.trees import PARTS

_FAR = 1 << 30
_EXPANDED = 64


@frozen(eq=False)
class Names:
    """The integers that a reduction reads from memory, named.

    Attributes:
        source: what is reduced, in terms of the names.
        limits: by ragged axis, in terms of the names.
        early: names and values that all terms of a register tile share, each in terms of those
            before it.
        late: those that depend on ragged axes.
    """

    source: Expr
    limits: tuple[tuple[Axis, Expr], ...]
    early: tuple[tuple[Axis, Expr], ...]
    late: tuple[tuple[Axis, Expr], ...]

    @staticmethod
    def of(source: Expr, limits: Mapping[Axis, Expr]) -> Names:
        """Name the integers that the limits, and the indices of the source's reads, are made of.

        Those that depend on other reduce axes than the ragged ones stay where they are.
        """
        names: dict[Hashable, tuple[Axis, Expr, bool]] = {}

        def name(e: Expr, index: bool) -> Expr:
            inside = index or isinstance(e, Read)
            kids = [name(k, inside) for k in children(e)]
            e = rebuild(e, kids) if kids else e
            if not (index and isinstance(e, Read)) or is_float(e.dtype):
                return e
            used = {n for i in e.indices for n in walk(i) if isinstance(n, Axis)}
            if any(a.kind == "reduce" and a not in limits for a in used):
                return e
            late = any(a in limits for a in used) or any(
                is_late and var in used for var, _, is_late in names.values()
            )
            key = _key(e)
            if key not in names:
                var = loop_var(f"{e.tensor.name}.{len(names)}", _FAR)
                names[key] = (var, e, late)
            return names[key][0]

        ends = tuple((a, name(limit, True)) for a, limit in limits.items())
        named = name(source, False)
        values = names.values()
        return Names(
            named,
            ends,
            tuple((v, e) for v, e, late in values if not late),
            tuple((v, e) for v, e, late in values if late),
        )


def _key(e: Expr) -> Hashable:
    """Equal for equal index expressions over the same axes and tensors."""
    if isinstance(e, Axis):
        return e
    own = e.tensor.op if isinstance(e, Read) else PARTS.plain(e)
    return (type(e), own, *map(_key, children(e)))


def let(names: Sequence[tuple[Axis, Expr]], at: Callable[[Expr], Expr], body: Stmt) -> Stmt:
    """``body`` where names stand for values, whose indices ``at`` turns into loop variables."""
    for var, value in reversed(names):
        body = Let(var, at(value), body)
    return body


def ragged_steps(
    reduce: Collection[Axis],
    ends: dict[Axis, Expr],
    work: int,
    copies: int,
    name: Callable[[Index, Stmt], Stmt],
    make: Callable[[Index, Expr], Stmt],
) -> Stmt:
    """Loops over all terms.

    Args:
        reduce: the reduce axes, outermost first; those with ends become the outer loops.
        ends: number of terms of ragged axes, at most their extents.
        work: vectors of the register tile.
        copies: accumulators of each element.
        name: wraps a step's code in the names of what it reads to find positions.
        make: code of a step, given the reduce axes' indices and its accumulator.
    """
    others = [a for a in reduce if a not in ends]

    def step(at: Index, copy: Expr) -> Stmt:
        """One block of terms: the other axes expanded as far as there is room."""
        room = max(_EXPANDED // max(work, 1), 1)
        loops, expanded, index = expanded_loops(others, room, outer=".0")
        return name(at, nest(loops, nest(expanded, make({**at, **index}, copy))))

    def build(rest: Sequence[Axis], at: Index) -> Stmt:
        if not rest:
            return step(at, ZERO)
        axis, after = rest[0], rest[1:]
        whole = loop_var(f"{axis.name}.r", axis.points)
        if after or copies == 1:
            return For(whole, ends[axis], "serial", build(after, {**at, axis: whole}))
        turns = loop_var(f"{axis.name}.0", max(axis.points // copies, 1))
        copy = loop_var(f"{axis.name}.u", copies)
        term = weighted_sum([(turns, copies), (copy, 1)])
        full = binary("//", ends[axis], const(copies))
        in_turns = For(copy, copies, "unroll", step({**at, axis: term}, copy))
        return seq(
            For(turns, full, "serial", in_turns),
            For(
                whole,
                ends[axis],
                "serial",
                step({**at, axis: whole}, ZERO),
                binary("*", full, const(copies)),
            ),
        )

    return build([a for a in reduce if a in ends], {})
