"""Operators of small tensors that follow from the extents of inputs: shape arithmetic.

Those that move numbers are evaluated on their positions, so that each means here what it means
everywhere.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.dtypes import is_float, is_integer
from tilework.graph.onnx.context import attributes
from tilework.graph.onnx.convert.elementwise import element_type
from tilework.graph.onnx.numbers import Item, Known, NotKnown, Numbers, numbers, tensor_of
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.shares import Share, share_of
from tilework.index.extents import Extent
from tilework.index.symbols import Undecided, certain, range_of, same
from tilework.index.whole import COMPARE, folded

if TYPE_CHECKING:
    from tilework.graph.onnx.fold import Folding


def computed(
    node: NodeProto, inputs: Sequence[Known | None], folding: Folding, opset: int
) -> list[Known | None]:
    """What each output of a node is.

    Args:
        node: a standard operator.
        inputs: what it reads; None for what is left out.
        folding: evaluates operators of constants.
        opset: version of the standard operators.

    Raises:
        NotKnown: it is no number that follows from extents.
        Undecided: that differs from run to run.
    """
    op, a = node.op_type, attributes(node)
    if a.get("reduction", "none") != "none":
        raise NotKnown(op)  # it computes with what it moves
    if op in _MOVES and (op != "Where" or not isinstance(inputs[0], Numbers)):
        return _moved(node, inputs, folding, opset)
    given = [x for x in inputs if x is not None]
    if op in _FOLDS or op.startswith("Reduce"):
        return [_reduced(op, a, given)]
    xs = [numbers(x) for x in given]
    if op == "Cast":
        return [_cast(xs[0], element_type(a["to"]))]
    if op == "CastLike":
        return [_cast(xs[0], xs[1].dtype)]
    if op == "Size":
        return [np.asarray(len(xs[0].items), np.int64)]
    if op == "Shape":
        return [np.asarray(xs[0].shape, np.int64)[a.get("start", 0) : a.get("end")]]
    f = _EACH.get(op) if not a.get("fmod") else partial(_rest, of_any=False)
    if f is None:
        raise NotKnown(op)
    return [_each(f, xs, "bool" if op in _TESTS else xs[0].dtype)]


# ---------------------------------------------------------------- what moves numbers

# the inputs that are moved; all others say where to
_MOVES: dict[str, Callable[[int], Sequence[int]]] = {
    **dict.fromkeys(
        (
            "Expand", "Flatten", "Gather", "GatherElements", "Identity", "Reshape", "Slice",
            "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
        ),
        lambda count: (0,),
    ),
    **dict.fromkeys(("ScatterElements", "ScatterND"), lambda count: (0, 2)),
    "Concat": range,
    "Where": lambda count: (1, 2),
}  # fmt: skip


def _moved(
    node: NodeProto, inputs: Sequence[Known | None], folding: Folding, opset: int
) -> list[Known | None]:
    """An operator that moves numbers, evaluated on their positions."""
    moved = set(_MOVES[node.op_type](len(inputs)))
    table: list[Item] = []
    arrays: dict[str, np.ndarray] = {}
    dtype = "int64"
    names = [f"{i}" if name else "" for i, name in enumerate(node.input)]
    for i, x in enumerate(inputs):
        if x is None:
            continue
        if i in moved:
            held = numbers(x)
            places = np.arange(len(table), len(table) + len(held.items), dtype=np.int64)
            table += held.items
            dtype, x = held.dtype, places.reshape(held.shape)
        elif isinstance(x, Numbers):
            raise NotKnown(node.op_type)
        arrays[names[i]] = x
    alone = type(node)()
    alone.CopyFrom(node)
    del alone.input[:]
    alone.input.extend(names)  # a value may be read twice
    positions = folding.fold(alone, arrays, opset)
    return [
        None if at is None else tensor_of([table[i] for i in at.reshape(-1)], at.shape, dtype)
        for at in positions
    ]


# ---------------------------------------------------------------- what computes with them

_TESTS: dict[str, Callable[[Extent, Extent], bool]] = {
    "Equal": same,
    "Greater": COMPARE[">"],
    "GreaterOrEqual": COMPARE[">="],
    "Less": COMPARE["<"],
    "LessOrEqual": COMPARE["<="],
}


def _extents(a: Item, b: Item) -> tuple[Extent, Extent]:
    if isinstance(a, Share) or isinstance(b, Share):
        raise NotKnown("a share")
    return a, b


def _either(sign: str) -> Callable[..., Item]:
    """``+``, ``-`` or ``*`` of extents or of shares."""
    whole = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    shares = {"+": Share.plus, "-": Share.minus, "*": Share.times}[sign]

    def one(a: Item, b: Item) -> Item:
        if isinstance(a, Share) and isinstance(b, Share):
            return _or_not(shares(a, b))
        x, y = _extents(a, b)
        result: Extent = whole(x, y)
        return result

    return lambda *xs: reduce(one, xs)


def _or_not(share: Share | None) -> Share:
    if share is None:
        raise NotKnown("it is not exact")
    return share


def _quotient(a: Item, b: Item) -> Item:
    if isinstance(a, Share) and isinstance(b, Share):
        return _or_not(a.over(b))
    x, y = _extents(a, b)
    if y == 0 or range_of(y)[0] < 0:
        raise NotKnown("a negative number")
    try:
        sign = 1 if range_of(x)[1] > 0 and x >= 0 else -1
    except Undecided as e:
        raise NotKnown("a negative number") from e
    return sign * (sign * x // y)  # towards zero


def _rest(a: Item, b: Item, *, of_any: bool = True) -> Item:
    """What is left by a positive divisor, from 0 on: ``of_any`` number, or of one from 0 on."""
    x, y = _extents(a, b)
    if range_of(y)[0] <= 0 or (range_of(x)[0] < 0 and not of_any):
        raise NotKnown("a negative number")
    within = [rest for rest in (x, x + y) if _is_rest(rest, y)]
    if not within and isinstance(x, int):  # its quotient is no polynomial: a range may say more
        within = [rest for rest in (x, x + y) if 0 <= rest < y]
    return within[0] if within else x - x // y * y


def _is_rest(x: Extent, by: Extent) -> bool:
    """Whether ``x`` is from 0 on and below another number, at every point."""
    return range_of(x)[0] >= 0 and certain(lambda: x < by)


def _extreme(op: str) -> Callable[..., Item]:
    def one(a: Item, b: Item) -> Item:
        x, y = _extents(a, b)
        extent = folded(op, x, y)
        if extent is None:
            raise NotKnown(op)
        return extent

    return lambda *xs: reduce(one, xs)


def _tested(op: str) -> Callable[..., Item]:
    return lambda a, b: int(_TESTS[op](*_extents(a, b)))


def _rounded(a: Item, *, up: bool) -> Item:
    return a if not isinstance(a, Share) else Share(a.ceil if up else a.floor, 1)


_EACH: dict[str, Callable[..., Item]] = {
    "Add": _either("+"),
    "Ceil": partial(_rounded, up=True),
    "Div": _quotient,
    "Floor": partial(_rounded, up=False),
    "Max": _extreme("max"),
    "Min": _extreme("min"),
    "Mod": _rest,
    "Mul": _either("*"),
    "Neg": lambda a: _either("-")(share_of(0.0) if isinstance(a, Share) else 0, a),
    "Sub": _either("-"),
    "Sum": _either("+"),
    **{op: _tested(op) for op in _TESTS},
}

_FOLDS: Mapping[str, Callable[..., Item]] = {
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceProd": operator.mul,
    "ReduceSum": operator.add,
}

KNOWN = frozenset((*_MOVES, *_EACH, *_FOLDS, "Cast", "CastLike", "Shape", "Size"))
"""Operators that are computed here."""


def _each(f: Callable[..., Item], xs: Sequence[Numbers], dtype: str) -> Known:
    """A function of single numbers, of tensors that broadcast."""
    places = np.broadcast_arrays(*(np.arange(len(x.items)).reshape(x.shape) for x in xs))
    columns = zip(*(p.reshape(-1).tolist() for p in places), strict=True)
    items = [f(*(x.items[i] for x, i in zip(xs, at, strict=True))) for at in columns]
    return tensor_of(items, places[0].shape, dtype)


def _cast(x: Numbers, to: str) -> Known:
    if is_float(to):
        return tensor_of([_or_not(share_of(i)) for i in x.items], x.shape, to)
    if to == "bool":
        return tensor_of([int(bool(_extents(i, 0)[0])) for i in x.items], x.shape, to)
    if not is_integer(to):
        raise NotKnown(to)
    items = [i.floor if isinstance(i, Share) else i for i in x.items]
    if any(range_of(i)[0] < 0 for i in items) and is_float(x.dtype):
        raise NotKnown("a negative number")  # which loses its fraction towards zero
    return tensor_of(items, x.shape, to)


def _reduced(op: str, a: Mapping[str, Any], given: Sequence[Known]) -> Known:
    """All numbers of a list in one; the list as it is where no axes are to mean none."""
    x, axes = numbers(given[0]), [*a.get("axes", ()), *given[1:]]
    if a.get("noop_with_empty_axes") and not any(map(np.size, axes)):
        return x
    if op not in _FOLDS or len(x.shape) != 1 or (x.extents is None and len(x.items) > 1):
        raise NotKnown(op)
    total = reduce(_FOLDS[op], x.items)
    return tensor_of([total], (1,) if a.get("keepdims", 1) else (), x.dtype)
