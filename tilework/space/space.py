"""The schedule space of one task: its sketches."""

from __future__ import annotations

from dataclasses import dataclass

from tilework.errors import ScheduleError
from tilework.space.rules import derive
from tilework.space.sketch import Sketch
from tilework.space.winograd import Variant, winograd_variants
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te import ComputeDAG
from tilework.te.analysis import AccessAnalysis

RULES_VERSION = 3
"""Raised whenever a sketch or the meaning of its columns changes: rows of another version are
never replayed."""

_SPACES: dict[tuple[int, str], SearchSpace] = {}


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """All sketches of a task, derived by rules from its compute DAG alone."""

    dag: ComputeDAG
    target: Target
    sketches: tuple[Sketch, ...]

    @staticmethod
    def of(task: SearchTask) -> SearchSpace:
        """The (cached) space of a task."""
        key = (id(task.compute_dag), str(task.target))
        if key not in _SPACES:
            _SPACES[key] = SearchSpace.derive(task.compute_dag, task.target)
        return _SPACES[key]

    @staticmethod
    def derive(dag: ComputeDAG, target: Target) -> SearchSpace:
        """Apply the target's rules to a DAG."""
        sketches: list[Sketch] = []
        for variant in (Variant("", dag, {}), *winograd_variants(dag)):
            for blocks, state in derive(AccessAnalysis(variant.dag)):
                steps = (variant.name, *state.steps) if variant.name else state.steps
                made = Sketch(
                    len(sketches),
                    "; ".join(steps),
                    blocks,
                    target,
                    variant.dag,
                    steps,
                    variant.transforms,
                )
                sketches.append(made)
        return SearchSpace(dag, target, tuple(sketches))

    def sketch(self, sketch_id: int) -> Sketch:
        """A sketch by id.

        Raises:
            ScheduleError: the task has no such sketch.
        """
        if not 0 <= sketch_id < len(self.sketches):
            raise ScheduleError(
                f"sketch {sketch_id} does not exist: the task has {len(self.sketches)} sketches"
            )
        return self.sketches[sketch_id]
