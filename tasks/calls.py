"""A network's calls by their declarations in NumPy: one after the other, or each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.engines import max_rel_error
from tasks.report import TOLERANCES
from tilework.graph import Network, plan
from tilework.graph.unrolled import unrolled
from tilework.index.symbols import Point

if TYPE_CHECKING:
    from tilework.graph.plan import Call, Plan
    from tilework.graph.precision import Precision
    from tilework.runtime.image import Image

Arrays = Sequence[NDArray[Any]]

_STEP = 0.02
"""What single elements of a call may be off by: one that was rounded to the other side is off by a
step, of which there are 127 or 255 to the largest."""
_ELEMENTS = 0.01
"""The share of elements that may be off by more than float sums in another order make of them."""


def evaluated(
    planned: Plan, inputs: Mapping[str, NDArray[Any]], at: Point, dtype: str | None = None
) -> Arrays:
    """The outputs of a plan without loops at a point; floats in ``dtype`` where one is named."""
    return _Run(planned, inputs, at, dtype).outputs()


def straight(network: Network, at: Point | None = None) -> Network:
    """The network without loops, whose calls are made once each; at a point, if it has loops."""
    if not any(node.op == "loop" for node in network.nodes):
        return network
    return unrolled(network.at(at or {}))


def wrong_call(
    image: Image, network: Network, precision: Precision, inputs: Mapping[str, NDArray[Any]]
) -> str:
    """The first call of a static network whose kernel is wrong by itself; empty if all are right.

    Each is compiled with the schedule that the image has for its task and gets what NumPy computed
    before it, so that nothing is passed on.
    """
    from tilework.compiler.single import compile_task
    from tilework.graph.extract import task_of
    from tilework.target import Target

    target = Target(image.target)
    planned = plan(straight(network), precision, target)
    chosen = {report.workload_key: report for report in image.report}
    for call, given, wanted in _Run(planned, inputs, {}).steps():
        report = chosen.get(call.dag.workload_key) if call.complex else None
        sketch, row = (report.sketch_id, report.decisions) if report else (None, None)
        function = compile_task(task_of(planned, call, target), sketch_id=sketch, row=row)
        if not _right(function(*given), wanted):
            return call.desc
    return ""


def _right(found: Arrays, wanted: Arrays) -> bool:
    for ours, theirs in zip(found, wanted, strict=True):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        off = np.abs(a - b) > TOLERANCES["f32"] * np.max(np.abs(b), initial=0.0)
        if not max_rel_error([a], [b]) <= _STEP or off.mean() > _ELEMENTS:
            return False
    return True


class _Run:
    """The values of a run."""

    def __init__(
        self,
        planned: Plan,
        inputs: Mapping[str, NDArray[Any]],
        at: Point,
        dtype: str | None = None,
    ) -> None:
        self._plan, self._at, self._dtype = planned, at, dtype
        self._values = {**planned.constants, **inputs}

    def steps(self) -> Iterator[tuple[Call, Arrays, Arrays]]:
        """Each call, what it reads, and what it computes of that."""
        from tilework.te import evaluate
        from tilework.te.points import at_point

        for call in self._plan.calls:
            dag = at_point(call.dag, self._at) if self._at else call.dag
            given = [self._value(name) for name in call.inputs]
            computed = evaluate(dag, given, self._dtype)
            (self._values[call.output],) = computed
            yield call, given, computed

    def outputs(self) -> Arrays:
        """All calls are made."""
        for _ in self.steps():
            pass
        return [self._value(name) for name in self._plan.outputs]

    def _value(self, name: str) -> NDArray[Any]:
        from tilework.index.extents import shape_at

        source = self._plan.views.get(name)
        if source is None:
            return self._values[name]
        array, of = self._values[source], self._plan.values[name]
        if of.dtype != self._plan.values[source].dtype:  # words as the bytes they are made of
            array = np.ascontiguousarray(array).view(of.dtype)
        return array.reshape(shape_at(of.shape, self._at))
