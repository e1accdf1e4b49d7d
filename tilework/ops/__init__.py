"""Compute declarations of the operators: what each computes, written in tensor expressions.

A function takes tensors and returns the output tensor. Nothing here says how to run it.
"""

from __future__ import annotations

from tilework.ops.columns import col2im
from tilework.ops.conv import conv, depthwise_conv, grouped_conv
from tilework.ops.dense import dense, matmul
from tilework.ops.einsum import einsum
from tilework.ops.elementwise import (
    UNARY,
    add,
    clip,
    copy,
    divide,
    elementwise,
    maximum,
    minimum,
    multiply,
    relu,
    subtract,
)
from tilework.ops.indexing import (
    append_rows,
    arange,
    expand,
    gather_nd,
    one_hot,
    reverse_sequence,
    strided_slice,
    take,
    take_along,
    trilu,
    write_rows,
)
from tilework.ops.norm import (
    group_norm,
    hardmax,
    local_response_norm,
    log_softmax,
    normalize,
)
from tilework.ops.ordering import cumulative, top_k
from tilework.ops.pad import PAD_MODES, pad, pad_with_self
from tilework.ops.pool import (
    adaptive_pool,
    avg_pool,
    global_avg_pool,
    lp_pool,
    max_pool,
    max_pool_positions,
    window_sums,
)
from tilework.ops.reductions import arg_extremum, reduce
from tilework.ops.resample import resample
from tilework.ops.scatter import REDUCTIONS as SCATTER_REDUCTIONS
from tilework.ops.scatter import replace_rows, scatter_elements, scatter_rows
from tilework.ops.softmax import softmax
from tilework.ops.storage import tf32_products
from tilework.ops.transform import concatenate, transpose
from tilework.ops.transposed import phase_conv, phase_weights

__all__ = [
    "PAD_MODES", "SCATTER_REDUCTIONS", "UNARY", "adaptive_pool", "add", "append_rows",
    "arange", "arg_extremum", "avg_pool", "clip", "col2im", "concatenate", "conv", "copy",
    "cumulative", "dense", "depthwise_conv", "divide", "einsum",
    "elementwise", "expand", "gather_nd", "global_avg_pool", "group_norm", "grouped_conv",
    "hardmax", "local_response_norm", "log_softmax", "lp_pool", "matmul", "max_pool",
    "max_pool_positions", "maximum", "minimum", "multiply", "normalize", "one_hot", "pad",
    "pad_with_self", "phase_conv", "phase_weights", "reduce", "relu", "replace_rows", "resample",
    "reverse_sequence", "scatter_elements", "scatter_rows", "softmax", "strided_slice",
    "subtract", "take", "take_along", "tf32_products", "top_k", "transpose", "trilu",
    "window_sums", "write_rows",
]  # fmt: skip
