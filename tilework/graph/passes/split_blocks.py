"""Write rearrangements of blocks as reshapes, which cost nothing, and one move of data."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.index.extents import Extent


def split_blocks(net: Network) -> Network:
    """Give blocks dimensions of their own.

    The indices of what remains are linear in the loops, so that it runs at the speed of memory.

    rewrite:
        depth_to_space(x[N, H, W, b*b*C])  ->  reshape(transpose(reshape(x, [N, H, W, b, b, C])))
        space_to_depth(x[N, b*H, b*W, C])  ->  reshape(transpose(reshape(x, [N, H, b, W, b, C])))
        shuffle(x[G*C]; G)                 ->  reshape(transpose(reshape(x, [G, C])))
        tile(x[N]; r)                      ->  reshape(expand(reshape(x, [1, N]), [r, N]))
        repeat(x[N]; r)                    ->  reshape(expand(reshape(x, [N, 1]), [N, r]))
    """
    return rewrite(net, _rule)


def _rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str | None:
    if node.op in ("depth_to_space", "space_to_depth"):
        return _images(b, node, inputs[0])
    if node.op == "shuffle":
        return _shuffled(b, node, inputs[0])
    if node.op in ("tile", "repeat"):
        return _multiplied(b, node, inputs[0])
    return None


def _images(b: Builder, node: Node, x: str) -> str:
    a, size = node.attrs, node.attrs["block"]
    last = a["layout"] == "NHWC"
    shape = b.shape(x) if last else (b.shape(x)[0], *b.shape(x)[2:], b.shape(x)[1])
    n, h, w, c = shape
    # dimensions by name: image, rows, columns, row and column within a block, channels
    deep = "drC" if a["mode"] == "DCR" else "Cdr"  # d: row within the block, r: column
    if node.op == "depth_to_space":
        extents = {"N": n, "H": h, "d": size, "W": w, "r": size, "C": c // size**2}
        old, new = "NHW" + deep, "NHdWrC"
        if not last:
            old, new = "N" + deep + "HW", "NCHdWr"
    else:
        extents = {"N": n, "H": h // size, "d": size, "W": w // size, "r": size, "C": c}
        old, new = "NHdWrC", "NHW" + deep
        if not last:
            old, new = "NCHdWr", "N" + deep + "HW"
    split = b.op("reshape", x, shape=tuple(extents[d] for d in old))
    moved = b.op("transpose", split, perm=tuple(old.index(d) for d in new))
    merged = (extents["N"], *_merged(node, extents, last))
    return b.op("reshape", moved, name=node.name, shape=merged)


def _merged(node: Node, e: dict[str, int], last: bool) -> Sequence[int]:
    """Extents of the result without the first."""
    if node.op == "depth_to_space":
        h, w, c = e["H"] * e["d"], e["W"] * e["r"], e["C"]
    else:
        h, w, c = e["H"], e["W"], e["C"] * e["d"] * e["r"]
    return (h, w, c) if last else (c, h, w)


def _shuffled(b: Builder, node: Node, x: str) -> str:
    shape, axis, groups = b.shape(x), node.attrs["axis"], node.attrs["groups"]
    apart = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(apart))]
    split = b.op("reshape", x, shape=apart)
    moved = b.op("transpose", split, perm=tuple(perm))
    return b.op("reshape", moved, name=node.name, shape=shape)


def _multiplied(b: Builder, node: Node, x: str) -> str:
    apart: list[Extent] = []
    filled: list[Extent] = []
    for n, r in zip(b.shape(x), node.attrs["factors"], strict=True):
        if r == 1:
            apart.append(n)
            filled.append(n)
        else:
            apart += (1, n) if node.op == "tile" else (n, 1)
            filled += (r, n) if node.op == "tile" else (n, r)
    shape = tuple(n * r for n, r in zip(b.shape(x), node.attrs["factors"], strict=True))
    if tuple(apart) == tuple(filled):
        return x
    split = b.op("reshape", x, shape=tuple(apart))
    full = b.op("expand", split, shape=tuple(filled))
    return b.op("reshape", full, name=node.name, shape=shape)
