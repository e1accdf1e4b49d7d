"""Is the kernel's output right? The reference, and the comparison with it.

Tolerance: an output may differ from the reference by ``1e-4 * max(1, sqrt(K / 4096))`` times the
largest magnitude in the reference, where K is the longest reduction of the task. Rounding errors
of a float32 sum of K products stay ten times below that; a single wrong or missing product of a
usual reduction is above it. Outputs of integers must be equal.

An output of a narrow floating-point type is compared with what is rounded to it: beside the above,
each element may differ by 2^-8 of itself (bfloat16: the largest rounding error of 8 bits) or 2^-11
(float16). Inputs of such types are drawn rounded, and their products are exact in float32, so that
nothing else differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilework.dtypes import is_float_array
from tilework.frozen import frozen
from tilework.measure.inputs import draw_inputs, stored_blocks
from tilework.te.evaluate import evaluate
from tilework.te.expr import Cast
from tilework.te.tensor import Compute, Tensor, make_compute

_BASE_TOLERANCE = 1e-4
_BASE_REDUCTION = 4096
_ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}


@frozen
class Answer:
    """The right outputs for inputs drawn from [`low`, 1] with a known seed."""

    low: float
    outputs: tuple[np.ndarray, ...]


@frozen
class Reference:
    """Inputs of a task, the right outputs, and how far an output may be off, relatively.

    ``tolerance`` is relative to the largest magnitude of an output; ``rounding`` has, per output,
    what an element may be off in addition, relative to itself; ``stored`` names the inputs that
    are the blocks of sparse weights.
    """

    inputs: tuple[np.ndarray, ...]
    answer: Answer
    tolerance: float
    rounding: tuple[float, ...] = ()
    stored: frozenset[str] = frozenset()

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return sum(array.nbytes for array in (*self.inputs, *self.answer.outputs))


def make_reference(
    dag: Any,
    seed: int,
    answer: Answer | None = None,
    known: Mapping[str, np.ndarray] | None = None,
) -> Reference:
    """Draws inputs and computes what a kernel must produce from them.

    Inputs are uniform in [-1, 1]; in (0, 1] if that gives an output that is not finite (roots,
    logarithms). Integer inputs are 0 or 1, which is in range where they serve as indices.

    Args:
        dag: the computation.
        seed: of the inputs.
        answer: the answer that an earlier call with this seed found; not computed again.
        known: inputs that are not drawn, by name; see `tilework.measure.inputs`.

    Raises:
        ValueError: no inputs were found that give a finite output.
    """
    given, stored = known or {}, stored_blocks(dag)
    tolerance = output_tolerance(dag)
    rounding = tuple(_ROUNDING.get(t.dtype, 0.0) for t in dag.outputs)
    if answer is not None:
        inputs = draw_inputs(dag, seed, answer.low, given)
        return Reference(tuple(inputs), answer, tolerance, rounding, stored)
    exact = _unrounded(dag)
    for low in (-1.0, 1e-3):
        inputs = draw_inputs(dag, seed, low, given)
        with np.errstate(all="ignore"):
            outputs = tuple(np.asarray(array) for array in evaluate(exact, inputs))
        if all(np.isfinite(array).all() for array in outputs):
            return Reference(tuple(inputs), Answer(low, outputs), tolerance, rounding, stored)
    raise ValueError("the reference output is not finite for any inputs tried")


@frozen
class Deviation:
    """How a kernel's outputs differ from the reference.

    Attributes:
        error: largest error relative to the largest magnitude of its output; inf if an element is
            not finite (a poisoned one was never written).
        text: what is wrong, empty if nothing is.
    """

    error: float
    text: str = ""


def compare(outputs: Sequence[np.ndarray], reference: Reference) -> Deviation:
    """Compares outputs with the reference; the first one out of tolerance is described."""
    worst = 0.0
    rounding = reference.rounding or (0.0,) * len(outputs)
    for number, (got, want) in enumerate(zip(outputs, reference.answer.outputs, strict=True)):
        if got.shape != want.shape:
            return Deviation(math.inf, f"output {number} has shape {got.shape}, not {want.shape}")
        exact = not is_float_array(got)  # integers: their differences may not fit their type
        wide = np.float64 if exact else want.dtype
        difference = np.abs(got.astype(wide) - want.astype(wide))
        if exact:
            difference = np.maximum(difference, got != want)
        want = want.astype(wide)
        scale = float(np.abs(want).max(initial=0.0)) or 1.0
        error = float(difference.max(initial=0.0)) / scale
        error = error if math.isfinite(error) else math.inf
        worst = max(worst, error)
        limit = 0.0 if exact else reference.tolerance * scale
        excess = difference - (limit + rounding[number] * np.abs(want))
        if not bool((excess <= 0).all()):
            return Deviation(worst, _describe(number, got, want, excess, error))
    return Deviation(worst)


def _describe(
    number: int, got: np.ndarray, want: np.ndarray, excess: np.ndarray, error: float
) -> str:
    at = np.unravel_index(int(np.argmax(excess)), want.shape)  # the first NaN, if there is one
    place = ", ".join(str(int(i)) for i in at)
    if not np.isfinite(got[at]):
        missing = int((~np.isfinite(got)).sum())
        return f"output {number}: {missing} of {got.size} elements not written, first ({place})"
    return (
        f"output {number} differs: {float(got[at]):.6g} instead of {float(want[at]):.6g} "
        f"at ({place}), relative error {error:.2g}"
    )


def _unrounded(dag: Any) -> Any:
    """The DAG without the rounding of its outputs to a narrow type."""

    def wide(tensor: Tensor) -> Tensor:
        op = tensor.op
        if isinstance(op, Compute) and isinstance(op.body, Cast) and op.dtype in _ROUNDING:
            return Tensor(make_compute(op.name, op.axes, op.body.a, op.attrs))
        return tensor

    if not any(t.dtype in _ROUNDING for t in dag.outputs):
        return dag
    return type(dag)([*dag.inputs, *map(wide, dag.outputs)])


def output_tolerance(dag: Any) -> float:
    """Allowed error relative to the largest magnitude of the reference; see the module's text."""
    longest = max(
        (math.prod(a.typical for a in getattr(op, "reduce_axes", ())) for op in dag.ops), default=1
    )
    return _BASE_TOLERANCE * max(1.0, math.sqrt(longest / _BASE_REDUCTION))
