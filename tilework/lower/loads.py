"""What expressions read."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.lower.ir import Load
from tilework.te.expr import Axis, Const, Expr
from tilework.te.trees import PARTS

_LEAVES = frozenset({Axis, Const})
"""Half of the nodes of indices, which have no parts."""


def loads(roots: Sequence[Expr], seen: set[Expr]) -> list[Load]:
    """The loads of expressions, those in indices included, without nodes that were ``seen``.

    Indices of registers read nothing.
    """
    out, left = [], [*roots[::-1]]
    while left:
        node = left.pop()
        if type(node) in _LEAVES or node in seen:
            continue
        seen.add(node)
        if isinstance(node, Load):
            out.append(node)
            if node.buffer.scope == "register":
                continue
        left += PARTS[type(node)](node)[::-1]
    return out
