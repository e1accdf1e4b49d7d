"""Outputs that may take the place of an input.

A kernel may write its output over an input that nobody needs afterwards if it reads every element
of the input before it writes that element, and never again. Its loop program proves it::

    for i, j:  out[i, j] = f(conv.acc[...], residual[i, j])      may: read and written together
    for i, j:  out[i, j] = f(x[j, i])                            not: another element's place
    for k:     out[i, j] = out[i, j] + ...                       not: written early, read again

The first form alone counts: every read of the input stands in a statement that stores the output
at the same position, the output is never read, and each of its elements is stored once (lowering
covers an output with tiles that do not overlap).
"""

from __future__ import annotations

from collections.abc import Iterator

from tilework.index.form import Form
from tilework.lower.ir import AsyncCopy, For, If, Intrinsic, Load, Program, Store, walk_stmts
from tilework.te.affine import position
from tilework.te.expr import Axis, Expr, children


def overwritable(program: Program) -> frozenset[int]:
    """Positions of the inputs that a program with one output reads just where it writes."""
    if len(program.outputs) != 1:
        return frozenset()
    out = program.outputs[0]
    good = {b for b in program.inputs if b.size == out.size and b.dtype == out.dtype}
    if not good:
        return frozenset()
    for stmt in (s for region in program.regions for s in walk_stmts(region.body)):
        here = None
        if isinstance(stmt, Store) and stmt.buffer is out:
            here = position(stmt.indices, out.strides)
        for load in _loads(stmt):
            if load.buffer is out:
                return frozenset()
            if load.buffer in good and (here is None or not _same(load, here)):
                good.discard(load.buffer)
    return frozenset(i for i, b in enumerate(program.inputs) if b in good)


def _same(load: Load, here: Form[Axis]) -> bool:
    """Whether an input of the output's size is read at the position that is written."""
    return position(load.indices, load.buffer.strides) == here


def _loads(stmt: object) -> Iterator[Load]:
    """Every load that a statement itself makes, those of its indices and conditions included."""
    match stmt:
        case Store():
            roots = [stmt.value, *stmt.indices]
        case For():
            roots = [] if isinstance(stmt.extent, int) else [stmt.extent]
        case If():
            roots = [stmt.cond]
        case AsyncCopy():
            yield Load(stmt.source.dtype, stmt.source, stmt.start)
            roots = [*stmt.start, *stmt.at, *([stmt.when] if stmt.when is not None else [])]
        case Intrinsic():
            roots = [*stmt.outs, *stmt.ins]
        case _:
            roots = [value] if isinstance(value := getattr(stmt, "value", None), Expr) else []
    seen: set[int] = set()
    while roots:
        e = roots.pop()
        if id(e) in seen or isinstance(e, Axis):
            continue
        seen.add(id(e))
        if isinstance(e, Load):
            yield e
            roots += e.indices
        else:
            roots += children(e)
