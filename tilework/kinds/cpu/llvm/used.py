"""Which buffers a region touches."""

from __future__ import annotations

from functools import lru_cache

from tilework.lower.ir import Buffer, For, If, Let, Load, Stmt, Store, walk_stmts
from tilework.te.expr import Expr, children


@lru_cache(maxsize=32)
def used_buffers(stmt: Stmt) -> tuple[Buffer, ...]:
    """Buffers in memory that a statement touches, in order of first use."""
    out: dict[Buffer, None] = {}
    seen: set[int] = set()

    def visit(e: Expr) -> None:
        if id(e) in seen:
            return
        seen.add(id(e))
        if isinstance(e, Load):
            out[e.buffer] = None
            for i in e.indices:
                visit(i)
        else:
            for child in children(e):
                visit(child)

    for s in walk_stmts(stmt):
        match s:
            case Store():
                out[s.buffer] = None
                visit(s.value)
                for i in s.indices:
                    visit(i)
            case Let():
                visit(s.value)
            case If():
                visit(s.cond)
            case For():
                for bound in (s.start, s.extent):
                    if not isinstance(bound, int):
                        visit(bound)
    return tuple(b for b in out if b.scope != "register")
