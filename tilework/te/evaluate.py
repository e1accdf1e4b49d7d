"""Reference evaluation of a compute DAG with NumPy: what the declarations mean, and nothing else.

It shares no code with lowering or code generation, so it can judge them. It is quick enough to be
used for every candidate: an operand that is read at affine positions is a strided view, and a sum
of products goes through BLAS.

An operation is evaluated over a *grid* with one dimension per axis (spatial axes first, then
reduce axes); every sub-expression is an array over the grid with extent 1 where it does not vary.

Values of bfloat16 are held as float32: conversions to bfloat16 round to nearest, ties to even.
Integers wrap around; conversions follow `tilework.dtypes.converted`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilework.dtypes import converted, is_float, is_integer, numpy_dtype, round_bfloat16
from tilework.te.dag import ComputeDAG
from tilework.te.expr import (
    Axis,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    IfThenElse,
    Logic,
    Lookup,
    Not,
    Read,
    Reduce,
    Select,
    walk,
    wrapped,
)
from tilework.te.numeric import MATH
from tilework.te.tensor import Compute, Operation

# elements of the largest intermediate array; larger operations are evaluated piece by piece
_GRID_LIMIT = 2**23
# reductions of at most this many terms (pooling windows) run as a loop over the terms
_LOOP_LIMIT = 64


def evaluate(
    dag: ComputeDAG, inputs: Sequence[np.ndarray], dtype: str | None = None
) -> list[np.ndarray]:
    """Evaluate ``dag``.

    Args:
        dag: the computation.
        inputs: one array per placeholder, in the order of ``dag.inputs``.
        dtype: compute all floating-point values in this type (for example ``"float64"`` for a
            reference of higher precision) instead of the declared ones; nothing is then rounded
            to bfloat16.

    Returns:
        One array per output, of the declared dtype (float32 for bfloat16) or ``dtype``.

    Raises:
        ValueError: the inputs do not match the placeholders.
        IndexError: an unguarded read falls outside its tensor.
    """
    if len(inputs) != len(dag.inputs):
        raise ValueError(f"the DAG takes {len(dag.inputs)} inputs, got {len(inputs)}")
    values: dict[Operation, np.ndarray] = {}
    for tensor, array in zip(dag.inputs, inputs, strict=True):
        if tuple(array.shape) != tensor.shape:
            raise ValueError(
                f"input {tensor.name} has shape {list(array.shape)}, expected {list(tensor.shape)}"
            )
        values[tensor.op] = np.asarray(array, _numpy_type(tensor.dtype, dtype), order="C")
    # reads of a branch that is not taken may compute nonsense, which is then discarded
    with np.errstate(all="ignore"):
        for op in dag.compute_ops:
            values[op] = _evaluate_op(op, values, dtype)
    return [values[t.op] for t in dag.outputs]


def _numpy_type(dtype: str, override: str | None) -> np.dtype[Any]:
    if is_float(dtype):
        return np.dtype(override or ("float32" if dtype == "bfloat16" else dtype))
    return numpy_dtype(dtype)


def _rounded(value: Any, dtype: str, override: str | None) -> Any:
    """``value`` as an element of ``dtype`` holds it."""
    exact = dtype != "bfloat16" or override is not None
    return value if exact else round_bfloat16(np.asarray(value))


@dataclass(frozen=True)
class _Range:
    """The part of an axis that is being evaluated, and its grid dimension."""

    dim: int
    start: int
    count: int


_Ranges = dict[Axis, _Range]
_Guarded = bool | np.ndarray


def _evaluate_op(
    op: Compute, values: dict[Operation, np.ndarray], dtype: str | None
) -> np.ndarray:
    axes = (*op.axes, *op.reduce_axes)
    full = {a: _Range(d, 0, a.extent) for d, a in enumerate(axes)}
    out = np.empty(op.shape, _numpy_type(op.dtype, dtype))
    for ranges in _pieces(op, full):
        grid = _Grid(ranges, values, dtype)
        value = _reduce(grid, op.body, op) if isinstance(op.body, Reduce) else grid(op.body)
        value = np.asarray(_rounded(value, op.dtype, dtype))
        if value.ndim:
            value = value.reshape(value.shape[: len(op.axes)])
        where = tuple(slice(ranges[a].start, ranges[a].start + ranges[a].count) for a in op.axes)
        out[where] = value
    return out


def _pieces(op: Compute, full: _Ranges) -> Iterator[_Ranges]:
    """Split the longest spatial axis of the largest operand so that it stays within the limit."""
    source = op.body.source if isinstance(op.body, Reduce) else op.body
    loops = isinstance(op.body, Reduce) and _loops(op.body)
    limited = {a for a, _ in op.body.limits} if isinstance(op.body, Reduce) else set()
    footprints = [op.axes]
    for node in walk(source):
        if isinstance(node, Read):
            used = dict.fromkeys(a for i in node.indices for a in walk(i) if isinstance(a, Axis))
            kept = (a for a in used if a not in limited and not (loops and a.kind == "reduce"))
            footprints.append(tuple(kept))
    widest = max(footprints, key=lambda used: math.prod(a.extent for a in used))
    size = math.prod(a.extent for a in widest)
    spatial = [a for a in widest if a.kind == "spatial"]
    if size <= _GRID_LIMIT or not spatial:
        yield full
        return
    axis = max(spatial, key=lambda a: a.extent)
    step = max(1, axis.extent * _GRID_LIMIT // size)
    for start in range(0, axis.extent, step):
        count = min(step, axis.extent - start)
        yield {**full, axis: _Range(full[axis].dim, start, count)}


# ---------------------------------------------------------------------------- reductions

_COMBINE: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _loops(reduce: Reduce) -> bool:
    terms = math.prod(a.extent for a in reduce.axes)
    product = reduce.kind == "sum" and len(_factors(reduce.source)) > 1
    return terms <= _LOOP_LIMIT and not product


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, Binary) and e.op == "*":
        return [*_factors(e.a), *_factors(e.b)]
    return [e]


def _reduce(grid: _Grid, reduce: Reduce, op: Compute) -> np.ndarray:
    """Value of a reduction over the grid; its reduce dimensions come out with extent 1."""
    if reduce.limits:
        return _limited(grid, reduce)
    factors = _factors(reduce.source)
    if reduce.kind == "sum" and len(factors) > 1:
        return _sum_of_products(grid, [grid(f) for f in factors], len(op.axes), reduce.axes)
    combine = _COMBINE[reduce.kind]
    if _loops(reduce):
        total: np.ndarray | None = None
        for term in grid.points(reduce.axes):
            value = np.asarray(term(reduce.source))
            total = value.copy() if total is None else combine(total, value)
        assert total is not None
        return total
    value = grid.full(reduce.source, reduce.axes)
    dims = tuple(grid.ranges[a].dim for a in reduce.axes)
    typed = {"dtype": value.dtype} if value.dtype.kind in "iu" else {}  # sums in their own type
    return np.asarray(combine.reduce(value, axis=dims, keepdims=True, **typed))


def _limited(grid: _Grid, reduce: Reduce) -> np.ndarray:
    """A reduction whose numbers of terms are data: term by term, each where it counts."""
    limits = {a: grid.lift(grid(limit)) for a, limit in reduce.limits}
    rest = tuple(a for a in reduce.axes if a not in limits)
    dims = tuple(grid.ranges[a].dim for a in rest)
    combine = _COMBINE[reduce.kind]
    identity = _numpy_type(reduce.dtype, grid.dtype).type(reduce.identity)
    longest = [max(0, min(a.extent, int(limit.max()))) for a, limit in limits.items()]
    total = np.full((1,) * grid.ndim, identity)
    for term in grid.points(tuple(limits), longest):
        counts = np.ones((1,) * grid.ndim, bool)
        for a, limit in limits.items():
            counts = counts & (term.ranges[a].start < limit)
        value = term.full(reduce.source, rest, counts)
        value = np.asarray(combine.reduce(value, axis=dims, keepdims=True)) if dims else value
        total = combine(total, np.where(counts, value, identity))
    return np.asarray(total)


def _sum_of_products(
    grid: _Grid, factors: list[np.ndarray], num_spatial: int, axes: Sequence[Axis]
) -> np.ndarray:
    """Contract all factors over the reduce dimensions through matrix products."""
    # merge down to two operands; a factor that varies along few dimensions merges cheaply
    arrays = [grid.lift(f) for f in factors]
    arrays.sort(key=lambda a: a.size)
    while len(arrays) > 2:
        arrays = sorted([arrays[0] * arrays[1], *arrays[2:]], key=lambda a: a.size)
    y, x = arrays
    reduce_dims = [grid.ranges[a].dim for a in axes]
    silent = math.prod(
        grid.ranges[a].count
        for a, d in zip(axes, reduce_dims, strict=True)
        if x.shape[d] == y.shape[d] == 1
    )
    only_x = tuple(d for d in reduce_dims if x.shape[d] > 1 and y.shape[d] == 1)
    only_y = tuple(d for d in reduce_dims if y.shape[d] > 1 and x.shape[d] == 1)
    x, y = (v.sum(axis=d, keepdims=True) if d else v for v, d in ((x, only_x), (y, only_y)))
    k = [d for d in reduce_dims if x.shape[d] > 1]
    spatial = range(num_spatial)
    both = [d for d in spatial if x.shape[d] > 1 and y.shape[d] > 1]
    m = [d for d in spatial if x.shape[d] > 1 and d not in both]
    n = [d for d in spatial if y.shape[d] > 1 and d not in both]

    def matrix(v: np.ndarray, rows: list[int], columns: list[int]) -> np.ndarray:
        sizes = [math.prod(v.shape[d] for d in dims) for dims in (both, rows, columns)]
        rest = [d for d in range(v.ndim) if d not in (*both, *rows, *columns)]
        return v.transpose(*both, *rows, *columns, *rest).reshape(sizes)

    product = np.matmul(matrix(x, m, k), matrix(y, k, n))
    if silent > 1:
        product = product * product.dtype.type(silent)
    shape = [*(x.shape[d] for d in (*both, *m)), *(y.shape[d] for d in n)]
    order = [*both, *m, *n]
    product = product.reshape(shape).transpose([order.index(d) for d in sorted(order)])
    lengths = [max(x.shape[d], y.shape[d]) if d in order else 1 for d in range(x.ndim)]
    return product.reshape(lengths)


# ---------------------------------------------------------------------------- expressions


class _Grid:
    """Evaluates expressions over (a part of) the iteration space of one operation."""

    def __init__(
        self, ranges: _Ranges, values: dict[Operation, np.ndarray], dtype: str | None
    ) -> None:
        self.ranges = ranges
        self.values = values
        self.dtype = dtype
        self.ndim = len(ranges)

    def points(self, axes: Sequence[Axis], counts: Sequence[int] | None = None) -> Iterator[_Grid]:
        """One grid for every point of ``axes``, which are fixed in it; or for the first some."""
        for index in np.ndindex(*(counts or [self.ranges[a].count for a in axes])):
            fixed = {
                a: _Range(self.ranges[a].dim, self.ranges[a].start + i, 1)
                for a, i in zip(axes, index, strict=True)
            }
            yield _Grid({**self.ranges, **fixed}, self.values, self.dtype)

    def lift(self, value: Any) -> np.ndarray:
        """``value`` with all grid dimensions."""
        array = np.asarray(value)
        return array if array.ndim else array.reshape((1,) * self.ndim)

    def full(self, e: Expr, axes: Sequence[Axis], guarded: _Guarded = False) -> np.ndarray:
        """Value of ``e`` that has the extent of each of ``axes``, even where it does not vary."""
        value = self.lift(self(e, guarded))
        shape = list(value.shape)
        for a in axes:
            shape[self.ranges[a].dim] = self.ranges[a].count
        return np.broadcast_to(value, shape)

    def __call__(self, e: Expr, guarded: _Guarded = False) -> Any:
        """Value of ``e``; ``guarded`` reads are clamped into their tensor.

        Where it is an array, those of the points where it holds must be in range all the same.
        """
        match e:
            case Const():
                value = wrapped(int(e.value), e.dtype) if is_integer(e.dtype) else e.value
                literal = _numpy_type(e.dtype, self.dtype).type(value)
                return _rounded(literal, e.dtype, self.dtype)
            case Axis():
                return self._axis(e)
            case Read():
                return self._read(e, guarded)
            case Binary():
                return self._binary(e, guarded)
            case Compare():
                return _COMPARE[e.op](self(e.a, guarded), self(e.b, guarded))
            case Logic():
                both = np.logical_and if e.op == "and" else np.logical_or
                return both(self(e.a, guarded), self(e.b, guarded))
            case Not():
                return np.logical_not(self(e.a, guarded))
            case Select():
                cond = self(e.cond, guarded)
                return np.where(cond, self(e.a, guarded), self(e.b, guarded))
            case IfThenElse():
                cond = self(e.cond, guarded)
                if np.all(cond):
                    return self(e.a, guarded)
                if not np.any(cond):
                    return self(e.b, guarded)
                return np.where(cond, self(e.a, True), self(e.b, True))
            case Cast():
                return self._cast(e.dtype, np.asarray(self(e.a, guarded)))
            case Lookup():
                table = np.array(e.values, _numpy_type(e.dtype, self.dtype)).reshape(e.shape)
                return table[tuple(np.broadcast_arrays(*(self(i) for i in e.indices)))]
            case Call():
                return MATH[e.name](*(self(a, guarded) for a in e.args))
        raise TypeError(f"cannot evaluate {type(e).__name__}")

    def _binary(self, e: Binary, guarded: _Guarded) -> Any:
        a, b = self(e.a, guarded), self(e.b, guarded)
        if not is_integer(e.dtype):
            return _BINARY[e.op](a, b)
        kind = numpy_dtype(e.dtype)  # positions are int64, whatever they are used with
        a, b = np.asarray(a).astype(kind), np.asarray(b).astype(kind)
        return (_INTEGER | _BINARY)[e.op](a, b)

    def _cast(self, dtype: str, value: np.ndarray) -> np.ndarray:
        if is_float(dtype) and (self.dtype is not None or dtype == "bfloat16"):
            return np.asarray(
                _rounded(value.astype(_numpy_type(dtype, self.dtype)), dtype, self.dtype)
            )
        return converted(value, dtype)

    def _axis(self, axis: Axis) -> np.ndarray:
        r = self.ranges[axis]
        shape = [1] * self.ndim
        shape[r.dim] = r.count
        return np.arange(r.start, r.start + r.count).reshape(shape)

    def _read(self, e: Read, guarded: _Guarded) -> np.ndarray:
        array = self.values[e.tensor.op]
        view = self._strided(e, array)
        if view is not None:
            return view
        positions = []
        for index, extent in zip(e.indices, array.shape, strict=True):
            position = np.asarray(self(index, guarded))
            outside = position.min() < 0 or position.max() >= extent
            if isinstance(guarded, np.ndarray) and outside:
                wrong = (position < 0) | (position >= extent)
                outside = bool(np.any(wrong & guarded))
                position = np.clip(position, 0, extent - 1)
            elif guarded is True:
                position, outside = np.clip(position, 0, extent - 1), False
            if outside:
                raise IndexError(f"a read of {e.tensor.name} falls outside its extent {extent}")
            positions.append(position)
        return self._gather(array, positions)

    def _strided(self, e: Read, array: np.ndarray) -> np.ndarray | None:
        """The read as a view, if all its indices are affine and in range."""
        shape, strides = [1] * self.ndim, [0] * self.ndim
        offset = 0
        for index, extent, stride in zip(e.indices, array.shape, array.strides, strict=True):
            affine = _affine(index)
            if affine is None:
                return None
            first, steps = affine
            low = high = first
            for axis, step in steps.items():
                r = self.ranges[axis]
                first += step * r.start
                ends = (step * r.start, step * (r.start + r.count - 1))
                low, high = low + min(ends), high + max(ends)
                shape[r.dim] = r.count
                strides[r.dim] += step * stride
            if low < 0 or high >= extent:
                return None
            offset += first * stride // array.itemsize
        start = array.reshape(-1)[offset:]
        return np.lib.stride_tricks.as_strided(start, shape, strides, writeable=False)

    def _gather(self, array: np.ndarray, positions: list[np.ndarray]) -> np.ndarray:
        """Elements of ``array`` at broadcast ``positions``."""
        varying = [[d for d in range(p.ndim) if p.shape[d] > 1] for p in positions]
        used = [d for dims in varying for d in dims]
        if max(map(len, varying)) > 1 or len(set(used)) < len(used):
            return array[tuple(np.broadcast_arrays(*positions))]
        # every dimension of the array follows one grid dimension of its own: take rows
        for d, position in enumerate(positions):
            rows = position.reshape(-1)
            if rows.size != array.shape[d] or (rows != np.arange(rows.size)).any():
                array = np.take(array, rows, axis=d)
        kept = sorted((d for d, dims in enumerate(varying) if dims), key=lambda d: varying[d][0])
        single = [d for d, dims in enumerate(varying) if not dims]
        shape = [1] * self.ndim
        for d in kept:
            shape[varying[d][0]] = array.shape[d]
        return array.transpose(*kept, *single).reshape(shape)


def _affine(e: Expr) -> tuple[int, dict[Axis, int]] | None:
    """``e`` as constant + sum of step * axis, if it has that form."""
    match e:
        case Const():
            return int(e.value), {}
        case Axis():
            return 0, {e: 1}
        case Binary(op="+" | "-"):
            a, b = _affine(e.a), _affine(e.b)
            if a is None or b is None:
                return None
            sign = 1 if e.op == "+" else -1
            steps = dict(a[1])
            for axis, step in b[1].items():
                steps[axis] = steps.get(axis, 0) + sign * step
            return a[0] + sign * b[0], steps
        case Binary(op="*"):
            a, b = _affine(e.a), _affine(e.b)
            if a is None or b is None or (a[1] and b[1]):
                return None
            if b[1]:
                a, b = b, a
            return a[0] * b[0], {axis: step * b[0] for axis, step in a[1].items()}
    return None


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.mod,
    "max": np.maximum,
    "min": np.minimum,
}


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    down = np.floor_divide(a, b)
    inexact = (down * b != a) & ((a < 0) != (b < 0))
    return np.asarray(down + inexact.astype(down.dtype))


def _shifted(shift: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits = 8 * a.dtype.itemsize
        far = b.astype(np.dtype(f"u{a.dtype.itemsize}")) >= bits
        out = shift(a, np.where(far, 0, b).astype(b.dtype))
        gone = np.where(a < 0, -1, 0).astype(a.dtype) if shift is np.right_shift else a * 0
        return np.asarray(np.where(far, gone, out))

    return apply


_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "quot": _truncated,
    "rem": lambda a, b: a - _truncated(a, b) * b,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": _shifted(np.left_shift),
    ">>": _shifted(np.right_shift),
}

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
