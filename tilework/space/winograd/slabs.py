"""Slabs of a convolution in its Winograd form: some rows of the output through all steps.

Data at the points, and products there, are each 2.25 times as large as the data and the output
(of F(4x4, 3x3)). On a large map they do not stay in a cache from one step to the next. Those of a
few rows do::

    for each slab:  data_pack of its tiles, bgemm of them, its rows of the output

A slab reads the rows of its window; whether they lie on the map is asked of their place there
(`Slabs.vars`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilework.frozen import frozen
from tilework.index.extents import Extent, ceil_div, known, most, typical
from tilework.index.symbols import certain, same
from tilework.space.bounds import conjuncts
from tilework.space.slabs import Places, Slabs, part_of, place_reads, slab_vars
from tilework.space.winograd.match import Conv, match
from tilework.space.winograd.matrices import TILES
from tilework.space.winograd.rewrite import winograd_variants
from tilework.te.affine import linear
from tilework.te.dag import ComputeDAG
from tilework.te.expr import (
    Axis,
    Compare,
    Const,
    Expr,
    IfThenElse,
    Read,
    reads,
    replace_axes,
    walk,
)
from tilework.te.functions import if_then_else
from tilework.te.tensor import Compute, Operation, Placeholder

_BYTES = 4
"""Of an element."""
_MOST_OVER = 1.1
"""Rows of tiles in all slabs, relative to those of the map, from which on slabs do not pay."""


def convolution_slabs(dag: ComputeDAG, least: int, wanted: int, cores: int) -> Slabs | None:
    """The slabs of a convolution over a large map; None where none pay, or it has no such form.

    Args:
        least: bytes of data and products at the points from which on slabs may pay.
        wanted: the same of one slab, at most, if it has more than one row of tiles.
        cores: that share the slabs.
    """
    conv = match(dag)
    if conv is None or len(dag.outputs) != 1 or not _by_rows(conv):
        return None
    padding, images = _padding(conv), conv.op.shape[0]
    each = _rows_each(conv, wanted, least // typical(images), -(-cores // typical(images)))
    places = None if padding is None else _places(dag, conv, padding)
    if padding is None or each is None or places is None:
        return None
    rows = conv.op.shape[1]
    counts = images, ceil_div(rows, each)
    ragged = not isinstance(rows, int) and not certain(lambda: rows % each == 0)
    if ragged and not padding.ends:
        return None
    shared = known(counts[1]) * each - rows if isinstance(rows, int) else 0
    numbers, window = slab_vars((images, rows - each + 1) if shared else counts), conv.taps - 1
    bodies: dict[Operation, Expr] = {}
    if isinstance(conv.data.op, Compute):
        row = conv.data.op.axes[1]
        first = numbers[1] if shared else numbers[1] * each
        bodies[conv.data.op] = padding.body(row, row + first)
    beyond = {op: (0, window) for op in (conv.data.op, padding.source)}
    variants = winograd_variants(part_of(dag, places, (1, each), beyond, bodies))
    if not variants:
        return None
    own, around = ((0, 0), (0, 0)), ((0, 0), (padding.before, window))
    return Slabs(
        whole=dag,
        part=variants[-1].dag,
        places=tuple(places[t.op] for t in dag.tensors),
        rows=(1, each),
        counts=counts,
        cores=cores,
        vars=numbers,
        margins=tuple(around if t.op is padding.source else own for t in dag.tensors),
        form=variants[-1].name,
        transforms=variants[-1].transforms,
        shared=(0, shared) if shared else (),
        ragged=(1,) if ragged else (),
    )


def _rows_each(conv: Conv, wanted: int, least: int, cores: int) -> int | None:
    """Rows of the output in a slab: as many as wanted, but few enough for two slabs a core.

    Slabs are alike, and tiles at their ends reach beyond them as little as at the map's end. Where
    no such slabs are as small as wanted, they are of whole tiles, and the last one begins earlier.
    Where a run decides how many rows there are, they are of whole tiles as well, and small enough
    for the longest rows.
    """
    rows, tile = conv.op.shape[1], TILES[conv.taps][-1]
    line = _line_bytes(conv, tile)
    if ceil_div(most(rows), tile) * line < least:
        return None
    if not isinstance(rows, int):
        wide = max(most(rows) // tile // max(2 * cores, 2), 1)
        return tile * max(min(wanted // line, wide), 1)
    limit = _MOST_OVER * -(-rows // tile)
    lines = {n: -(-n // tile) for n in range(tile, rows // max(cores, 2) + 1) if rows % n == 0}
    lines = {n: here for n, here in lines.items() if here * (rows // n) <= limit}
    near = [n for n, here in lines.items() if here * line <= wanted and rows // n >= 2 * cores]
    if not near:
        whole = {n: n // tile for n in range(tile, rows // max(2 * cores, 2) + 1, tile)}
        whole = {n: here for n, here in whole.items() if here * -(-rows // n) <= limit}
        near = [n for n, here in whole.items() if here * line <= wanted or n == tile]
    return max(near, default=min(lines, default=None))


def _by_rows(conv: Conv) -> bool:
    """Whether it is one over maps: images, then rows and columns that are both transformed."""
    images, *maps = conv.windows[: -1 - len(conv.groups)]
    plain = images.tap is None and images.stride == 1
    return plain and len(maps) == 2 and all(w.transformed for w in maps)


def _line_bytes(conv: Conv, tile: int) -> int:
    """Bytes of data and products at the points of a row of tiles."""
    columns, channels = conv.windows[2].output, conv.windows[-1].tap
    assert columns is not None
    assert channels is not None
    points = (tile + conv.taps - 1) ** 2 * ceil_div(columns.most, tile)
    points *= math.prod(a.typical for a in conv.groups)
    return points * (channels.typical + conv.op.axes[-1].typical) * _BYTES


@frozen
class _Padding:
    """How the data of a convolution lie on the map that it is given.

    Attributes:
        source: what is read.
        before: rows of zeros before it.
        ends: whether what lies beyond its last row is zeros as well.
        body: the data at their place, with what stands for the row and its place on the map.
    """

    source: Operation
    before: int
    ends: bool
    body: Callable[[Expr, Expr], Expr]


def _padding(conv: Conv) -> _Padding | None:
    """The padding of a convolution; None where its data are not an array with zeros around it."""
    data = conv.data.op
    if isinstance(data, Placeholder):
        return _Padding(data, 0, False, lambda here, _: here)
    body = data.body
    guard = body if isinstance(body, IfThenElse) else None
    read = body if guard is None else guard.a
    if not isinstance(read, Read) or not isinstance(read.tensor.op, Placeholder):
        return None
    image, row = data.axes[:2]
    place = linear(read.indices[1])
    if read.indices[0] is not image or place is None or dict(place.coefficients) != {row: 1}:
        return None
    if any(a in walk(i) for i in read.indices[2:] for a in (image, row)):
        return None
    if guard is not None:
        zeros = isinstance(guard.b, Const) and guard.b.value == 0
        if not zeros or image in walk(guard.cond):
            return None

    def at(here: Expr, there: Expr) -> Expr:
        inside = Read(read.dtype, read.tensor, (read.indices[0], here, *read.indices[2:]))
        if guard is None:
            return inside
        return if_then_else(replace_axes(guard.cond, {row: there}), inside, guard.b)

    before, source = -known(place.const), read.tensor.op
    ends = guard is not None and _below(guard.cond, row, source.shape[1] + before)
    return _Padding(source, before, ends, at)


def _below(cond: Expr, row: Axis, end: Extent) -> bool:
    """Whether a condition that holds says that a row is one before ``end``."""
    for part in conjuncts(cond):
        if isinstance(part, Compare) and part.op == "<" and part.a is row:
            last = linear(part.b)
            if last is not None and not last.coefficients and same(last.const, end):
                return True
    return False


def _places(dag: ComputeDAG, conv: Conv, padding: _Padding) -> dict[Operation, Places] | None:
    """Images and rows of the output are those of all stages; None where they are not."""
    output = dag.outputs[0].op
    by_row: Places = (0, 1, *(None,) * len(conv.op.shape[2:]))
    read_once = {conv.data.op, padding.source}
    places: dict[Operation, Places] = {output: by_row}
    if len(output.shape) != len(by_row):
        return None
    for op in reversed(dag.compute_ops):
        if op is conv.op:
            if places[op] != by_row:
                return None
            places |= {conv.data.op: by_row, padding.source: by_row}
            places[conv.weight.op] = (None,) * len(conv.weight.shape)
        elif op not in read_once:
            if not place_reads(op, places, output.shape[:2]):
                return None
            if any(r.tensor.op in read_once for r in reads(op.body)):
                return None
    return places
