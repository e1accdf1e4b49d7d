"""The operators of the network language, a family a module, and what may be asked of them.

An `Operator` states all that the compiler knows of it in one place: inference of the result's
type, the computation in tensor expressions, how it fuses, and how it follows a change of layout.
A new operator is a new entry of a family's ``OPERATORS``; `tilework.graph.onnx` says how files
spell it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework.graph.operators import (
    blocks,
    elementwise,
    indexing,
    loops,
    matrices,
    normal,
    packed,
    quantized,
    recurrent,
    reductions,
    sparse,
    transposed,
    views,
    windows,
)
from tilework.graph.operators.base import Attrs, Operator, Pattern, Shape, ValueType, broadcast
from tilework.graph.operators.elementwise import BINARY, COMMUTATIVE, UNARY
from tilework.graph.operators.empty import MAY_BE_EMPTY, of_empty
from tilework.graph.operators.layouts import maps_order, weights_order
from tilework.graph.operators.sparse import SPARSE
from tilework.graph.operators.windows import (
    AVG_POOLS,
    CONVOLUTIONS,
    GROUPED,
    MAX_POOLS,
    spatial_rank,
)
from tilework.index.symbols import Symbolic, Undecided, is_static, range_of, symbols_of

# index arithmetic is 32 bits wide; no sensible network comes near this many elements in one value
MAX_ELEMENTS = 2**30
MAX_RANK = 32

_FAMILIES = (
    windows, matrices, sparse, normal, elementwise, reductions, views, indexing, blocks,
    transposed, quantized, packed, recurrent, loops,
)  # fmt: skip

OPERATORS: dict[str, Operator] = {o.name: o for family in _FAMILIES for o in family.OPERATORS}


def infer(op: str, types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    """Type of the result of ``op`` applied to inputs of ``types``.

    Raises:
        ValueError: unknown operator, or inputs that do not fit it; the message says why.
    """
    if op not in OPERATORS:
        raise ValueError(f"unknown operator '{op}'")
    result = OPERATORS[op].infer(types, attrs)
    shape = tuple(n if isinstance(n, Symbolic) else int(n) for n in result.shape)
    static = is_static(shape)
    lows = shape if static else tuple(range_of(n)[0] for n in shape)
    least = min(lows, default=1)
    if least < 1 and (least < 0 or not (static or 0 in shape) or not _may_be_empty(op, types)):
        raise ValueError(
            f"the result would have shape {list(shape)}{_ranges(shape)}"
        ) from _emptiness(shape)
    if len(shape) > MAX_RANK:
        raise ValueError(f"the result would have {len(shape)} dimensions; {MAX_RANK} are the most")
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"the result of shape {list(shape)} is too large")
    return ValueType(shape, result.dtype)


def _emptiness(shape: Shape) -> Undecided | None:
    """What has to be decided for the extents to be positive; None if none ever is."""
    try:
        _ = [n < 1 for n in shape]
    except Undecided as e:
        return e
    return None


def _ranges(shape: Shape) -> str:
    """Behind a shape: what a run may bring, and what to do about it."""
    symbols = symbols_of(shape)
    ranges = ", ".join(f"{s.name} is {s.low} to {s.high}" for s in symbols)
    return f", where {ranges}; give it another range" if symbols else ""


def _may_be_empty(op: str, types: Sequence[ValueType]) -> bool:
    return op in MAY_BE_EMPTY or any(0 in t.shape for t in types)


__all__ = [
    "AVG_POOLS", "BINARY", "COMMUTATIVE", "CONVOLUTIONS", "GROUPED", "MAX_ELEMENTS", "MAX_POOLS",
    "MAX_RANK", "OPERATORS", "SPARSE", "UNARY", "Attrs", "Operator", "Pattern", "Shape",
    "ValueType", "broadcast", "infer", "maps_order", "of_empty", "spatial_rank", "weights_order",
]  # fmt: skip
