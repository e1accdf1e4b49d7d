"""Which input an output of a schedule may take the place of: see `tilework.lower.inplace`."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.lower.inplace import replaceable
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.task import SearchTask


def replaceable_inputs(task: SearchTask, sketch_id: int, row: Sequence[int]) -> frozenset[int]:
    """Positions of the inputs that the task's output may overwrite under this schedule."""
    sketch = SearchSpace.of(task).sketch(sketch_id)
    lowered = lowering_of(task.target).lower(sketch, row)
    found = replaceable(lowered.program)
    return frozenset(i for i in found if i not in lowered.packing)
