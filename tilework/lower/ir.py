"""The loop program: what one schedule lowers to, before any target language.

Grammar::

    program  = buffers, regions
    region   = parallel loops (fused, may be none) around a statement
    stmt     = Seq(stmts) | For(var, extent, kind, body, start) | If(cond, then, orelse)
             | Store(buffer, indices, value) | Claim(buffer, indices) | Let(var, value, body)
    kind     = serial | unroll | vector
    value    = te expression whose reads are Load(buffer, indices) and whose axes are loop vars

A call of `PAIR_DOT` with (acc, a, b, c, d) is ``acc + a * b + c * d`` in float32, where a and c
are neighbours in memory, and so are b and d.

A ``vector`` loop is executed for all its points at once; an ``unroll`` loop is expanded. A buffer
of scope ``register`` is indexed by expanded loops only: its elements live in registers, across
serial loops as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tilework.te.expr import Axis, Expr

PAIR_DOT = "pair_dot"
SCOPES = ("input", "output", "global", "thread", "register")


@dataclass(frozen=True, eq=False)
class Buffer:
    """A row-major array.

    Attributes:
        scope: see `SCOPES`; ``global`` buffers hold results from one region to the next,
            ``thread`` buffers exist once a thread.
        streamed: whether it is read in order and comes from memory, so that it pays to ask for
            its elements ahead of time.
        apart: elements between neighbours in each dimension of an argument that lies inside a
            larger array; None for a dense array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    streamed: bool = False
    apart: tuple[int, ...] | None = None

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours in each dimension."""
        if self.apart is not None:
            return self.apart
        out = [1]
        for extent in reversed(self.shape[1:]):
            out.append(out[-1] * extent)
        return tuple(reversed(out)) if self.shape else ()

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """One element of a buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Store:
    """``buffer[indices] = value``."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, eq=False)
class Claim:
    """The element is about to be written: its place may be fetched now. Computes nothing."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class For:
    """``for var in range(start, extent)``; expressions must stay within ``0 .. var.extent``.

    Only serial loops have another start than 0.
    """

    var: Axis
    extent: int | Expr
    kind: str
    body: Stmt
    start: int | Expr = 0


@dataclass(frozen=True, eq=False)
class If:
    """``if cond: then else: orelse``."""

    cond: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, eq=False)
class Seq:
    """Statements in order."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class Let:
    """``var = value; body``: an index that is computed once."""

    var: Axis
    value: Expr
    body: Stmt


Stmt = Store | Claim | For | If | Seq | Let


@dataclass(frozen=True, eq=False)
class Region:
    """A root nest.

    ``parallel`` loop variables are fused, outermost first, and shared out among threads in
    contiguous chunks; an empty tuple means that one thread runs the body.
    """

    name: str
    parallel: tuple[Axis, ...]
    body: Stmt


@dataclass(frozen=True, eq=False)
class Program:
    """A lowered schedule: regions run one after another over shared buffers."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    regions: tuple[Region, ...]


def walk_stmts(stmt: Stmt) -> Iterator[Stmt]:
    """All statements in ``stmt``, outer first."""
    yield stmt
    match stmt:
        case Seq():
            for s in stmt.stmts:
                yield from walk_stmts(s)
        case For() | Let():
            yield from walk_stmts(stmt.body)
        case If():
            yield from walk_stmts(stmt.then)
            if stmt.orelse is not None:
                yield from walk_stmts(stmt.orelse)


def seq(*stmts: Stmt | None) -> Stmt:
    """Statements in order, without needless nesting."""
    kept = [s for s in stmts if s is not None]
    return kept[0] if len(kept) == 1 else Seq(tuple(kept))
