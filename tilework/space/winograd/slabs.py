"""Slabs of a convolution in its Winograd form: some rows of the output through all steps.

Data at the points, and products there, are each 2.25 times as large as the data and the output
(of F(4x4, 3x3)). On a large map they do not stay in a cache from one step to the next. Those of a
few rows do::

    for each slab:  data_pack of its tiles, bgemm of them, its rows of the output

A slab reads the rows of its window; whether they lie on the map is asked of their place there
(`Slabs.vars`).
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.frozen import frozen
from tilework.index.extents import known, typical
from tilework.space.slabs import Places, Slabs, part_of, place_reads, slab_vars
from tilework.space.winograd.match import Conv, match
from tilework.space.winograd.matrices import TILES
from tilework.space.winograd.rewrite import winograd_variants
from tilework.te.affine import linear
from tilework.te.dag import ComputeDAG
from tilework.te.expr import Const, Expr, IfThenElse, Read, reads, replace_axes, walk
from tilework.te.functions import if_then_else
from tilework.te.tensor import Compute, Operation, Placeholder

_BYTES = 4
"""Of an element."""


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
    rows, tile = conv.op.shape[1], TILES[conv.taps][-1]
    padding = _padding(dag, conv)
    if padding is None or not isinstance(rows, int) or rows % tile:
        return None
    line = _line_bytes(conv, tile)
    counts = [n for n in range(2, rows // tile + 1) if rows // tile % n == 0]
    fit = [n for n in counts if n >= 2 * cores and rows // tile // n * line <= wanted]
    count = min(fit, default=rows // tile)
    images = typical(conv.op.shape[0])
    if images * line * (rows // tile) < least or count < 2 * cores:
        return None
    places = _places(dag, conv, padding)
    if places is None:
        return None
    each, all_counts = (1, rows // count), (conv.op.shape[0], count)
    number = slab_vars(all_counts)
    beyond = {op: (0, conv.taps - 1) for op in (conv.data.op, padding.source)}
    bodies: dict[Operation, Expr] = {}
    if isinstance(conv.data.op, Compute):
        row = conv.data.op.axes[1]
        bodies[conv.data.op] = padding.body(row, row + number[1] * each[1])
    part = part_of(dag, places, each, beyond, bodies)
    variant = winograd_variants(part)[-1]
    own, window = ((0, 0), (0, 0)), ((0, 0), (padding.before, conv.taps - 1))
    margins = tuple(window if t.op is padding.source else own for t in dag.tensors)
    return Slabs(
        dag,
        variant.dag,
        tuple(places[t.op] for t in dag.tensors),
        each,
        all_counts,
        cores,
        number,
        margins,
        variant.name,
        variant.transforms,
    )


def _by_rows(conv: Conv) -> bool:
    """Whether it is one over maps: images, then rows and columns that are both transformed."""
    images, *maps, _ = conv.windows
    return len(maps) == 2 and all(w.transformed for w in maps) and images.tap is None


def _line_bytes(conv: Conv, tile: int) -> int:
    """Bytes of data and products at the points of a row of tiles."""
    columns, channels = conv.windows[2].output, conv.windows[-1].tap
    assert columns is not None
    assert channels is not None
    points = (tile + conv.taps - 1) ** 2 * -(-columns.typical // tile)
    return points * (channels.typical + conv.op.axes[-1].typical) * _BYTES


@frozen
class _Padding:
    """How the data of a convolution lie on the map that it is given.

    Attributes:
        source: what is read.
        before: rows of zeros before it.
        body: the data at their place, with what stands for the row and its place on the map.
    """

    source: Operation
    before: int
    body: Callable[[Expr, Expr], Expr]


def _padding(dag: ComputeDAG, conv: Conv) -> _Padding | None:
    """The padding of a convolution; None where its data are not an array with zeros around it."""
    data = conv.data.op
    if isinstance(data, Placeholder):
        return _Padding(data, 0, lambda here, _: here)
    body = data.body
    guard = body if isinstance(body, IfThenElse) else None
    read = body if guard is None else guard.a
    if not isinstance(read, Read) or not isinstance(read.tensor.op, Placeholder):
        return None
    row, place = data.axes[1], linear(read.indices[1])
    others = (i for d, i in enumerate(read.indices) if d != 1)
    if (
        place is None
        or dict(place.coefficients) != {row: 1}
        or any(row in walk(i) for i in others)
    ):
        return None
    if guard is not None and not (isinstance(guard.b, Const) and guard.b.value == 0):
        return None

    def at(here: Expr, there: Expr) -> Expr:
        inside = Read(read.dtype, read.tensor, (read.indices[0], here, *read.indices[2:]))
        if guard is None:
            return inside
        return if_then_else(replace_axes(guard.cond, {row: there}), inside, guard.b)

    return _Padding(read.tensor.op, -known(place.const), at)


def _places(dag: ComputeDAG, conv: Conv, padding: _Padding) -> dict[Operation, Places] | None:
    """Images and rows of the output are those of all stages; None where they are not."""
    output = dag.outputs[0].op
    by_row: Places = (0, 1, None, None)
    read_once = {conv.data.op, padding.source}
    places: dict[Operation, Places] = {output: by_row}
    if len(output.shape) != len(by_row):
        return None
    for op in reversed(dag.compute_ops):
        if op is conv.op:
            places |= {conv.data.op: by_row, padding.source: by_row}
            places[conv.weight.op] = (None,) * len(conv.weight.shape)
        elif op not in read_once:
            if not place_reads(op, places, output.shape[:2]):
                return None
            if any(r.tensor.op in read_once for r in reads(op.body)):
                return None
    return places
