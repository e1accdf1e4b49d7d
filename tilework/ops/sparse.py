"""Products with block-sparse matrices in BSR form: only stored blocks are computed.

A weight of ``units`` rows and K columns is cut into blocks of R rows and C columns. Three arrays
hold the blocks that are not zero, block row by block row:

    data     [blocks, C, R]     data[b, c, r]: column c and row r of block b (rows innermost, so
                                that a vector of outputs reads a vector)
    indices  [blocks]  int32    the block column of each
    indptr   [NB + 1]  int32    block row n has the blocks indptr[n] .. indptr[n + 1] - 1

    out[i, j] = sum over e < indptr[j//R + 1] - indptr[j//R] and c of
                data[b, c, j % R] * x[i, indices[b] * C + c]      with b = indptr[j//R] + e

The last block row may reach over the last row; K is a multiple of C. `te.ComputeDAG.flops` counts
a sparse product as if it were dense, `real_flops` what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilework import te
from tilework.index.extents import Extent, known, known_shape

MAX_BLOCK_ROWS = 64
"""More rows in a block than that would not fit the registers of a vector of outputs."""


def sparse_dense(
    x: te.Tensor, data: te.Tensor, indices: te.Tensor, indptr: te.Tensor, units: int
) -> te.Tensor:
    """Dense layer without bias: ``x`` [M, K] times a sparse weight [units, K] -> [M, units].

    Raises:
        ValueError: the arrays' shapes do not fit together.
    """
    if x.ndim != 2:
        raise ValueError(f"the data has {x.ndim} dimensions, expected 2")
    body = _Products(data, indices, indptr, x.shape[1], units)
    e, c = body.axes
    return te.compute(
        (x.shape[0], units),
        lambda i, j: te.sum(
            body.weight(j) * x[i, body.column(j)], axis=[e, c], limits=body.limits(j)
        ),
        name="T_sparse_dense",
        attrs=body.attrs,
    )


def sparse_conv(
    x: te.Tensor,
    data: te.Tensor,
    indices: te.Tensor,
    indptr: te.Tensor,
    units: int,
    strides: Sequence[int],
    *,
    channels_last: bool = True,
) -> te.Tensor:
    """Convolution with a 1 x 1 window (any number of spatial axes) and a sparse weight.

    ``x`` is [N, H, W, K] or, without ``channels_last``, [N, K, H, W]; the weight [units, K].

    Raises:
        ValueError: the arrays' shapes do not fit together.
    """
    if len(strides) != x.ndim - 2:
        raise ValueError(f"{len(strides)} strides do not fit {x.ndim - 2} spatial axes")
    size = x.shape[1:-1] if channels_last else x.shape[2:]
    out = [-(-n // s) for n, s in zip(size, strides, strict=True)]
    body = _Products(data, indices, indptr, x.shape[-1 if channels_last else 1], units)
    e, c = body.axes
    shape = (x.shape[0], *out, units) if channels_last else (x.shape[0], units, *out)
    channel = len(shape) - 1 if channels_last else 1

    def product(*at: te.Expr) -> te.Expr:
        j = at[channel]
        place = [a for d, a in enumerate(at) if d not in (0, channel)]
        pixel = [a * s for a, s in zip(place, strides, strict=True)]
        column = body.column(j)
        where = (at[0], *pixel, column) if channels_last else (at[0], column, *pixel)
        return te.sum(body.weight(j) * x[where], axis=[e, c], limits=body.limits(j))

    names = [f"i{d}" for d in range(len(shape))]
    names[channel] = "j"
    return te.compute(shape, product, name="T_sparse_conv", attrs=body.attrs, axis_names=names)


class _Products:
    """The parts of a sparse product, for an output row ``j``."""

    def __init__(
        self, data: te.Tensor, indices: te.Tensor, indptr: te.Tensor, channels: Extent, units: int
    ) -> None:
        columns, starts = known(channels), known_shape(indptr.shape)
        check_bsr(known_shape(data.shape), known_shape(indices.shape), starts, columns, units)
        self.data, self.indices, self.indptr = data, indices, indptr
        stored, self.width, self.rows = known_shape(data.shape)
        self.axes = (
            te.reduce_axis(columns // self.width, "e"),
            te.reduce_axis(self.width, "c"),
        )
        self.attrs: dict[str, Any] = {
            "terms": {"e": stored / (starts[0] - 1)},
            "bsr": {"data": data.name, "indices": indices.name, "indptr": indptr.name},
        }

    def _block(self, j: te.Expr) -> te.Expr:
        return self.indptr[j // self.rows] + self.axes[0]

    def weight(self, j: te.Expr) -> te.Expr:
        row = j % self.rows if self.rows > 1 else 0
        return self.data[self._block(j), self.axes[1], row]

    def column(self, j: te.Expr) -> te.Expr:
        return self.indices[self._block(j)] * self.width + self.axes[1]

    def limits(self, j: te.Expr) -> dict[te.Axis, te.Expr]:
        row = j // self.rows
        return {self.axes[0]: self.indptr[row + 1] - self.indptr[row]}


def check_bsr(
    data: Sequence[int],
    indices: Sequence[int],
    indptr: Sequence[int],
    columns: int,
    units: int,
) -> None:
    """Whether the shapes of the three arrays fit a weight [units, columns].

    Raises:
        ValueError: they do not; the message says which.
    """
    if len(data) != 3 or len(indices) != 1 or len(indptr) != 1:
        raise ValueError("a sparse weight has data [blocks, C, R], indices [blocks] and indptr")
    blocks, width, rows = data
    if indices[0] != blocks:
        raise ValueError(f"{blocks} blocks are stored, but {indices[0]} indices")
    if columns % width:
        raise ValueError(f"blocks of {width} columns do not divide {columns} columns")
    if rows > MAX_BLOCK_ROWS:
        raise ValueError(f"blocks of {rows} rows: at most {MAX_BLOCK_ROWS} are supported")
    if units < 1 or indptr[0] - 1 != -(-units // rows):
        raise ValueError(
            f"{units} rows are {-(-units // rows)} block rows of {rows}, but indptr has "
            f"{indptr[0]} entries"
        )
