"""How like two workloads are, told from the documents that a history keeps of them.

Of hundreds of workloads a model learns best from those whose programs look like the ones that it
will rank: as many loops to reduce over, of about the same sizes. Nothing is derived here: a
document is looked through in a fraction of a millisecond.
"""

from __future__ import annotations

import json
import math
from typing import NamedTuple

from tilework.te import ComputeDAG
from tilework.te.serial import DagFormatError, dag_to_json

REDUCE_LOOPS = 2.0
"""Weight of a loop of the reduction that the other workload lacks: 1 is twice as many points."""
STAGES = 0.5
"""Weight of a stage more."""
OTHER_TYPE = 3.0
"""Weight of another element type."""


class Shape(NamedTuple):
    """A workload by its heaviest stage.

    Attributes:
        points: of that stage's output, log2.
        reduced: points that each of them is computed from, log2.
        loops: axes of the reduction.
        stages: computed tensors in all.
        dtype: of the workload's first input.
    """

    points: float
    reduced: float
    loops: int
    stages: int
    dtype: str


def shape_of(document: str) -> Shape | None:
    """The shape of the workload that a document (`tilework.te.serial`) describes, if it does."""
    try:
        ops = json.loads(document)["ops"]
        stages = [
            (_log_points(op["axes"]), _log_points(op["reduce"]), len(op["reduce"]))
            for op in ops
            if "compute" in op
        ]
        types = [str(op["dtype"]) for op in ops if "placeholder" in op]
        points, reduced, loops = max(stages, key=lambda s: (s[0] + s[1], s[2]))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None
    return Shape(points, reduced, loops, len(stages), types[0] if types else "")


def shape_of_dag(dag: object) -> Shape | None:
    """The shape of what a task computes; None where it has no document."""
    if not isinstance(dag, ComputeDAG):
        return None
    try:
        return shape_of(dag_to_json(dag))
    except DagFormatError:
        return None


def distance(one: Shape, other: Shape) -> float:
    """0 for workloads of one shape; 1 for one with twice as many points."""
    return (
        abs(one.points - other.points)
        + abs(one.reduced - other.reduced)
        + REDUCE_LOOPS * abs(one.loops - other.loops)
        + STAGES * abs(one.stages - other.stages)
        + OTHER_TYPE * (one.dtype != other.dtype)
    )


def _log_points(axes: list[tuple[str, int]]) -> float:
    return math.log2(math.prod(max(1, int(extent)) for _, extent in axes))
