"""Runs with fixed buffers: what a service repeats, with no work left to do per call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.runtime.arrays import aligned_empty, check_ready
from tilework.runtime.image import Image, Value

Array = NDArray[Any]


class BoundCall:
    """A module's run on fixed arrays: ``call()`` costs about a microsecond beside the kernels.

    Attributes:
        inputs: the arrays that a call reads, by name; fill them in place.
        outputs: the arrays that a call writes; every call overwrites them.
    """

    __slots__ = ("_run", "inputs", "outputs")

    def __init__(
        self, run: Callable[[], None], inputs: dict[str, Array], outputs: list[Array]
    ) -> None:
        self._run = run
        self.inputs = inputs
        self.outputs = outputs

    def __call__(self) -> list[Array]:
        """Run once; returns `outputs`."""
        self._run()
        return self.outputs


def io_buffers(
    image: Image, inputs: Mapping[str, Array] | None, outputs: Sequence[Array] | None
) -> list[Array]:
    """One array per io number: the caller's where given, else new ones.

    Raises:
        ModuleError: an array cannot be used as it is, or two of them overlap.
    """
    given: dict[int, tuple[str, Value, Array]] = {}
    names = [v.name for v in image.inputs]
    unknown = [str(n) for n in inputs or () if n not in names]
    if unknown:
        raise ModuleError(
            f"module {image.name} has no input {', '.join(unknown)}; it has {', '.join(names)}"
        )
    for v in image.inputs:
        if inputs and v.name in inputs:
            given[v.io] = (f"input {v.name}", v, inputs[v.name])
    if outputs is not None:
        if len(outputs) != len(image.outputs):
            raise ModuleError(
                f"module {image.name} has {len(image.outputs)} outputs, got {len(outputs)} arrays"
            )
        for v, array in zip(image.outputs, outputs, strict=True):
            if v.io in given:
                raise ModuleError(
                    f"output {v.name} shares its memory with {given[v.io][0]}: bind without "
                    "outputs, and take those of the bound call"
                )
            given[v.io] = (f"output {v.name}", v, array)
    for what, value, array in given.values():
        _check(what, value, array)
    _check_apart([(what, array) for what, _, array in given.values()], image)
    return [given[i][2] if i in given else _new(v) for i, v in enumerate(image.io_values)]


def bound_outputs(image: Image, buffers: Sequence[Array]) -> list[Array]:
    """The outputs in order, as views of the io buffers."""
    return [buffers[v.io].reshape(v.shape) for v in image.outputs]


def _new(value: Value) -> Array:
    """An aligned array of zeros; written to, so that a call finds its pages in place."""
    out = aligned_empty(value.shape, value.dtype)
    out[...] = 0
    return out


def _check(what: str, value: Value, array: Any) -> None:
    check_ready(what, array, value.shape, value.dtype)
    if what.startswith("output") and not array.flags.writeable:
        raise ModuleError(f"{what}: the array is read-only")


def _check_apart(arrays: Sequence[tuple[str, Array]], image: Image) -> None:
    """Outputs must not overlap anything: a kernel may write one before all inputs are read."""
    for i, (what, array) in enumerate(arrays):
        for other, earlier in arrays[:i]:
            if what.startswith("output") and np.may_share_memory(array, earlier):
                raise ModuleError(f"module {image.name}: {what} and {other} overlap in memory")
