"""Outputs that may take the place of an input.

A kernel may write its output over an input that nobody needs afterwards if it reads every element
of the input before it writes that element, and never again. Its loop program proves it::

    for i, j:  out[i, j] = f(conv.acc[...], residual[i, j])      may: read and written together
    for i, j:  out[i, j] = f(x[j, i])                            not: another element's place
    for k:     out[i, j] = out[i, j] + ...                       not: written early, read again

The first form counts: every read of the input stands in a statement that stores the output
at the same position, the output is never read, and each of its elements is stored once (lowering
covers an output with tiles that do not overlap). So does one more, of slabs (`Region.own`)::

    parallel s:  max[...] = x[s, ...];  e[...] = exp(x[s, ...] - max[...]);  out[s, ...] = e[...]

Statements of the body that stand before the first that stores the output may read an input
anywhere, if each point of the parallel loops has the same part of both for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilework.lower.ir import (
    AsyncCopy,
    Buffer,
    Load,
    Program,
    Seq,
    Stmt,
    Store,
    expressions,
    walk_stmts,
)
from tilework.lower.loads import loads
from tilework.te.affine import position


def overwritable(program: Program) -> frozenset[int]:
    """Positions of the inputs that a program with one output reads just where it writes."""
    if len(program.outputs) != 1:
        return frozenset()
    out = program.outputs[0]
    good = {b for b in program.inputs if b.size == out.size and b.dtype == out.dtype}
    if not good:
        return frozenset()
    written = False
    for own, step in _steps(program):
        written = written or any(
            isinstance(s, Store) and s.buffer is out for s in walk_stmts(step)
        )
        early = frozenset() if written or out not in own else own
        for stmt in walk_stmts(step):
            here = None
            if isinstance(stmt, Store) and stmt.buffer is out:
                here = position(stmt.indices, out.strides)
            roots = expressions(stmt)
            read = loads(roots, set()) if roots else []
            if isinstance(stmt, AsyncCopy):
                read.append(Load(stmt.source.dtype, stmt.source, stmt.start))
            for load in read:
                if load.buffer is out:
                    return frozenset()
                if load.buffer not in good or load.buffer in early:
                    continue
                if here is None or position(load.indices, load.buffer.strides) != here:
                    good.discard(load.buffer)
    return frozenset(i for i, b in enumerate(program.inputs) if b in good)


def _steps(program: Program) -> Iterator[tuple[frozenset[Buffer], Stmt]]:
    """Parts of the program in order, and what each point of their parallel loops has alone."""
    for region in program.regions:
        own = region.own if len(program.regions) == 1 else frozenset()
        body = region.body.stmts if own and isinstance(region.body, Seq) else (region.body,)
        yield from ((own, step) for step in body)
