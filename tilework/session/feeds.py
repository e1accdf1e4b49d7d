"""What a model takes and returns, and the feeds of a run, checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilework.dtypes import is_float, numpy_dtype
from tilework.errors import ModuleError, TileworkError
from tilework.runtime.names import in_order
from tilework.session.facts import Declared, Facts
from tilework.session.values import type_text

_TEXT = "tensor(string)"


class _Ready(NamedTuple):
    """What of an input is asked at every run: an array that is such is taken as it is.

    Attributes:
        dtype: of its elements.
        rank: number of its dimensions.
        extents: those that the model fixes, each behind its dimension's number.
    """

    dtype: np.dtype[Any]
    rank: int
    extents: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, declared: Declared) -> _Ready:
        """That of an input of numbers."""
        fixed = [(d, n) for d, n in enumerate(declared.shape) if isinstance(n, int)]
        return cls(numpy_dtype(declared.dtype), len(declared.shape), tuple(fixed))

    def holds(self, given: Any) -> bool:
        """Whether a feed is an array of this type and shape."""
        if type(given) is not np.ndarray or given.dtype != self.dtype:
            return False
        shape = given.shape
        if len(shape) != self.rank:
            return False
        return not [n for d, n in self.extents if shape[d] != n]


class Feeds:
    """The inputs and outputs of a model.

    Attributes:
        inputs: by name, in order.
        outputs: names, in order.
    """

    def __init__(self, facts: Facts) -> None:
        self.inputs = {i.name: i for i in facts.inputs}
        self.outputs = [o.name for o in facts.outputs]
        self._ready = {i.name: _Ready.of(i) for i in facts.inputs if i.plain}

    def fixed_shapes(self, extents: Mapping[str, int]) -> dict[str, tuple[int, ...]] | None:
        """Shapes of all inputs, if they are known before a run.

        Args:
            extents: of symbols.

        Raises:
            TileworkError: the model has no such symbol.
        """
        symbols = {n for i in self.inputs.values() for n in i.shape if isinstance(n, str)}
        if unknown := set(extents) - symbols:
            raise TileworkError(f"the model has no symbolic extent {', '.join(sorted(unknown))}")
        shapes = {}
        for i in (i for i in self.inputs.values() if i.tensor):
            shape = [extents.get(n, n) if isinstance(n, str) else n for n in i.shape]
            if not all(isinstance(n, int) for n in shape):
                return None
            shapes[i.name] = tuple(int(n) for n in shape if n is not None)
        return shapes

    def arrays(
        self, feed: Mapping[str, Any], names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The feeds as arrays, but for what is no tensor.

        Args:
            names: of the inputs that are fed, in order; None: of all.

        Raises:
            ModuleError: a name is unknown, or an array is missing or of another shape or type.
        """
        if not isinstance(feed, dict | Mapping):
            raise ModuleError(
                f"inputs are given by name, {{'{next(iter(self.inputs), 'x')}': array}}, "
                f"not as {type(feed).__name__}"
            )
        names = list(self.inputs) if names is None else names
        given = in_order(names, feed, lambda: _taken([self.inputs[n] for n in names]))
        arrays = dict(zip(names, given, strict=True))
        ready = self._ready
        for name, array in arrays.items():
            if name not in ready or not ready[name].holds(array):
                arrays[name] = _array(self.inputs[name], array)
        return arrays

    def shapes(self, arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """The shapes of those that are tensors."""
        return {name: arrays[name].shape for name, i in self.inputs.items() if i.tensor}

    def places(self, names: Sequence[str] | None) -> list[int] | None:
        """Which outputs are asked for; None: all.

        Raises:
            ModuleError: a name is unknown.
        """
        if not names:
            return None
        unknown = [str(n) for n in names if n not in self.outputs]
        if unknown:
            raise ModuleError(
                f"the model has no output {', '.join(unknown)}; "
                f"its outputs: {', '.join(self.outputs)}"
            )
        return [self.outputs.index(n) for n in names]


def _array(declared: Declared, given: Any) -> Any:
    """A feed, checked; what is no tensor as it is given.

    Raises:
        ModuleError: it is of another type or shape than its input.
    """
    if not declared.tensor:
        return given
    if not declared.plain:
        return np.asarray(given, object) if declared.dtype == _TEXT else np.asarray(given)
    try:
        array = given.numpy() if hasattr(given, "numpy") else np.asarray(given)
        if isinstance(given, list) and (array.dtype.kind in "iu" or is_float(declared.dtype)):
            array = np.asarray(given, numpy_dtype(declared.dtype))  # which loses no fractions
    except Exception as e:  # whatever a foreign array says
        raise ModuleError(f"input {declared.name}: no array can be made of it: {e}") from e
    if array.dtype != numpy_dtype(declared.dtype):
        raise ModuleError(
            f"input {declared.name}: expected {type_text(declared.dtype)}, got an array of "
            f"{array.dtype}; convert it with .astype(numpy.{declared.dtype})"
        )
    fits = array.ndim == len(declared.shape) and all(
        not isinstance(wanted, int) or wanted == n
        for wanted, n in zip(declared.shape, array.shape, strict=False)
    )
    if not fits:
        raise ModuleError(
            f"input {declared.name}: expected the shape {_shape(declared)}, "
            f"got {list(array.shape)}"
        )
    return array


def _taken(inputs: Iterable[Declared]) -> str:
    return f"the model takes the inputs {', '.join(map(_text, inputs)) or 'none'}"


def _text(value: Declared) -> str:
    return f"{value.name} {type_text(value.dtype)}{_shape(value)}"


def _shape(value: Declared) -> str:
    return f"[{', '.join('?' if n is None else str(n) for n in value.shape)}]"
