"""Winograd form of 3x3 stride-1 convolutions: a rewriting of the compute DAG.

    data_pack(eps, nu, n, th, tw, c) = sum over (ra, rb) data[n, m*th + ra, m*tw + rb, c]
                                                          * B[ra, eps] * B[rb, nu]
    bgemm(eps, nu, n, th, tw, f)     = sum over c data_pack[...] * U[eps, nu, c, f]
    out(n, y, x, f) = sum over (ra, rb) bgemm[ra, rb, n, y // m, x // m, f]
                                        * A[ra, y % m] * A[rb, x % m]

with U = G g G^T computed when the weights are packed. For m = 4 a point of the output costs
36 / 16 = 2.25 multiplications per channel pair instead of 9. The matrices are those of Lavin and
Gray (2015) for the points 0, +-1, +-2 and infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilework.te.affine import linear
from tilework.te.dag import ComputeDAG
from tilework.te.expr import (
    Axis,
    Binary,
    Const,
    Expr,
    IfThenElse,
    Lookup,
    Read,
    Reduce,
    replace_axes,
    substitute,
)
from tilework.te.functions import all as te_all
from tilework.te.functions import if_then_else
from tilework.te.functions import sum as te_sum
from tilework.te.tensor import Compute, Placeholder, Tensor, compute, make_compute, reduce_axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

B_T = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
G = {
    2: ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
A_T = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}
_MIN_CHANNELS = 16


@dataclass(frozen=True)
class WeightTransform:
    """A change of a weight tensor before packing: HWIO 3x3 to its Winograd domain."""

    tile: int

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape after the transform of a tensor of ``shape``."""
        return (self.tile + 2, self.tile + 2, *shape[2:])

    def apply(self, weight: NDArray[Any]) -> NDArray[Any]:
        """``U[eps, nu, c, f] = sum G[eps, i] G[nu, j] weight[i, j, c, f]``, in double."""
        import numpy as np

        g = np.array(G[self.tile])
        u = np.einsum("ei,nj,ijcf->encf", g, g, weight.astype(np.float64), optimize=True)
        return u.astype(weight.dtype)


@dataclass(frozen=True, eq=False)
class Variant:
    """Another DAG that computes the same outputs, and how its weights differ."""

    name: str
    dag: ComputeDAG
    transforms: dict[str, WeightTransform]


@dataclass(frozen=True, eq=False)
class _Conv:
    op: Compute
    data: Tensor
    weight: Tensor


def winograd_variants(dag: ComputeDAG, tiles: tuple[int, ...] = (4,)) -> list[Variant]:
    """Winograd forms of the DAG's convolution, one per tile size; empty if none applies."""
    found = [c for op in dag.compute_ops if (c := _match(dag, op)) is not None]
    if len(found) != 1:
        return []
    return [_rewrite(dag, found[0], m) for m in tiles]


def _match(dag: ComputeDAG, op: Compute) -> _Conv | None:
    """A 2-D NHWC convolution with a constant 3x3 HWIO kernel, stride 1, enough channels."""
    body = op.body
    if not isinstance(body, Reduce) or body.kind != "sum" or op.dtype != "float32":
        return None
    source = body.source
    if not (isinstance(source, Binary) and source.op == "*"):
        return None
    if len(op.axes) != 4 or len(op.reduce_axes) != 3:
        return None
    data, weight = source.a, source.b
    if not (isinstance(data, Read) and isinstance(weight, Read)):
        return None
    n, y, x, f = op.axes
    ry, rx, rc = op.reduce_axes
    free = op.attrs.get("layout_free", ())
    if not isinstance(weight.tensor.op, Placeholder) or weight.tensor.name not in free:
        return None
    if (ry.extent, rx.extent) != (3, 3) or min(rc.extent, f.extent) < _MIN_CHANNELS:
        return None
    if tuple(weight.indices) != (ry, rx, rc, f) or len(data.indices) != 4:
        return None
    wanted: tuple[dict[Axis, int], ...] = ({n: 1}, {y: 1, ry: 1}, {x: 1, rx: 1}, {rc: 1})
    for index, form in zip(data.indices, wanted, strict=True):
        got = linear(index)
        if got is None or got.const or got.coefficients != form:
            return None
    return _Conv(op, data.tensor, weight.tensor)


def _matrix(name: str, rows: tuple[tuple[float, ...], ...], i: Expr, j: Expr) -> Lookup:
    """Element (i, j) of the transpose of ``rows``."""
    values = tuple(float(v) for column in zip(*rows, strict=True) for v in column)
    return Lookup("float32", name, values, (len(rows[0]), len(rows)), (i, j))


def _rewrite(dag: ComputeDAG, conv: _Conv, m: int) -> Variant:
    alpha = m + 2
    n, y, x, f = (a.extent for a in conv.op.axes)
    channels = conv.op.reduce_axes[2].extent
    th, tw = -(-y // m), -(-x // m)
    data = _extended(conv.data, th * m + 2, tw * m + 2)
    transform = WeightTransform(m)
    weight = Tensor(
        Placeholder(conv.weight.name, transform.shape(conv.weight.shape), conv.weight.dtype)
    )
    ra, rb = reduce_axis(alpha, "ra"), reduce_axis(alpha, "rb")
    pack = compute(
        (alpha, alpha, n, th, tw, channels),
        lambda eps, nu, b, p, q, c: te_sum(
            data[b, p * m + ra, q * m + rb, c]
            * _matrix("B", B_T[m], ra, eps)
            * _matrix("B", B_T[m], rb, nu),
            axis=[ra, rb],
        ),
        "data_pack",
        {"const_axes": ("eps", "nu", "ra", "rb")},
    )
    rc = reduce_axis(channels, "rc")
    gemm = compute(
        (alpha, alpha, n, th, tw, f),
        lambda eps, nu, b, p, q, co: te_sum(
            pack[eps, nu, b, p, q, rc] * weight[eps, nu, rc, co], axis=rc
        ),
        "bgemm",
        {"layout_free": (weight.name,)},
    )
    sa, sb = reduce_axis(alpha, "ra"), reduce_axis(alpha, "rb")
    out = compute(
        conv.op.shape,
        lambda nn, yy, xx, ff: te_sum(
            gemm[sa, sb, nn, yy // m, xx // m, ff]
            * _matrix("A", A_T[m], sa, yy % m)
            * _matrix("A", A_T[m], sb, xx % m),
            axis=[sa, sb],
        ),
        "conv2d_winograd",
        {"const_axes": ("ra", "rb"), "tile": {"yy": m, "xx": m}},
    )
    replaced = {conv.op: out, conv.weight.op: weight}
    return Variant(
        f"winograd F({m}x{m}, 3x3)",
        _replace(dag, replaced),
        {conv.weight.name: transform},
    )


def _extended(data: Tensor, height: int, width: int) -> Tensor:
    """``data`` grown to ``height`` x ``width`` with zeros below and to the right."""
    n, h, w, c = data.shape
    if (h, w) == (height, width):
        return data
    shape = (n, height, width, c)
    op = data.op
    padding = (
        isinstance(op, Compute)
        and isinstance(op.body, IfThenElse)
        and isinstance(op.body.b, Const)
        and op.body.b.value == 0
    )
    if padding:
        assert isinstance(op, Compute)

        def grown(i0: Axis, i1: Axis, i2: Axis, i3: Axis) -> Expr:
            return replace_axes(op.body, dict(zip(op.axes, (i0, i1, i2, i3), strict=True)))

        return compute(shape, grown, "data_pad")
    return compute(
        shape,
        lambda i0, i1, i2, i3: if_then_else(te_all(i1 < h, i2 < w), data[i0, i1, i2, i3], 0.0),
        "data_pad",
    )


def _replace(dag: ComputeDAG, replaced: dict[Any, Tensor]) -> ComputeDAG:
    """The DAG with some tensors exchanged, its later ops rebuilt on them."""
    made: dict[Any, Tensor] = dict(replaced)

    def rebuilt(tensor: Tensor) -> Tensor:
        op = tensor.op
        if op in made:
            return made[op]
        if isinstance(op, Placeholder):
            return tensor

        def visit(node: Expr) -> Expr | None:
            if isinstance(node, Read):
                inner = [substitute(i, visit) for i in node.indices]
                return Read(node.dtype, rebuilt(node.tensor), tuple(inner))
            return None

        body = substitute(op.body, visit)
        new = tensor if body is op.body else Tensor(make_compute(op.name, op.axes, body, op.attrs))
        made[op] = new
        return new

    return ComputeDAG([rebuilt(t) for t in dag.tensors])
