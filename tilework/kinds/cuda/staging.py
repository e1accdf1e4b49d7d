"""Operands of a tiled reduction, and the tiles of them that a block stages in shared memory.

A fetch brings, of each staged operand, the box of elements that the block's tile and the inner
reduce loops touch. Lowering reads this geometry for one row; limits, features and the draft model
read it for all rows of a population: shared memory is predicted exactly since it is the same code.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes
from tilework.frozen import frozen
from tilework.index.extents import known_shape, round_up
from tilework.index.form import Form, variable
from tilework.index.strides import in_order, reach
from tilework.space.blocks import Attached, Block
from tilework.space.nest import BlockNest, Ints
from tilework.te.affine import linear
from tilework.te.expr import (
    Axis,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    IfThenElse,
    Read,
    Reduce,
    children,
    reads,
    walk,
)

DIRECT, ROW_ORDER, REDUCE_FIRST = 0, 1, 2
"""How an operand reaches the compute loops: straight from memory; staged as it lies in memory; or
staged with the dimensions that reduce axes alone index outermost, so that the threads of a warp
read neighbours."""
ALIGNMENT = 16
"""Bytes; each buffer in a block's shared memory begins at a multiple of it."""


ASYNC_BYTES = 16
"""That an asynchronous copy moves at once."""


@frozen(eq=False)
class Operand:
    """A read of what is reduced.

    Attributes:
        read: the read, in the axes of the block's anchor.
        forms: each index as a linear form; None where one has none, or a negative coefficient.
        attached: the producer that is computed while it is staged; None for a tensor in memory.
    """

    read: Read
    forms: tuple[Form[Axis], ...] | None
    attached: Attached | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor that is read."""
        return known_shape(self.read.tensor.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return dtype_bytes(self.read.tensor.dtype)

    @property
    def stageable(self) -> bool:
        """Whether the elements that a tile touches lie in a box."""
        return self.forms is not None and bool(self.shape)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axes that its indices vary with."""
        return tuple(dict.fromkeys(a for f in self.forms or () for a in f.coefficients))

    def order(self, mode: int) -> tuple[int, ...]:
        """Dimensions as they are staged, outermost first."""
        dims = tuple(range(len(self.shape)))
        if mode != REDUCE_FIRST or self.forms is None:
            return dims
        first = tuple(
            d for d in dims
            if self.forms[d].coefficients
            and all(a.kind == "reduce" for a in self.forms[d].coefficients)
        )  # fmt: skip
        return (*first, *(d for d in dims if d not in first))


@lru_cache(maxsize=512)
def operands(block: Block) -> tuple[Operand, ...]:
    """The distinct reads of a block's source, in order; columns of a row go by their number."""
    by_op = {a.op: a for a in block.attached}
    out = []
    for read in dict.fromkeys(reads(block.source)):
        forms = tuple(linear(i) for i in read.indices)
        good = all(f is not None and min(f.coefficients.values(), default=0) >= 0 for f in forms)
        known = tuple(f for f in forms if f is not None) if good else None
        attached = by_op.get(read.tensor.op)  # type: ignore[arg-type]
        out.append(Operand(read, known, attached))
    return tuple(out)


@lru_cache(maxsize=512)
def zero_behind(block: Block) -> frozenset[Axis]:
    """Reduce axes behind whose last term all operands are 0: fetches may reach over their end.

    So it is in a sum of products each of whose factors has a dimension of just this axis, and what
    is fetched from outside of a tensor is 0.
    """
    if not isinstance(block.body, Reduce) or block.body.kind != "sum" or block.body.limits:
        return frozenset()
    if not _of_factors(block.source):
        return frozenset()
    return frozenset(a for a in block.reduce if all(_along(o, a) for o in operands(block)))


def _of_factors(e: Expr) -> bool:
    """Whether an expression multiplies what it reads, and does no more than keep a 0."""
    if isinstance(e, Read):
        return True
    keeps = isinstance(e, Cast) or (isinstance(e, Call) and e.name == "round_tf32")
    product = isinstance(e, Binary) and e.op == "*"
    return (keeps or product) and all(_of_factors(c) for c in children(e))


def _along(operand: Operand, axis: Axis) -> bool:
    """Whether one dimension of the operand is the axis."""
    return operand.forms is not None and any(
        form == variable(axis) and size == axis.points
        for form, size in zip(operand.forms, operand.shape, strict=True)
    )


@frozen(eq=False)
class Box:
    """What one fetch stages of an operand, for P rows.

    Attributes:
        extents: elements along each dimension.
        strides: elements of shared memory between neighbours in each dimension.
        reach: elements of shared memory, padding included; 0 in rows that do not stage it.
        width: elements that one thread fetches at once: what the row asks for, as far as memory's
            alignment allows.
    """

    extents: tuple[Ints, ...]
    strides: tuple[Ints, ...]
    reach: Ints
    width: Ints


def spans(nest: BlockNest) -> dict[Axis, Ints]:
    """Points of each axis that a block covers in one fetch. Not capped: tiles may overhang."""
    out = {}
    for axis in (*nest.block.spatial, *nest.block.reduce):
        covered = np.ones(nest.count, np.int64)
        for extent in nest.tiles[axis][1:]:
            covered = covered * extent
        out[axis] = covered
    return out


def box(nest: BlockNest, number: int, operand: Operand, span: dict[Axis, Ints]) -> Box:
    """The geometry of operand ``number`` in all rows; it must be stageable."""
    assert operand.forms is not None
    ones = np.ones(nest.count, np.int64)
    mode, pad = nest.values[f"stage{number}"], nest.values[f"pad{number}"]
    extents = tuple(f.width(span, ones) for f in operand.forms)
    plain = in_order(extents, operand.order(ROW_ORDER), pad)
    turned = in_order(extents, operand.order(REDUCE_FIRST), pad)
    strides = tuple(
        np.where(mode == REDUCE_FIRST, t, p) for p, t in zip(plain, turned, strict=True)
    )
    far = reach(extents, strides, ones)
    width = _width(nest.values[f"width{number}"], operand, extents[-1], span)
    return Box(extents, strides, np.where(mode == DIRECT, 0, far), width)


def _width(wanted: Ints, operand: Operand, extent: Ints, span: dict[Axis, Ints]) -> Ints:
    """The widest aligned vectors, at most as wanted, along the last dimension of memory."""
    assert operand.forms is not None
    if operand.attached is not None and operand.attached.block is not None:
        return np.ones_like(wanted)
    last, size = operand.forms[-1], operand.shape[-1]
    width = np.ones_like(wanted)
    for lanes in (2, 4):
        fits = (extent % lanes == 0) & (size % lanes == 0) & (last.const % lanes == 0)
        for axis, c in last.coefficients.items():
            fits = fits & (c * span[axis] % lanes == 0)
        width = np.where(fits & (wanted >= lanes), lanes, width)
    return width


def aligned(nbytes: Ints) -> Ints:
    """Bytes up to the next buffer's beginning."""
    return round_up(nbytes, ALIGNMENT)


def shared_bytes(nest: BlockNest) -> Ints:
    """Bytes of shared memory that a tiled block needs in each row."""
    span, total = spans(nest), np.zeros(nest.count, np.int64)
    for i, operand in enumerate(operands(nest.block)):
        if operand.stageable:
            far = box(nest, i, operand, span).reach
            total = total + aligned(far * operand.itemsize) * nest.values["stages"]
    return total


def whole_stores(shape: Box) -> NDArray[np.bool_]:
    """Whether a fetched vector lies in shared memory as it does in memory, aligned."""
    ok: NDArray[np.bool_] = shape.strides[-1] == 1
    for extent, stride in zip(shape.extents[:-1], shape.strides[:-1], strict=True):
        ok = ok & ((stride % shape.width == 0) | (extent == 1))
    return ok


def passes(operand: Operand, shape: Box) -> NDArray[np.bool_]:
    """Whether asynchronous copies may bring an operand: 16 bytes at a time, as they are or 0."""
    wide = shape.width * operand.itemsize == ASYNC_BYTES
    return np.asarray(wide & whole_stores(shape) & _copied(operand))


def _copied(operand: Operand) -> bool:
    """Whether elements are those of a tensor, or 0 where a vector as a whole is outside of it."""
    if operand.attached is None:
        return True
    if operand.attached.block is not None:
        return False
    last, value = operand.attached.op.axes[-1], operand.attached.body
    while isinstance(value, IfThenElse):
        zero = isinstance(value.b, Const) and value.b.value == 0
        if not zero or any(n is last for n in walk(value.cond)):
            return False
        value = value.a
    if not isinstance(value, Read) or value.dtype != operand.read.tensor.dtype:
        return False
    form = linear(value.indices[-1])
    others = [n for i in value.indices[:-1] for n in walk(i)]
    return form is not None and form.coefficients == {last: 1} and last not in others


@frozen(eq=False)
class Fetched:
    """What a thread of a tiled block stages in one fetch, for P rows.

    Attributes:
        elements: of all operands.
        in_flight: registers that hold a fetch on its way. With two stages the next one is under
            way while its predecessor is computed with; what asynchronous copies do not bring
            waits in registers.
    """

    elements: Ints
    in_flight: Ints


def fetched(nest: BlockNest, threads: Ints, asynchronous: bool) -> Fetched:
    """What each of a block's threads stages, with asynchronous copies or without."""
    span = spans(nest)
    elements, in_flight = np.zeros(nest.count, np.int64), np.zeros(nest.count, np.int64)
    for i, operand in enumerate(operands(nest.block)):
        if not operand.stageable:
            continue
        shape = box(nest, i, operand, span)
        points = np.ones(nest.count, np.int64)
        for extent in shape.extents:
            points = points * extent
        turns = -(-points // np.maximum(shape.width * threads, 1))
        staged = shape.reach > 0
        waits = staged & (nest.values["stages"] > 1)
        if asynchronous:
            waits = waits & ~passes(operand, shape)
        words = -(-shape.width * operand.itemsize // 4)
        elements = elements + np.where(staged, turns * shape.width, 0)
        in_flight = in_flight + np.where(waits, turns * words, 0)
    return Fetched(elements, in_flight)
