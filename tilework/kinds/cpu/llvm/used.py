"""Which buffers a region touches."""

from __future__ import annotations

from functools import lru_cache

from tilework.lower.ir import Buffer, Stmt, Store, expressions, walk_stmts
from tilework.lower.loads import loads
from tilework.te.expr import Expr


@lru_cache(maxsize=32)
def used_buffers(stmt: Stmt) -> tuple[Buffer, ...]:
    """Buffers in memory that a statement touches, in order of first use."""
    out: dict[Buffer, None] = {}
    seen: set[Expr] = set()
    for s in walk_stmts(stmt):
        if isinstance(s, Store):
            out[s.buffer] = None
        for e in loads(expressions(s)[::-1], seen):
            out[e.buffer] = None
    return tuple(b for b in out if b.scope != "register")
