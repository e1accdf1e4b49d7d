"""Products with matrices that data choose: what their nests must respect.

    out[b, n] = sum over k of x[b, k] * W[expert[b], n, k]

A register tile multiplies by one matrix, whose place is found before it: its size is 1 on all axes
that decide the place.
"""

from __future__ import annotations

from dataclasses import replace

from tilework.space.blocks import Block
from tilework.space.scattering import computed_alone
from tilework.te.expr import Axis, Const, Expr, Read, Reduce, reads, substitute, walk


def places(e: Expr) -> list[Expr]:
    """The indices in reads of ``e`` that are computed from what is read elsewhere."""
    outer = [i for read in reads(e) for i in read.indices if reads(i)]
    inside = {n for i in outer for n in walk(i) if n is not i}
    return [i for i in dict.fromkeys(outer) if i not in inside]


def without_places(e: Expr) -> Expr:
    """``e`` as if all that data choose stood in front."""
    own = set(places(e))
    return substitute(e, lambda node: Const("int32", 0) if node in own else None)


def choosing_block(block: Block) -> Block:
    """The block with the axes that choose a matrix of it, where a product's operand is one."""
    body = block.body
    if not isinstance(body, Reduce) or block.ragged or block.scatter is not None:
        return block
    chooses = places(body.source)
    nodes = {n: None for place in chooses for n in walk(place)}
    operands = [r for r in reads(body.source) if r not in nodes]
    chosen = frozenset(n for n in nodes if isinstance(n, Axis))
    vectors = next((a for a in reversed(block.spatial) if a.extent != 1), None)
    if not chooses or len(operands) < 2 or vectors in chosen:
        return block
    if any(a.kind == "reduce" for a in chosen) or not all(map(_alone, nodes)):
        return block
    matrices = [r for r in operands if any(i in chooses for i in r.indices)]
    if not all(_has_rows(r, chosen) for r in matrices):
        return block
    return replace(block, chosen=chosen)


def _has_rows(read: Read, chosen: frozenset[Axis]) -> bool:
    """Whether a read moves with a spatial axis besides those that choose its place."""
    axes = {n for i in read.indices if not reads(i) for n in walk(i) if isinstance(n, Axis)}
    return any(a.kind == "spatial" and a.extent != 1 for a in axes - chosen)


def _alone(node: Expr) -> bool:
    return isinstance(node, Read) or computed_alone(node)


def weight_axes(block: Block, read: Read) -> list[Axis | None] | None:
    """The axis that indexes each dimension of a weight, if all are that simple.

    None stands for a dimension of which one point is read: 0, or one that data choose.
    Returns None when an index is anything else, or an axis indexes two dimensions.
    """
    out: list[Axis | None] = []
    for index in read.indices:
        if isinstance(index, Axis) and index not in out:
            out.append(index)
        elif (isinstance(index, Const) and index.value == 0) or (
            block.chosen is not None and reads(index)
        ):
            out.append(None)
        else:
            return None
    return out
