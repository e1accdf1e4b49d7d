"""Tensor cores' instructions, and where the threads of a warp hold what they multiply.

All compute ``sums[m, n] += a[m, k] * b[n, k]`` for 16 x 8 points and 32 bytes of k. Registers have
32 bits, that is one to four neighbours along k; those of sums have one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tilework.dtypes import dtype_bytes
from tilework.lower.ir import Bits, Gather
from tilework.space.instructions import Fragment, Instruction, Ints, Meaning, sum_of_products
from tilework.te.expr import Expr
from tilework.te.functions import round_tf32

Kind = Literal["bf16", "f16", "tf32"]
ROWS, COLUMNS = 16, 8
"""Points of m and n that one instruction computes."""
_REGISTER = 4
_STEP = 32
"""Bytes of a register, and of the terms of k that one instruction takes."""
_COST = 2048.0
"""Multiply-adds of bfloat16 in one; those of wider types are half as many, and half as fast."""


def _rounded_products(acc: Expr, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
    """Of floats the instruction takes what is left of them as tf32."""
    return sum_of_products(acc, *([round_tf32(e) for e in operand] for operand in (left, right)))


def _sums(lane: Ints, register: Ints, part: Ints) -> tuple[Ints, Ints]:
    return lane // 4 + 8 * (register // 2), 2 * (lane % 4) + register % 2


def _mma(kind: Kind, dtype: str, meaning: Meaning = sum_of_products) -> Instruction:
    together = _REGISTER // dtype_bytes(dtype)

    def term(lane: Ints, half: Ints, part: Ints) -> Ints:
        return together * (lane % 4 + 4 * half) + part

    def left(lane: Ints, register: Ints, part: Ints) -> tuple[Ints, Ints]:
        return lane // 4 + 8 * (register % 2), term(lane, register // 2, part)

    def right(lane: Ints, register: Ints, part: Ints) -> tuple[Ints, Ints]:
        return lane // 4, term(lane, register, part)

    terms = _STEP // dtype_bytes(dtype)
    return Instruction(
        f"mma_m{ROWS}n{COLUMNS}k{terms}_{kind}", dtype, dtype, "float32", terms, ROWS, COLUMNS,
        cost=_COST, meaning=meaning,
        fragments=(Fragment(4, left), Fragment(2, right), Fragment(4, _sums)),
    )  # fmt: skip


INSTRUCTIONS: dict[Kind, Instruction] = {
    "bf16": _mma("bf16", "bfloat16"),
    "f16": _mma("f16", "float16"),
    "tf32": _mma("tf32", "float32", _rounded_products),
}


def _rows(itemsize: int) -> Gather:
    """Four matrices of 8 rows by 16 bytes: thread ``8 q + r`` names row r of matrix q.

    Each gets a word of a row of each matrix.
    """
    together = _REGISTER // itemsize

    def element(lane: Ints, register: Ints, part: Ints) -> tuple[Ints, Ints]:
        return 8 * register + lane // 4, together * (lane % 4) + part

    return Gather("ldmatrix_x4", 4, element)


def _transposed(lane: Ints, register: Ints, part: Ints) -> tuple[Ints, Ints]:
    return 8 * register + 2 * (lane % 4) + part, lane // 4


ROWS_OF = {itemsize: _rows(itemsize) for itemsize in (2, 4)}
"""By bytes of an element."""
COLUMNS_OF = Gather("ldmatrix_x4_trans", 4, _transposed)
"""The same of transposed matrices, of elements of 2 bytes alone."""
ROUND_TF32 = Bits("round_tf32")
