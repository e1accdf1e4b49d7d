"""The memory accesses of a block: which tensors it touches, and how its axes move through them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes
from tilework.frozen import frozen
from tilework.index.extents import Typical, typical, typicals
from tilework.index.form import Form
from tilework.index.strides import row_major
from tilework.index.symbols import Symbolic
from tilework.kinds.cpu.caches import LINE_BYTES, PAGE_BYTES
from tilework.kinds.cpu.features.found import found_dims, moved_by_data
from tilework.once import cached_property
from tilework.space.blocks import Block
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.tensor import Placeholder

_SHARE_OF_REST = 0.5


class Reach(NamedTuple):
    """Which elements of a dimension are touched while axes run.

    Attributes:
        start: how many if none runs.
        moving: axes that move along it, and by how much.
        alone: whether there is one, by one element.
        most: how many there are, if axes reach beyond; else None.
        lines: whether whole cache lines are touched: neighbours in memory.
    """

    start: float
    moving: tuple[tuple[x.Axis, float], ...]
    alone: bool
    most: Typical | None
    lines: bool


@frozen(eq=False)
class Access:
    """One tensor touched by a block, by its linear index in each dimension.

    Attributes:
        dims: per dimension, |coefficient| of each axis (None where the index is not linear).
        shape: extents of the tensor.
        packed: whether the schedule lays the tensor out in reading order.
        store: whether the block writes it.
        lane_stride: elements between neighbours along the vectorised axis (0: the same element).
        guarded: whether the read is conditional.
        once: whether it is touched only when a register tile is finished.
        share: of the steps that read it. Of the terms behind the whole groups of a sum that a run
            decides there are half as many as a group has, in the mean of its lengths.
        by_data: dimensions in which data decide the place, and ``shape`` is what there is to find.
        far: whether neighbours along the vectorised axis are as far apart as a run says.
    """

    dims: tuple[dict[x.Axis, float] | None, ...]
    shape: tuple[Typical, ...]
    element_bytes: int
    packed: bool
    store: bool
    lane_stride: int
    guarded: bool
    once: bool
    share: float = 1.0
    by_data: tuple[int, ...] = ()
    far: bool = False

    def stride_lines(self, axis: x.Axis) -> int:
        """Cache lines between neighbours along ``axis``; 1 where they are not whole lines."""
        pairs = zip(reversed(self.dims), reversed(self.strides), strict=True)
        total = self.element_bytes * sum([(dim or {}).get(axis, 0) * n for dim, n in pairs])
        return int(total) // LINE_BYTES if total and total % LINE_BYTES == 0 else 1

    @cached_property
    def strides(self) -> tuple[Typical, ...]:
        """Elements between neighbours in each dimension."""
        return typicals(row_major(self.shape))

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Of each dimension but the last, how far apart the elements are that it is read at."""
        out = []
        for dim in self.dims[:-1]:
            moving = [c for a, c in (dim or {}).items() if a.typical > 1]
            whole = [int(c) for c in moving if c == int(c)]
            out.append(math.gcd(*whole) if whole and len(whole) == len(moving) else 1)
        return (*out, 1)[: len(self.dims)]

    @cached_property
    def lines_apart(self) -> tuple[int, ...]:
        """Lines, of those of a page, that the strides of each dimension are a multiple of."""
        strides = zip(self.strides, self.steps, strict=True)
        each = (self.element_bytes * n * step for n, step in strides)
        return tuple(max(math.gcd(n, PAGE_BYTES) // LINE_BYTES, 1) for n in each)

    @cached_property
    def apart(self) -> NDArray[np.intp]:
        """The same, the last dimension first."""
        return np.array(self.lines_apart[::-1])

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """Elements of each dimension but the first, as a column, the last first."""
        return np.array(self.shape[:0:-1])[:, None]

    @cached_property
    def widest_apart(self) -> int:
        """The greatest of these, of the dimensions that there is more than one element of."""
        each = zip(self.lines_apart, self.shape, strict=True)
        return max((n for n, size in each if size > 1), default=1)

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """How far each dimension is read."""
        out = []
        last = len(self.dims) - 1
        for i, (dim, size, step) in enumerate(zip(self.dims, self.shape, self.steps, strict=True)):
            extent = Typical(-(-size // step))
            moving = [(a, c / step) for a, c in (dim or {}).items() if a.typical > 1]
            alone = len(moving) == 1 and moving[0][1] == 1
            over = 1 + sum(c * (a.typical - 1) for a, c in moving) > extent
            start = 1.0 if dim is not None else float(extent)
            most = extent if over else None
            lines = i == last and not self.packed
            out.append(Reach(start, tuple(moving), alone, most, lines))
        return tuple(out)

    @cached_property
    def tensor_bytes(self) -> int:
        """Size of the whole tensor."""
        return math.prod(self.shape) * self.element_bytes

    @cached_property
    def slides(self) -> bool:
        """Whether a dimension is read at spatial position plus tap: windows overlap."""
        linear_dims = (d for i, d in enumerate(self.dims) if i not in self.by_data)
        return any(
            d is not None and {a.kind for a in d} == {"spatial", "reduce"} for d in linear_dims
        )

    @cached_property
    def axes(self) -> frozenset[x.Axis]:
        """Axes that the address depends on."""
        return frozenset(a for d in self.dims if d is not None for a in d)


def accesses_of(block: Block) -> tuple[Access, ...]:
    """The accesses of a block: reads of its source, then of its epilogue, then the store."""
    free = set(block.op.attrs.get("layout_free", ()))
    packs = block.levels.reduce > 1
    last = block.spatial[-1] if block.spatial else None
    accesses: list[Access] = []
    rest = _rests(block.source)
    for read, guarded in guarded_reads(block.source):
        op = read.tensor.op
        packed = packs and isinstance(op, Placeholder) and op.name in free
        ragged = bool(block.ragged)
        if read in rest:  # which all lanes ask at once
            own = _access(read, last, packed=packed, ragged=ragged)
            accesses.append(replace(own, share=_SHARE_OF_REST))
            continue
        accesses.append(_access(read, last, packed=packed, guarded=guarded, ragged=ragged))
    if block.epilogue is not None and block.epilogue_body is not None:
        axes, there = tuple(block.epilogue.axes), tuple(block.spatial)
        for read, guarded in guarded_reads(block.epilogue_body):
            if read.tensor.op is not block.op:
                accesses.append(_finishing(read, axes, there, guarded))
    out = block.result
    dims: _Dims = tuple({a: 1} for a in block.spatial)
    accesses.append(
        Access(
            dims,
            typicals(out.shape),
            dtype_bytes(out.dtype),
            packed=False,
            store=True,
            lane_stride=1,
            guarded=False,
            once=bool(block.reduce),
        )
    )
    return tuple(accesses)


def plain_access(read: x.Read) -> Access:
    """The access of a read whose tensor keeps its layout."""
    return _access(read, None)


@lru_cache(maxsize=4096)
def _rests(e: x.Expr) -> set[x.Read]:
    """The reads of terms of which there are as many as a run decides (`space.rfactor`)."""
    out: set[x.Read] = set()
    for node in x.nodes(e):
        match node:
            case x.IfThenElse(cond=x.Compare(op="<", a=x.Axis(), b=x.Const(value=Symbolic()))):
                out.update(x.reads(node))
    return out


@lru_cache(maxsize=4096)
def guarded_reads(e: x.Expr, guarded: bool = False) -> tuple[tuple[x.Read, bool], ...]:
    """The reads of an expression, in order, and whether each is conditional."""
    if isinstance(e, x.Read):
        return ((e, guarded),)
    inside = guarded or isinstance(e, x.IfThenElse)
    return tuple([r for child in x.children(e) for r in guarded_reads(child, inside)])


_Dims = tuple[dict[x.Axis, float] | None, ...]


def _dims(read: x.Read, rename: dict[x.Axis, x.Axis]) -> _Dims:
    return tuple(_dim(i, rename) for i in read.indices)


def _dim(index: x.Expr, rename: dict[x.Axis, x.Axis]) -> dict[x.Axis, float] | None:
    divisor = 1
    if isinstance(index, x.Binary) and index.op == "//" and isinstance(index.b, x.Const):
        divisor = typical(index.b.whole)
        index = index.a
    form = linear(index)
    if form is None:
        return None
    return {rename.get(a, a): abs(typical(c)) / divisor for a, c in form.coefficients.items()}


def _stored_rows(read: x.Read) -> tuple[_Dims, tuple[Typical, ...]]:
    """Dimensions of stored blocks, read at ``starts[axis // R] + e`` and ``axis % R``.

    The same elements as a row of the blocks that there are on average for every point of the axis:
    what a nest touches of that, it touches of the blocks.
    """
    dims, shape = list(_dims(read, {})), list(typicals(read.tensor.shape))
    for d, index in enumerate(read.indices):
        row, axis = _row_start(index)
        if row is None or axis is None:
            dims[d] = _found_places(index) if dims[d] is None else dims[d]
            continue
        dims[d] = {a: abs(typical(c)) for a, c in row.coefficients.items()}
        per_point: float = shape[d] / axis.typical
        within = [m for m, i in enumerate(read.indices) if _remainder(i) is axis]
        for m in within:
            per_point *= shape[m]
            dims[m], shape[m] = {axis: 1}, axis.typical
        if within:
            shape[d] = Typical(max(round(per_point), 1))
        else:
            dims[d] = {**(dims[d] or {}), axis: per_point}
    return tuple(dims), tuple(shape)


def _found_places(index: x.Expr) -> dict[x.Axis, float] | None:
    """A position that is read from memory: each step of a reduction finds another one."""
    inner = next((n for n in x.walk(index) if isinstance(n, x.Read)), None)
    if inner is None:
        return None

    def with_value(value: int) -> Form[x.Axis] | None:
        literal = x.Const("int32", value)
        return linear(x.substitute(index, lambda n: literal if n is inner else None))

    zero, one = with_value(0), with_value(1)
    if zero is None or one is None:
        return None
    out = {a: abs(float(typical(c))) for a, c in zero.coefficients.items()}
    steps = (n for n in x.walk(inner) if isinstance(n, x.Axis) and n.kind == "reduce")
    return {**dict.fromkeys(steps, abs(float(typical(one.const - zero.const)))), **out}


def _remainder(index: x.Expr) -> x.Expr | None:
    return index.a if isinstance(index, x.Binary) and index.op == "%" else None


def _row_start(index: x.Expr) -> tuple[Form[x.Axis] | None, x.Axis | None]:
    """A position in rows of stored elements: ``starts[axis // n] + linear`` as its parts."""
    starts = [n for n in x.walk(index) if isinstance(n, x.Read)]
    if len(starts) != 1 or len(starts[0].indices) != 1:
        return None, None
    axes = [n for n in x.walk(starts[0]) if isinstance(n, x.Axis)]
    form = linear(x.substitute(index, lambda n: x.Const("int32", 0) if n is starts[0] else None))
    moved = linear(x.substitute(index, lambda n: x.Const("int32", 1) if n is starts[0] else None))
    if form is None or moved is None or moved.const - form.const != 1 or len(axes) != 1:
        return None, None
    return (form, axes[0]) if axes[0].kind == "spatial" else (None, None)


def _lane(
    dims: tuple[dict[x.Axis, float] | None, ...], shape: tuple[Typical, ...], last: x.Axis | None
) -> int:
    total = 0.0
    for dim, size, stride in [*zip(dims, shape, row_major(shape), strict=True)][::-1]:
        if dim is None:
            return size
        if last is not None:
            total += dim.get(last, 0) * typical(stride)
    return int(total)


@lru_cache(maxsize=4096)
def _access(
    read: x.Read,
    last: x.Axis | None,
    *,
    packed: bool = False,
    guarded: bool = False,
    ragged: bool = False,
) -> Access:
    """The access of a read (cached: blocks of one stage differ in their levels alone).

    With limits, a register tile's points share what is found in data (`space.ragged`).
    """
    plain, data = typicals(read.tensor.shape), moved_by_data(read)
    if ragged:
        dims, shape = _stored_rows(read)
        fixed: _Dims = tuple({} if d in data else dim for d, dim in enumerate(dims))
    else:
        dims, shape = found_dims(read, _dims(read, {}), plain)
        fixed = dims
    stride = _lane(fixed, plain, last)
    if not ragged and last is not None and _in_places(last, read, data):
        stride = max(stride, LINE_BYTES)  # each lane has a place of its own
    if packed and stride:
        stride = 1
    by_data = () if ragged else data
    strides = zip(fixed, read.tensor.open_strides, strict=True)
    far = not packed and any(last in (dim or {}) and is_open for dim, is_open in strides)
    return _make(read, dims, shape, stride, by_data, packed=packed, guarded=guarded, far=far)


@lru_cache(maxsize=4096)
def _finishing(
    read: x.Read, axes: tuple[x.Axis, ...], there: tuple[x.Axis, ...], guarded: bool
) -> Access:
    """The access of an epilogue's read, whose axes are others where its block is."""
    rename = dict(zip(axes, there, strict=True))
    whole, data = typicals(read.tensor.shape), moved_by_data(read)
    dims, shape = found_dims(read, _dims(read, rename), whole, rename)
    lane = _lane(dims, shape, there[-1] if there else None)
    return _make(read, dims, shape, lane, data, guarded=guarded, once=True)


def _in_places(axis: x.Axis, read: x.Read, data: tuple[int, ...]) -> bool:
    return any(axis in x.walk(read.indices[d]) for d in data)


def _make(
    read: x.Read,
    dims: tuple[dict[x.Axis, float] | None, ...],
    shape: tuple[Typical, ...],
    stride: int,
    by_data: tuple[int, ...] = (),
    *,
    packed: bool = False,
    guarded: bool = False,
    once: bool = False,
    far: bool = False,
) -> Access:
    size = dtype_bytes(read.tensor.dtype)
    return Access(
        dims, shape, size, packed, False, stride, guarded, once, by_data=by_data, far=far
    )
