"""Winograd forms of convolutions with windows of 3, 5 or 7 taps: a rewriting of the compute DAG.

For two dimensions of 3 taps, with ``alpha = m + 2`` and the matrices of
`tilework.space.winograd.matrices`::

    data_pack(n, th, eps, nu, tw, c) = sum over (ra, rb) data[n, m*th + ra, m*tw + rb, c]
                                                          * B[ra, eps] * B[rb, nu]
    bgemm(n, th, eps, nu, tw, f)     = sum over c data_pack[...] * U[eps, nu, c, f]
    out(n, y, x, f) = sum over (ra, rb) bgemm[n, y // m, ra, rb, x // m, f]
                                        * A[ra, y % m] * A[rb, x % m]

with U = G g G^T computed when the weights are packed. For m = 4 a point of the output costs
36 / 16 = 2.25 multiplications per channel pair instead of 9. One transformed dimension (1x3, 3x1)
has no ``nu`` and ``rb``: 1.5 instead of 3. Other windows are not transformed; their taps are
summed with the channels, as the first dimension of a 3x3x3 window::

    bgemm(n, d, th, eps, nu, tw, f) = sum over (rd, c) data_pack[n, d + rd, th, eps, nu, tw, c]
                                                       * U[eps, nu, rd, c, f]

The points stand behind the rows of tiles: threads that share out the rows find in their own cache
what they need of the step before. A schedule whose outermost loop over rows has one iteration
takes the points first. Groups of channels, of which each has weights of its own, stand before the
points::

    bgemm(n, th, g, eps, nu, tw, f)  = sum over c data_pack[...] * U[eps, nu, c, g, f]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tilework.frozen import frozen
from tilework.index.extents import Extent, ceil_div, known_shape
from tilework.index.symbols import certain
from tilework.space.straightline import Matrix
from tilework.space.winograd.match import Conv, match
from tilework.space.winograd.matrices import TILES, data_matrix, result_matrix
from tilework.space.winograd.weights import WeightTransform
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.dag import ComputeDAG
from tilework.te.functions import all as te_all
from tilework.te.functions import cast, if_then_else
from tilework.te.functions import sum as te_sum
from tilework.te.rewrite import replaced
from tilework.te.tensor import Compute, Placeholder, Tensor, compute, reduce_axis

_T = TypeVar("_T")
_LARGEST_SHARE = 0.9
"""Most multiplications, relative to the direct form, at which a form is worth trying."""
_POINTS = ("eps", "nu")
_SUMS = ("ra", "rb")


@frozen(eq=False)
class Variant:
    """Another DAG that computes the same outputs, and how its weights differ.

    Attributes:
        groups: whether channels are in groups.
    """

    name: str
    dag: ComputeDAG
    transforms: dict[str, WeightTransform]
    groups: bool


def winograd_variants(
    dag: ComputeDAG, tiles: Sequence[int] | None = None, op: Compute | None = None
) -> list[Variant]:
    """Winograd forms of the DAG's convolution that save multiplications, one per tile size.

    Args:
        dag: of one task.
        tiles: outputs of a tile; by default those of `TILES`.
        op: only if this is the convolution.
    """
    conv = match(dag)
    if conv is None or op not in (None, conv.op):
        return []
    tiles = TILES[conv.taps] if tiles is None else tiles
    return [_rewrite(dag, conv, m) for m in tiles if conv.saving(m) <= _LARGEST_SHARE]


def _matrix(name: str, rows: Matrix, i: x.Expr, j: x.Expr) -> x.Lookup:
    """Element (i, j) of the transpose of ``rows``."""
    values = tuple(float(v) for column in zip(*rows, strict=True) for v in column)
    return x.Lookup("float32", name, values, (len(rows[0]), len(rows)), (i, j))


def _rewrite(dag: ComputeDAG, conv: Conv, m: int) -> Variant:
    transform = _weight_transform(conv, m)
    pack = _data_pack(conv, m)
    weight = Tensor(Placeholder(conv.weight.name, transform.shape, conv.op.dtype))
    gemm = _bgemm(conv, pack, weight)
    new = {conv.op: _output(conv, gemm, m).op, conv.weight.op: weight.op}
    taps = [w.tap.extent for w in conv.windows[:-1] if w.tap is not None]
    sizes = [m if w.transformed else 1 for w in conv.windows[:-1] if w.tap is not None]
    name = f"F({'x'.join(map(str, sizes))}, {'x'.join(map(str, taps))})"
    transforms = {conv.weight.name: transform}
    return Variant(f"winograd {name}", replaced(dag, new)[0], transforms, bool(conv.groups))


def _weight_transform(conv: Conv, m: int) -> WeightTransform:
    where = {axis: d for d, axis in enumerate(conv.weight_axes)}
    taps = [w for w in conv.windows if w.tap is not None]
    window = tuple(where[w.tap] for w in taps if w.transformed and w.tap is not None)
    kept = tuple(where[a] for a in _summed(conv))
    outputs = tuple(where[a] for a in (*conv.groups, conv.op.axes[-1]))
    shape = known_shape(conv.weight.shape)
    return WeightTransform(m, shape, window, (*kept, *outputs), len(outputs))


def _summed(conv: Conv) -> list[x.Axis]:
    """Reduce axes that the products sum over: windows left as they are, then the channels."""
    return [
        w.tap
        for w in conv.windows
        if w.tap is not None and not w.transformed
        and (w.tap.extent > 1 or w is conv.windows[-1])
    ]  # fmt: skip


def _names(conv: Conv) -> list[str]:
    """Names of the output's axes, apart from those of the transforms."""
    taken = {*_POINTS, *_SUMS}
    return [a.name + "_" * (a.name in taken) for a in conv.op.axes]


def _data_pack(conv: Conv, m: int) -> Tensor:
    """The data of each tile at each point."""
    count = sum(w.transformed for w in conv.windows)
    sizes, cut = list(conv.data.shape), list(conv.data.shape)
    for d, w in enumerate(conv.windows):
        if w.transformed and w.output is not None:
            tiles = ceil_div(w.output.extent, m)
            read = tiles * m + conv.taps - 1
            cut[d], sizes[d] = tiles, _with_room(sizes[d], read)
    data = _extended(conv.data, tuple(sizes))
    points, sums = _POINTS[:count], _SUMS[:count]
    axes = [reduce_axis(m + conv.taps - 1, name) for name in sums]

    def body(*at: x.Axis) -> x.Expr:
        here, rest = _apart(conv, at)
        index: list[x.Expr] = list(rest)
        for axis, d in zip(axes, _transformed(conv), strict=True):
            index[d] = index[d] * m + axis
        value = cast(conv.op.dtype, data[tuple(index)])
        for axis, point in zip(axes, here, strict=True):
            value = value * _matrix("B", data_matrix(m, conv.taps), axis, point)
        return te_sum(value, axis=axes)

    names = _joined(conv, points, [*_names(conv)[:-1], "c"])
    return compute(
        _joined(conv, [m + conv.taps - 1 for _ in points], cut),
        body,
        "data_pack",
        {"const_axes": (*points, *sums)},
        axis_names=_distinct(names),
    )


def _with_room(size: Extent, read: Extent) -> Extent:
    """``size``, or what tiles read where that may be more at some point."""
    return size if certain(lambda: size >= read) else read


def _transformed(conv: Conv) -> list[int]:
    return [d for d, w in enumerate(conv.windows) if w.transformed]


def _joined(conv: Conv, points: Sequence[_T], others: Sequence[_T]) -> tuple[_T, ...]:
    """Dimensions in order: groups and points go before the last tiles and the channels."""
    first = len(others) - 2 - len(conv.groups)
    tiles, *groups, channels = others[first:]
    return (*others[:first], *groups, *points, tiles, channels)


def _apart(conv: Conv, at: Sequence[_T]) -> tuple[tuple[_T, ...], tuple[_T, ...]]:
    """The points and the others, of dimensions in order."""
    *before, tiles, channels = at
    last = len(before) - len(_transformed(conv))
    first = last - len(conv.groups)
    return tuple(before[last:]), (*before[:first], tiles, *before[first:last], channels)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, the repeated ones with a line below."""
    out: list[str] = []
    for name in names:
        while name in out:
            name += "_"
        out.append(name)
    return out


def _bgemm(conv: Conv, pack: Tensor, weight: Tensor) -> Tensor:
    """One product of data and weights per point, summed over channels and windows left alone."""
    fresh = {a: reduce_axis(a.extent, a.name) for a in _summed(conv)}

    def body(*at: x.Axis) -> x.Expr:
        index: list[x.Expr] = []
        points, rest = _apart(conv, at)
        for w, here in zip(conv.windows, (*rest[:-1], None), strict=True):
            tap = fresh.get(w.tap) if w.tap is not None else None
            if here is None:
                assert tap is not None
                index.append(tap)
            elif w.transformed:
                index.append(here)
            else:
                moved: x.Expr = here if w.stride == 1 else here * w.stride
                index.append(moved if tap is None else moved + tap * w.step)
        own = (*points, *fresh.values(), *rest[len(rest) - 1 - len(conv.groups) :])
        value = pack[_joined(conv, points, index)] * weight[own]
        return te_sum(value, axis=list(fresh.values()))

    points, packed = _apart(conv, pack.shape)
    tiles = [
        packed[d] if w.transformed else w.output.extent
        for d, w in enumerate(conv.windows)
        if w.output is not None
    ]
    return compute(
        _joined(conv, points, [*tiles, conv.op.axes[-1].extent]),
        body,
        "bgemm",
        {"layout_free": (weight.name,)},
        axis_names=_joined(conv, _POINTS[: len(points)], _names(conv)),
    )


def _output(conv: Conv, gemm: Tensor, m: int) -> Tensor:
    """The outputs of each tile from its products."""
    cut = _transformed(conv)
    sums = [reduce_axis(m + conv.taps - 1, name) for name in _SUMS[: len(cut)]]
    names = _names(conv)

    def body(*at: x.Axis) -> x.Expr:
        index: list[x.Expr] = [a // m if d in cut else a for d, a in enumerate(at)]
        value: x.Expr = gemm[_joined(conv, sums, index)]
        for axis, d in zip(sums, cut, strict=True):
            value = value * _matrix("A", result_matrix(m, conv.taps), axis, at[d] % m)
        return te_sum(value, axis=sums)

    attrs = {"const_axes": _SUMS[: len(cut)], "tile": {names[d]: m for d in cut}}
    return compute(conv.op.shape, body, "conv2d_winograd", attrs, axis_names=names)


def _extended(data: Tensor, shape: tuple[Extent, ...]) -> Tensor:
    """``data`` grown to ``shape`` with zeros behind its last elements."""
    if data.shape == shape:
        return data
    grown = [d for d, (a, b) in enumerate(zip(data.shape, shape, strict=True)) if a != b]
    op = data.op
    padding = (
        isinstance(op, Compute)
        and isinstance(op.body, x.IfThenElse)
        and isinstance(op.body.b, x.Const)
        and op.body.b.value == 0
    )
    if not padding:

        def zeros_behind(*i: x.Axis) -> x.Expr:
            return if_then_else(te_all(*(i[d] < data.shape[d] for d in grown)), data[i], 0.0)

        return compute(shape, zeros_behind, "data_pad")
    assert isinstance(op, Compute)
    assert isinstance(op.body, x.IfThenElse)
    bounded = _bounded(op, op.body.cond)

    def wider(*i: x.Axis) -> x.Expr:
        body = x.replace_axes(op.body, dict(zip(op.axes, i, strict=True)))
        assert isinstance(body, x.IfThenElse)
        more = [i[d] < data.shape[d] for d in grown if op.axes[d] not in bounded]
        return if_then_else(te_all(body.cond, *more), body.a, body.b)

    return compute(shape, wider, "data_pad")


def _bounded(op: Compute, cond: x.Expr) -> set[x.Axis]:
    """Axes that the condition keeps below their extent, whatever that becomes."""
    if isinstance(cond, x.Logic) and cond.op == "and":
        return _bounded(op, cond.a) | _bounded(op, cond.b)
    if not (isinstance(cond, x.Compare) and cond.op in ("<", "<=")):
        return set()
    a, b = linear(cond.a), linear(cond.b)
    if a is None or b is None:
        return set()
    form = a - b
    if len(form.coefficients) != 1:
        return set()
    ((axis, c),) = form.coefficients.items()
    last = -form.const - (cond.op == "<")
    inside = c == 1 and axis in op.axes and certain(lambda: last < axis.extent)
    return {axis} if inside else set()
