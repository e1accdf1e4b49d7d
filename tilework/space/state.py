"""The state of a derivation: what rules have decided so far, and what they may return.

A rule returns the states it leads to: nothing when it does not apply; a list, which ends the visit
of the stage; a `Branch`, after which the later rules are tried on the same state as well; or a
`Restart`, whose states are those of other DAGs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from tilework.frozen import frozen
from tilework.once import cached_property
from tilework.space.levels import Levels, Tiling
from tilework.space.plan import At, FinishedBy, Fused, Inlined, Root, StagePlan
from tilework.space.winograd.weights import WeightTransform
from tilework.target import Target
from tilework.te.analysis import AccessAnalysis
from tilework.te.tensor import Compute, Operation


@frozen
class Widths:
    """How a reduction is cut into partial results (`tilework.space.rfactor`).

    Attributes:
        neighbours: terms that are held as separate sums; 1 for none.
        parts: how many parts may run in parallel; 1 for none.
    """

    neighbours: int = 1
    parts: int = 1


@frozen
class State:
    """A partial sketch: what was decided for the stages visited so far.

    Attributes:
        facts: the DAG that the sketch schedules (rules may rewrite it) and what is known of it.
        target: the machine that the sketch is for.
        tiling: how its kind tiles stages.
        plans: what becomes of each stage, in the order in which it was decided.
        prepared: ops that a rule rewrote and that are still to be visited.
        form: what the DAG is where it is not the task's own, in words; empty where it is.
        transforms: how weights differ from the task's on such a DAG, by name.
        steps: the decisions in words, in order; nothing reads them but people.
        cuts: how reductions were cut into partial results, in words, by name.
        alike: what every further reduction is cut like; None where each may be cut its own way.
    """

    facts: AccessAnalysis
    target: Target
    tiling: Tiling
    plans: Mapping[Compute, StagePlan] = field(default_factory=dict)
    prepared: frozenset[Operation] = frozenset()
    form: str = ""
    transforms: Mapping[str, WeightTransform] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    cuts: Mapping[str, str] = field(default_factory=dict)
    alike: Widths | None = None

    # --- successors --------------------------------------------------------------------------

    def step(
        self, text: str, plans: Mapping[Any, StagePlan] | None = None, **changes: Any
    ) -> State:
        """A successor state with one more step, and with these plans of stages."""
        known = {**self.plans, **(plans or {})}
        return replace(self, steps=(*self.steps, text), plans=known, **changes)

    def root(self, op: Compute) -> State:
        """The state in which ``op`` is a simple loop nest of its own."""
        levels = self.tiling.plain(reduces=bool(op.reduce_axes))
        return self.step(f"loop {op.name}", {op: StagePlan(Root(), levels)})

    def tile(
        self,
        op: Compute,
        levels: Levels,
        text: str,
        *,
        consumer: Compute | None = None,
        sums: str = "output",
        write_depth: int = 0,
    ) -> State:
        """The state in which ``op`` has a nest with these levels.

        Args:
            op, levels: the stage and its tiling.
            text: the step in words.
            consumer: computed on its finished register tile.
            sums, write_depth: see `StagePlan`.
        """
        plans = {op: StagePlan(Root(), levels, sums, write_depth)}
        if consumer is not None:
            plans[consumer] = StagePlan(Fused(op))
        return self.step(text, plans)

    def inline(self, op: Compute) -> State:
        """The state in which ``op`` is substituted into its readers."""
        return self.step(f"inline {op.name}", {op: StagePlan(Inlined())})

    def attach(self, op: Compute, reader: Compute, depth: int) -> State:
        """The state in which ``op`` is computed per tile of ``reader``'s nest."""
        text = f"compute {op.name} at {reader.name} level {depth}"
        return self.step(text, {op: StagePlan(At(reader, depth))})

    def finish(self, op: Compute, stage: Compute) -> State:
        """The state in which ``stage``, computed per tile of a nest, finishes the reduction."""
        return self.step(
            f"compute {op.name} with {stage.name}", {op: StagePlan(FinishedBy(stage))}
        )

    # --- views -------------------------------------------------------------------------------

    @cached_property
    def inlined(self) -> frozenset[Operation]:
        """Ops substituted into their readers."""
        return frozenset(op for op, p in self.plans.items() if isinstance(p.place, Inlined))

    @cached_property
    def attached(self) -> dict[Compute, At]:
        """Ops computed per tile of another nest; readers come before what they read."""
        return {op: p.place for op, p in self.plans.items() if isinstance(p.place, At)}

    @cached_property
    def epilogues(self) -> dict[Compute, Compute]:
        """Reduction -> the stage that is computed on its finished register tile."""
        fused = {p.place.anchor: op for op, p in self.plans.items() if isinstance(p.place, Fused)}
        done = {
            op: p.place.stage for op, p in self.plans.items() if isinstance(p.place, FinishedBy)
        }
        return fused | done

    def finishes(self, op: Compute) -> bool:
        """Whether ``op`` is computed on a reduction's finished register tile."""
        return op in self.epilogues.values()

    def hosts(self, op: Compute) -> bool:
        """Whether ``op`` has a nest of its own in which other stages are computed."""
        return op not in self.attached and any(at.reader is op for at in self.attached.values())

    def levels(self, op: Compute) -> Levels | None:
        """How the nest of ``op`` is tiled; None if it has none."""
        plan = self.plans.get(op)
        return None if plan is None else plan.levels

    def decided(self, op: Compute) -> bool:
        """Whether the state says what becomes of ``op``."""
        return op in self.plans

    def undecided(self) -> Compute | None:
        """The stage to visit next: the last one that is not decided."""
        for op in reversed(self.facts.dag.compute_ops):
            if not self.decided(op):
                return op
        return None

    def moved(self, facts: AccessAnalysis, new: Mapping[Operation, Compute]) -> State:
        """The state on a rewritten DAG: decided ops replaced by what they became."""

        def op(old: Any) -> Any:
            return new.get(old, old)

        return replace(
            self,
            facts=facts,
            plans={op(o): p.moved(op) for o, p in self.plans.items()},
            prepared=frozenset(op(o) for o in self.prepared),
        )

    def restarted(
        self, facts: AccessAnalysis, text: str, transforms: Mapping[str, WeightTransform]
    ) -> State:
        """Nothing decided yet, on another DAG of the same outputs."""
        return State(
            facts, self.target, self.tiling, form=text, transforms=transforms, steps=(text,)
        )


class Branch(list[State]):
    """States that a rule offers beside those of the later rules: it does not end the visit."""


class Later(Branch):
    """A `Branch` whose states come after those of the later rules: sketches of special use."""


class Variants(Branch):
    """States that differ from those of the later rules in one choice: another cut, another place.

    Their sketches come behind all others, those of other DAGs included, and there are not many of
    them: see `tilework.space.derive`.
    """


class LastVariants(Variants):
    """`Variants` of a later rule: behind all others, whose sketches keep their numbers."""


class Restart(Branch):
    """States on other DAGs of the same outputs, with nothing decided yet (`State.restarted`).

    Their sketches are derived once, by the same rules, and come after all others.
    """


class LastRestart(Restart):
    """A `Restart` of a later rule: behind all others, variants too, which keep their numbers."""


Rule = Callable[[AccessAnalysis, State, Compute], list[State]]
"""``rule(facts, state, stage)``: successor states, see the module's text."""
Rules = tuple[Rule, ...]
