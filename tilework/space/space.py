"""The schedule space of one task: its sketches."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.cache import BoundedCache
from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.space.derive import derive
from tilework.space.protocol import space_of
from tilework.space.sketch import Sketch
from tilework.space.slabs import Slabs, on_one_core
from tilework.space.state import Rule, State
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te import ComputeDAG
from tilework.te.analysis import AccessAnalysis

_SPACES: BoundedCache[tuple[int, str, tuple[Rule, ...]], SearchSpace] = BoundedCache(1024)
"""By the identity of the DAG, which a kept space keeps alive."""


@frozen(eq=False)
class SearchSpace:
    """All sketches of a task, derived by rules from its compute DAG alone."""

    dag: ComputeDAG
    target: Target
    sketches: tuple[Sketch, ...]

    @staticmethod
    def of(task: SearchTask) -> SearchSpace:
        """The (cached) space of a task."""

        def make() -> SearchSpace:
            rules = (*task.rules, *space_of(task.target).rules)
            return SearchSpace.derive(task.compute_dag, task.target, rules)

        key = (id(task.compute_dag), str(task.target), task.rules)
        return _SPACES.get_or_make(key, make)

    @staticmethod
    def derive(
        dag: ComputeDAG, target: Target, rules: Sequence[Rule] | None = None
    ) -> SearchSpace:
        """Apply rules (by default those of the target's kind) to a DAG.

        Raises:
            ScheduleError: the rules do not decide every stage.
        """
        space = space_of(target)
        used = space.rules if rules is None else rules
        sketches = _sketches(dag, target, used)
        slabs = space.slabs(dag, target)
        if slabs is not None:
            sketches += _sketches(slabs.part, target, used, slabs, len(sketches))
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


def _sketches(
    dag: ComputeDAG,
    target: Target,
    rules: Sequence[Rule],
    slabs: Slabs | None = None,
    first: int = 0,
) -> list[Sketch]:
    """The sketches of a DAG, or of one slab, numbered from ``first`` on."""
    space = space_of(target)
    on = on_one_core(target, slabs)
    first_state = State(AccessAnalysis.of(dag), on, space.tiling)
    if slabs is not None and slabs.form:
        first_state = first_state.restarted(first_state.facts, slabs.form, slabs.transforms)
    finished = derive(first_state, rules, space.capabilities(on))
    if slabs is not None and slabs.form:  # what is copied first, is read once more
        fewest = min(len(blocks) for blocks, _ in finished)
        finished = [one for one in finished if len(one[0]) == fewest]
    return [
        Sketch(
            i,
            blocks,
            target,
            dag=state.facts.dag,
            steps=state.steps if slabs is None else (str(slabs), *state.steps),
            plans=state.plans,
            form=", ".join(filter(None, (state.form, str(slabs or "")))),
            transforms=state.transforms,
            cuts=state.cuts,
            slabs=slabs,
        )
        for i, (blocks, state) in enumerate(finished, first)
    ]
