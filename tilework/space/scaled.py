"""Sums of scaled sums: what is common to the terms of a block is multiplied once a block.

``sum over g, k of x[g, k] * w[g, k] * s[g]`` is ``sum over g of s[g] * (sum over k of ..)``. Both
sums are held in registers. An operator declares it by its attribute ``inner_sum``, the names of
the axes inside: the sum is another one once numbers are rounded.
"""

from __future__ import annotations

from dataclasses import replace

from tilework.space.blocks import Block
from tilework.te import expr as x

INNER_SUM = "inner_sum"
"""The attribute."""


def scaled_sums(block: Block) -> Block:
    """Sets the block's ``scaled`` axes where its body has that form."""
    body, names = block.body, block.op.attrs.get(INNER_SUM, ())
    inner = tuple(a for a in block.reduce if a.name in names)
    if not inner or inner == block.reduce or not block.levels.reuse or block.dots is not None:
        return block
    if not isinstance(body, x.Reduce) or body.kind != "sum" or block.ragged:
        return block
    source = body.source
    if not isinstance(source, x.Binary) or source.op != "*":
        return block
    free = not any(n in inner for n in x.walk(source.b) if isinstance(n, x.Axis))
    known = not any(a.open for a in block.reduce)
    return replace(block, scaled=inner) if free and known else block
