"""What a row decides of a GPU's kernel beside its tiles, in words."""

from __future__ import annotations

from tilework.kinds.cuda.mma.product import points
from tilework.kinds.cuda.mma.tile import Tiles
from tilework.kinds.cuda.staging import (
    DIRECT,
    REDUCE_FIRST,
    box,
    operands,
    shared_bytes,
    spans,
)
from tilework.kinds.cuda.tiling import form_of
from tilework.space.nest import BlockNest

_ROWS = {
    "threads": "threads of a block: {}",
    "lanes": "threads that share a point or a row: {}",
    "groups": "points or rows of a block at a time: {}",
    "serial": "vectors of a thread: {}",
    "unroll": "inner steps expanded: up to {}",
    "stages": "fetches under way while one is used: {}",
    "registers": "registers of a thread: at most {}",
    "block_m": "tile of a block: {} rows",
    "block_n": "tile of a block: {} columns",
    "block_k": "tile of a fetch: {} terms",
    "warp_m": "tile of a warp: {} rows",
    "warp_n": "tile of a warp: {} columns",
}


def words(nest: BlockNest) -> list[str]:
    """Lines about one row, in the order of its columns."""
    form = form_of(nest.block)
    staged = _staged(nest) if form == "tiled" else _product(nest) if form == "mma" else []
    out = [f"kernel: {form}", *staged]
    for kind, text in _ROWS.items():
        if kind in nest.values:
            value = int(nest.values[kind][0])
            if kind == "registers" and not value:
                continue
            if kind == "stages" and form == "tiled":
                if staged and value > 1:
                    out.append("double buffer: the next fetch comes while one is used")
                continue
            out.append(text.format(value - (kind == "stages")))
    return out


def _product(nest: BlockNest) -> list[str]:
    """What tensor cores multiply, and the memory of its tiles."""
    tiles = Tiles.of(nest)
    product, out = tiles.product, []
    parts = {"rows": product.m, "columns": product.n, "terms": product.k, "batch": product.batch}
    for what, axes in parts.items():
        if axes:
            out.append(f"{what}: {' '.join(a.name for a in axes)} ({points(axes)} points)")
    shared = f"shared memory of a block: {int(tiles.shared[0])} bytes"
    return [f"tensor cores multiply {product.kind}", *out, shared]


def _staged(nest: BlockNest) -> list[str]:
    """Operands in shared memory, and how they get there."""
    out = []
    span = spans(nest)
    for number, operand in enumerate(operands(nest.block)):
        name = operand.read.tensor.name
        mode = int(nest.values[f"stage{number}"][0])
        if mode == DIRECT or not operand.stageable:
            out.append(f"{name} is read straight from memory")
            continue
        tile = box(nest, number, operand, span)
        shape = "x".join(str(int(e[0])) for e in tile.extents)
        order = "reduction first" if mode == REDUCE_FIRST else "as it lies in memory"
        pad, width = int(nest.values[f"pad{number}"][0]), int(tile.width[0])
        padded = f", rows padded by {pad}" if pad else ""
        how = "computed into" if operand.attached is not None else "staged in"
        fetched = f", {width} elements at a time" if width > 1 else ""
        out.append(f"{name} [{shape}] {how} shared memory, {order}{padded}{fetched}")
    if any("shared memory" in line for line in out):
        out.append(f"shared memory of a block: {int(shared_bytes(nest)[0])} bytes")
    return out
