"""Matrix products."""

from __future__ import annotations

from tilework import te
from tilework.ops.storage import computed


def matmul(
    a: te.Tensor,
    b: te.Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    layout_free: bool = False,
    sums: str = "",
) -> te.Tensor:
    """Product of two matrices: ``a`` [M, K] ([K, M] if transposed) and ``b`` [K, N] -> [M, N].

    The name says which operand is read transposed: ``T_matmul_NT`` for a dense layer whose weight
    is [out, in]. ``layout_free``: ``b`` is a constant, whose layout the schedule may change.
    ``sums``: the element type of factors and sums, where it is another: int32 for bytes.
    """
    (ka, m) = a.shape if transpose_a else a.shape[::-1]
    (n, kb) = b.shape if transpose_b else b.shape[::-1]
    if ka != kb:
        raise ValueError(f"matmul: the operands disagree on the summed extent: {ka} and {kb}")
    k = te.reduce_axis(ka, "k")
    return te.compute(
        (m, n),
        lambda i, j: te.sum(
            computed(a[k, i] if transpose_a else a[i, k], sums)
            * computed(b[j, k] if transpose_b else b[k, j], sums),
            axis=k,
        ),
        name=f"T_matmul_{'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'}",
        attrs={"layout_free": (b.name,)} if layout_free else {},
    )


def dense(
    data: te.Tensor, weight: te.Tensor, *, layout_free: bool = False, sums: str = ""
) -> te.Tensor:
    """Dense layer without bias: ``data`` [N, in] times ``weight`` [out, in] -> [N, out]."""
    return matmul(data, weight, transpose_b=True, layout_free=layout_free, sums=sums)
