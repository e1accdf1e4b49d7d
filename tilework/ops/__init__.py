"""Compute declarations of the operators: what each computes, written in tensor expressions.

A function takes tensors and returns the output tensor. Nothing here says how to run it.
"""

from __future__ import annotations

from tilework.ops.conv import conv, conv2d_nchw, conv2d_nhwc, depthwise_conv, grouped_conv
from tilework.ops.dense import dense, matmul
from tilework.ops.einsum import einsum
from tilework.ops.elementwise import (
    UNARY,
    add,
    broadcast_index,
    clip,
    copy,
    divide,
    maximum,
    minimum,
    multiply,
    relu,
    subtract,
    unary,
)
from tilework.ops.pad import pad
from tilework.ops.pool import avg_pool, global_avg_pool, max_pool
from tilework.ops.positions import position
from tilework.ops.softmax import softmax
from tilework.ops.transform import concatenate, transpose

__all__ = [
    "UNARY",
    "add",
    "avg_pool",
    "broadcast_index",
    "clip",
    "concatenate",
    "conv",
    "conv2d_nchw",
    "conv2d_nhwc",
    "copy",
    "dense",
    "depthwise_conv",
    "divide",
    "einsum",
    "global_avg_pool",
    "grouped_conv",
    "matmul",
    "max_pool",
    "maximum",
    "minimum",
    "multiply",
    "pad",
    "position",
    "relu",
    "softmax",
    "subtract",
    "transpose",
    "unary",
]  # fmt: skip
