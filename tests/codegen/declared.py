"""Computations whose generated code is pinned, declared by hand: by group, each named in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.codegen.case import Case
from tests.kinds.cuda import families
from tests.kinds.cuda.mma import declared as narrow
from tests.lower.chains import separable
from tilework import ops, te
from tilework.ops.bsr import random_structure
from tilework.ops.pad import pad_with_self
from tilework.ops.sparse import sparse_conv, sparse_dense
from tilework.space.sparse import SPARSE_RULES

_Declared = Sequence[te.Tensor] | te.ComputeDAG


def _x(*shape: int, name: str = "x", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, name, dtype)


def _cases(rules: tuple = (), **declared: _Declared) -> list[Case]:
    """Names are written with underscores for blanks."""
    return [
        Case(n.replace("_", " "), d if isinstance(d, te.ComputeDAG) else te.ComputeDAG(d), rules)
        for n, d in declared.items()
    ]


def attention() -> list[Case]:
    """Products of activations, masks, rows of probabilities; rotated halves."""
    q, k, v = (_x(1, 3, 37, 16, name=n) for n in "qkv")
    mask, p = _x(1, 1, 37, 37, name="mask"), _x(1, 3, 37, 37, name="p")
    few, one = _x(1, 2, 37, 16, name="few"), _x(1, 2, 3, 1, 16, name="one")
    x, w, b = _x(29, 24), _x(52, 24, name="w"), _x(52, name="b")
    cos = _x(37, 16, name="cos")
    turned = te.compute(
        q.shape,
        lambda n, h, i, d: q[n, h, i, d] * cos[i, d] - q[n, h, i, (d + 8) % 16] * cos[i, 15 - d],
        name="turned",
    )
    dense = ops.add(ops.dense(x, w, layout_free=True), b)
    return _cases(
        scores_and_mask=[q, k, mask, ops.add(ops.einsum("bhqd,bhkd->bhqk", q, k), mask)],
        probabilities=families.softmax(3, 37, 37),
        mixing=[p, v, ops.einsum("bhqk,bhkd->bhqd", p, v)],
        grouped_queries_of_one_token=[one, few, ops.einsum("bgrqd,bgkd->bgrqk", one, few)],
        rotary=[q, cos, turned],
        dense_and_gelu=[x, w, b, ops.elementwise("gelu", dense)],
    )


def norms() -> list[Case]:
    """Rows that are read two or three times."""
    x, w = _x(9, 40), _x(40, name="w")
    mean = ops.reduce(ops.multiply(x, x), "mean", [1], True)
    scale = te.compute(mean.shape, lambda i, j: te.rsqrt(mean[i, j] + 1e-5), name="scale")
    return _cases(
        layer_norm=families.layer_norm(6, 96),
        layer_norm_of_inner_axes=families.layer_norm(3, 4, 10, axes=(1, 2)),
        root_mean_square_norm=[x, w, ops.multiply(ops.multiply(x, scale), w)],
        group_norm=families.group_norm(),
        softmax_of_a_middle_axis=families.softmax(2, 3, 7, axis=1),
    )


def windows() -> list[Case]:
    """Depthwise, grouped and transposed convolutions, pooling, and borders of every kind."""
    data, w = _x(1, 9, 10, 5), _x(3, 2, 5, 19, name="w")
    ragged = ops.conv(data, w, (2, 1), (0, 2, 3, 1), (1, 2), layout_free=True)
    up, phases = _x(1, 5, 6, 8), _x(2, 2, 8, 2, 2, 12, name="w")
    line, taps = _x(2, 17, 6), _x(5, 6, 10, name="w")
    cube, filters = _x(1, 4, 5, 5, 3), _x(3, 3, 3, 3, 8, name="w")
    around = _x(1, 6, 7, 8)
    return _cases(
        depthwise=families.depthwise(),
        depthwise_stride_2_of_5_channels=families.depthwise(h=7, c=5, s=2),
        dilated_depthwise=families.depthwise(h=8, c=4, p=2, d=2),
        depthwise_and_pointwise=separable(9, 7, 8, 33),
        grouped=families.grouped(),
        ragged_borders=[data, w, ops.relu(ragged)],
        winograd=families.conv(ci=16),
        convolution_of_a_line=[line, taps, ops.conv(line, taps, (1,), (4, 0), (1,))],
        convolution_of_a_cube=[
            cube, filters, ops.conv(cube, filters, (1, 2, 2), (1,) * 6, (1, 1, 1)),
        ],
        transposed=[up, phases, ops.phase_conv(up, phases, (2, 2), (1, 1), (5, 6))],
        max_pool=families.max_pool(h=8, c=5),
        average_pool=families.avg_pool(),
        reflected_border=[around, pad_with_self(around, (0, 2, 3, 0), (0, 1, 2, 0), "reflect")],
    )  # fmt: skip


def sums() -> list[Case]:
    """Products and sums whose extents nothing divides, and of other types."""
    a, b = _x(13, 47, name="a"), _x(47, 29, name="b")
    left, right = _x(7, 33, name="a", dtype="int8"), _x(33, 18, name="b", dtype="int8")
    k = te.reduce_axis(33, "k")
    wide = te.compute(
        (7, 18),
        lambda i, j: te.sum(te.cast("int32", left[i, k]) * te.cast("int32", right[k, j]), axis=k),
        name="wide",
    )
    x = _x(5, 83)
    return _cases(
        ragged_product=[a, b, ops.matmul(a, b)],
        long_product_of_few_rows=families.product(n=3, m=17, k=1031),
        ragged_sum=families.reduction(te.sum, 7, 331),
        sum_of_one_long_row=families.reduction(te.sum, 16411),
        sum_of_columns=families.columns(te.sum, 101, 71),
        maximum_of_int8=families.reduction(te.max, 9, 33, dtype="int8"),
        sum_of_float64=families.reduction(te.sum, 6, 67, dtype="float64"),
        product_of_int8=[left, right, wide],
        cumulative_sum=[x, ops.cumulative(x, 1)],
        best_three=[x, ops.top_k(x, 3, 1)],
    )


def moved() -> list[Case]:
    """What data or guards decide: gathering, scattering, joining; other element types."""
    x, at, rows = _x(9, 12), _x(5, 1, name="at", dtype="int64"), _x(5, 12, name="rows")
    return _cases(
        gathered_rows=families.gathered(),
        scattered_rows=[x, at, rows, ops.scatter_rows(x, at, rows, (9,), "add")],
        joined=families.joined(),
        turned=families.turned(),
        scalar=families.scalar(),
        float16=families.elementwise("float16", 4, 29),
        bfloat16=families.elementwise("bfloat16", 3, 21),
        bool=families.elementwise("bool", 43),
    )


def sparse() -> list[Case]:
    """Products with block-sparse weights: blocks of 16 x 1 and of 4 x 4."""

    def parts(rows: int, width: int, high: int, wide: int) -> list[te.Tensor]:
        stored = high * wide // 5
        at, start = random_structure(high, wide, stored, np.random.default_rng(0))
        return [
            _x(stored, width, rows, name="data"),
            te.placeholder(at.shape, "indices", "int32"),
            te.placeholder(start.shape, "indptr", "int32"),
        ]

    thin, square = parts(16, 1, 4, 40), parts(4, 4, 12, 10)
    x, image, b = _x(6, 40), _x(1, 7, 6, 40), _x(1, 61, name="b")
    dense = ops.relu(ops.add(sparse_dense(x, *thin, 61), b))
    return _cases(
        SPARSE_RULES,
        blocks_of_16x1=[x, *thin, b, dense],
        blocks_of_4x4=[x, *square, sparse_dense(x, *square, 48)],
        convolution_with_blocks_of_16x1=[image, *thin, sparse_conv(image, *thin, 64, (2, 1))],
    )


def narrow_factors() -> list[Case]:
    """Products of pairs of bfloat16; on GPUs tensor cores, of the other types as well."""
    return _cases(
        bfloat16_product=narrow.matmul("bf16", 32, 48, 64, free=True),
        bfloat16_convolution=narrow.conv("bf16", (1, 8, 8, 16), 32),
    )


def tensor_cores() -> list[Case]:
    """Factors that only GPUs take."""
    return _cases(
        float16_product=narrow.matmul("f16", 64, 64, 64, b="T", residual=True),
        tf32_convolution=narrow.conv("tf32", (1, 8, 8, 16), 32),
    )
