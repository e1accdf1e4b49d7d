"""Matrices that data choose: a register tile finds the place of its own before all terms.

Before::

    for k: for n: acc[n] += x[b, k] * W[clamped(expert[b]), n, k]

After::

    let e = clamped(expert[b]):
      for k: for n: acc[n] += x[b, k] * W[e, n, k]
"""

from __future__ import annotations

from tilework.lower.common import bind, load, loop_var
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Stmt
from tilework.lower.ragged import let
from tilework.lower.register_tiles.tile_version import Version
from tilework.space.chosen import places
from tilework.te.expr import Axis, Expr, reads, substitute

Places = list[tuple[Axis, Expr]]
"""Variables, and the places that they stand for."""


def named_places(source: Expr) -> tuple[Expr, Places]:
    """``source`` in terms of places, each a variable, and what these stand for."""
    own = set(places(source))
    names: dict[Expr, Axis] = {}
    for read in reads(source):
        for index, extent in zip(read.indices, read.tensor.shape, strict=True):
            if index in own:
                names[index] = loop_var(f"{read.tensor.name}.{len(names)}", extent)
    return substitute(source, names.get), [(var, place) for place, var in names.items()]


def at_places(ctx: LoweringContext, version: Version, names: Places, body: Stmt) -> Stmt:
    """``body`` of a version of a register tile, where names stand for places."""

    def placed(e: Expr) -> Expr:
        return bind(e, version.base, lambda op, _, indices: load(ctx.buffers[op], indices))

    return let(names, placed, body)
