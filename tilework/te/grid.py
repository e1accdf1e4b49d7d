"""Values of expressions over the iteration space of an operation.

A grid has one dimension per axis; a value is an array over it, with extent 1 where it does not
vary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilework.dtypes import converted, is_float, is_integer, numpy_dtype, round_bfloat16, wrapped
from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.index.whole import COMPARE
from tilework.te import expr as x
from tilework.te.affine import linear
from tilework.te.numeric import ARITHMETIC, MATH, WHOLE
from tilework.te.tensor import Operation


def held_type(dtype: str, override: str | None) -> np.dtype[Any]:
    """The NumPy type that values of ``dtype`` are held in; ``override`` is that of `evaluate`."""
    if is_float(dtype):
        return np.dtype(override or ("float32" if dtype == "bfloat16" else dtype))
    return numpy_dtype(dtype)


def rounded(value: Any, dtype: str, override: str | None) -> Any:
    """``value`` as an element of ``dtype`` holds it."""
    exact = dtype != "bfloat16" or override is not None
    return value if exact else round_bfloat16(np.asarray(value))


@frozen
class Range:
    """The part of an axis that is being evaluated, and its grid dimension."""

    dim: int
    start: int
    count: int


Ranges = dict[x.Axis, Range]
Guarded = bool | np.ndarray


class Grid:
    """Evaluates expressions over (a part of) the iteration space of one operation."""

    def __init__(
        self, ranges: Ranges, values: dict[Operation, np.ndarray], dtype: str | None
    ) -> None:
        self.ranges = ranges
        self.values = values
        self.dtype = dtype
        self.ndim = len(ranges)

    def points(
        self, axes: Sequence[x.Axis], counts: Sequence[int] | None = None
    ) -> Iterator[Grid]:
        """One grid for every point of ``axes``, which are fixed in it; or for the first some."""
        for index in np.ndindex(*(counts or [self.ranges[a].count for a in axes])):
            fixed = {
                a: Range(self.ranges[a].dim, self.ranges[a].start + i, 1)
                for a, i in zip(axes, index, strict=True)
            }
            yield Grid({**self.ranges, **fixed}, self.values, self.dtype)

    def lift(self, value: Any) -> np.ndarray:
        """``value`` with all grid dimensions."""
        array = np.asarray(value)
        return array if array.ndim else array.reshape((1,) * self.ndim)

    def full(self, e: x.Expr, axes: Sequence[x.Axis], guarded: Guarded = False) -> np.ndarray:
        """Value of ``e`` that has the extent of each of ``axes``, even where it does not vary."""
        value = self.lift(self(e, guarded))
        shape = list(value.shape)
        for a in axes:
            shape[self.ranges[a].dim] = self.ranges[a].count
        return np.broadcast_to(value, shape)

    def __call__(self, e: x.Expr, guarded: Guarded = False) -> Any:
        """Value of ``e``; ``guarded`` reads are clamped into their tensor.

        Where it is an array, those of the points where it holds must be in range all the same.
        """
        match e:
            case x.Const():
                value = wrapped(known(e.whole), e.dtype) if is_integer(e.dtype) else e.value
                literal = held_type(e.dtype, self.dtype).type(value)
                return rounded(literal, e.dtype, self.dtype)
            case x.Axis():
                return self._axis(e)
            case x.Read():
                return self._read(e, guarded)
            case x.Binary():
                return self._binary(e, guarded)
            case x.Compare():
                return COMPARE[e.op](self(e.a, guarded), self(e.b, guarded))
            case x.Logic():
                both = np.logical_and if e.op == "and" else np.logical_or
                return both(self(e.a, guarded), self(e.b, guarded))
            case x.Not():
                return np.logical_not(self(e.a, guarded))
            case x.Select():
                cond = self(e.cond, guarded)
                return np.where(cond, self(e.a, guarded), self(e.b, guarded))
            case x.IfThenElse():
                cond = self(e.cond, guarded)
                if np.all(cond):
                    return self(e.a, guarded)
                if not np.any(cond):
                    return self(e.b, guarded)
                return np.where(cond, self(e.a, True), self(e.b, True))
            case x.Cast():
                return self._cast(e.dtype, np.asarray(self(e.a, guarded)))
            case x.Lookup():
                table = np.array(e.values, held_type(e.dtype, self.dtype)).reshape(e.shape)
                return table[tuple(np.broadcast_arrays(*(self(i) for i in e.indices)))]
            case x.Call():
                return MATH[e.name](*(self(a, guarded) for a in e.args))
        raise TypeError(f"cannot evaluate {type(e).__name__}")

    def _binary(self, e: x.Binary, guarded: Guarded) -> Any:
        a, b = self(e.a, guarded), self(e.b, guarded)
        if not is_integer(e.dtype):
            return ARITHMETIC[e.op](a, b)
        kind = numpy_dtype(e.dtype)  # positions are int64, whatever they are used with
        a, b = np.asarray(a).astype(kind), np.asarray(b).astype(kind)
        return WHOLE[e.op](a, b)

    def _cast(self, dtype: str, value: np.ndarray) -> np.ndarray:
        if is_float(dtype) and (self.dtype is not None or dtype == "bfloat16"):
            return np.asarray(
                rounded(value.astype(held_type(dtype, self.dtype)), dtype, self.dtype)
            )
        return converted(value, dtype)

    def _axis(self, axis: x.Axis) -> np.ndarray:
        r = self.ranges[axis]
        shape = [1] * self.ndim
        shape[r.dim] = r.count
        return np.arange(r.start, r.start + r.count).reshape(shape)

    def _read(self, e: x.Read, guarded: Guarded) -> np.ndarray:
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

    def _strided(self, e: x.Read, array: np.ndarray) -> np.ndarray | None:
        """The read as a view, if all its indices are affine and in range."""
        shape, strides = [1] * self.ndim, [0] * self.ndim
        offset = 0
        for index, extent, stride in zip(e.indices, array.shape, array.strides, strict=True):
            form = linear(index)
            if form is None:
                return None
            first = low = high = known(form.const)
            for axis, coefficient in form.coefficients.items():
                r, step = self.ranges[axis], known(coefficient)
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
            return np.asarray(array[tuple(np.broadcast_arrays(*positions))])
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
