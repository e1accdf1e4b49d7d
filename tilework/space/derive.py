"""Sketch derivation: ordered rules turn a compute DAG into a few sketches.

Stages are visited from the last to the first. At each stage the rules are tried in order. A rule
returns the states it leads to: nothing when it does not apply; a list, which ends the visit; or a
`Branch`, after which the later rules are tried on the same state as well. A stage is visited until
the state says what becomes of it (`State.decided`), so a rule may prepare a stage for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tilework.errors import ScheduleError
from tilework.space.blocks import ELEMENTWISE, REDUCTION, Attached, Block, inline_body
from tilework.target import Target
from tilework.te.analysis import AccessAnalysis
from tilework.te.tensor import Compute, Operation

_T = TypeVar("_T")
_MAX_STATES = 4096


@dataclass(frozen=True)
class State:
    """A partial sketch: what was decided for the stages visited so far.

    Attributes:
        facts: the DAG that the sketch schedules (rules may rewrite it) and what is known of it.
        target: the machine that the sketch is for.
        inlined: ops substituted into their readers.
        fused: consumer op -> anchor op whose tile it is computed on.
        structure: anchor op -> tile structure.
        accumulate: anchor op -> where partial sums wait.
        write_level: anchor op -> spatial level after which its tile is written (0: at once).
        attached: producer op -> (op that reads it, level) it is computed at.
        prepared: ops that a rule rewrote and that are still to be visited.
        steps: readable names of the decisions, in order.
    """

    facts: AccessAnalysis
    target: Target
    inlined: frozenset[Operation] = frozenset()
    fused: dict[Compute, Compute] = field(default_factory=dict)
    structure: dict[Compute, str] = field(default_factory=dict)
    accumulate: dict[Compute, str] = field(default_factory=dict)
    write_level: dict[Compute, int] = field(default_factory=dict)
    attached: dict[Compute, tuple[Compute, int]] = field(default_factory=dict)
    prepared: frozenset[Operation] = frozenset()
    steps: tuple[str, ...] = ()

    def step(self, text: str, **changes: Any) -> State:
        """A successor state with one more step."""
        return replace(self, steps=(*self.steps, text), **changes)

    def root(self, op: Compute) -> State:
        """The state in which ``op`` is a simple loop nest of its own."""
        structure = REDUCTION if op.reduce_axes else ELEMENTWISE
        return self.step(f"loop {op.name}", structure=self.structure | {op: structure})

    def inline(self, op: Compute) -> State:
        """The state in which ``op`` is substituted into its readers."""
        return self.step(f"inline {op.name}", inlined=self.inlined | {op})

    def attach(self, op: Compute, reader: Compute, level: int) -> State:
        """The state in which ``op`` is computed per tile of ``reader``'s nest."""
        text = f"compute {op.name} at {reader.name} level {level}"
        return self.step(text, attached=self.attached | {op: (reader, level)})

    def decided(self, op: Compute) -> bool:
        """Whether the state says what becomes of ``op``."""
        return (
            op in self.inlined
            or op in self.structure
            or op in self.attached
            or op in self.fused.values()
        )

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

        def keys(table: dict[Compute, _T]) -> dict[Compute, _T]:
            return {op(k): v for k, v in table.items()}

        return replace(
            self,
            facts=facts,
            inlined=frozenset(op(o) for o in self.inlined),
            fused={op(a): op(b) for a, b in self.fused.items()},
            structure=keys(self.structure),
            accumulate=keys(self.accumulate),
            write_level=keys(self.write_level),
            attached={op(a): (op(b), level) for a, (b, level) in self.attached.items()},
            prepared=frozenset(op(o) for o in self.prepared),
        )


class Branch(list[State]):
    """States that a rule offers beside those of the later rules: it does not end the visit."""


class Later(Branch):
    """A `Branch` whose states come after those of the later rules: sketches of special use."""


Rule = Callable[[AccessAnalysis, State, Compute], list[State]]
"""``rule(facts, state, stage)``: successor states, see the module's text."""
Rules = tuple[Rule, ...]


def derive(
    facts: AccessAnalysis, target: Target, rules: Sequence[Rule]
) -> list[tuple[tuple[Block, ...], State]]:
    """All sketches of a DAG in the order in which their derivation ends.

    Returns:
        For each sketch its blocks in execution order and its final state.

    Raises:
        ScheduleError: no rule applies to a stage, or the rules never come to an end.
    """
    states, done = [State(facts, target)], list[State]()
    while states:
        successors: list[State] = []
        for state in states:
            op = state.undecided()
            if op is None:
                done.append(state)
                continue
            successors += _visit(state, op, rules)
        if len(successors) + len(done) > _MAX_STATES:
            raise ScheduleError(f"the rules lead to more than {_MAX_STATES} sketches")
        states = successors
    return [(blocks_of(s), s) for s in done]


def _visit(state: State, op: Compute, rules: Sequence[Rule]) -> list[State]:
    out: list[State] = []
    late: list[State] = []
    for rule in rules:
        found = rule(state.facts, state, op)
        if not isinstance(found, list):
            raise ScheduleError(
                f"rule {rule_name(rule)} returns {found!r} for stage {op.name}; "
                "return a list of states, [] to pass"
            )
        for new in found:
            if not new.decided(op) and new.prepared == state.prepared:
                raise ScheduleError(
                    f"rule {rule_name(rule)} leaves stage {op.name} as it was; return [] to pass"
                )
        (late if isinstance(found, Later) else out).extend(found)
        if found and not isinstance(found, Branch):
            break
    if not out and not late:
        raise ScheduleError(
            f"no rule applies to stage {op.name}; end the rules with tilework.space.rules.skip"
        )
    return out + late


def rule_name(rule: Rule) -> str:
    """The rule's name, for messages."""
    return getattr(rule, "__qualname__", repr(rule))


def blocks_of(state: State) -> tuple[Block, ...]:
    """Root nests of a finished state, in an order that respects data flow."""
    epilogue_of = {anchor: consumer for consumer, anchor in state.fused.items()}
    blocks = []
    for op in state.facts.dag.compute_ops:
        anchor = state.fused.get(op, op)
        if op in state.inlined or op in state.attached or anchor not in state.structure:
            continue
        if op is anchor and op in epilogue_of:
            continue
        blocks.append(_block(state, anchor, epilogue_of.get(anchor)))
    return tuple(blocks)


def _block(state: State, anchor: Compute, epilogue: Compute | None) -> Block:
    return Block(
        op=anchor,
        body=inline_body(anchor, state.inlined),
        structure=state.structure[anchor],
        epilogue=epilogue,
        epilogue_body=inline_body(epilogue, state.inlined) if epilogue else None,
        accumulate=state.accumulate.get(anchor, "output"),
        attached=_attached(state, anchor),
        write_level=state.write_level.get(anchor, 0),
    )


def _attached(state: State, anchor: Compute) -> tuple[Attached, ...]:
    """Producers computed inside the anchor's nest, each after those that it reads."""
    epilogue_of = {op: consumer for consumer, op in state.fused.items()}
    source = {a: r for r, a in epilogue_of.items()}
    out: dict[Compute, Attached] = {}
    for op, (reader, level) in state.attached.items():  # readers come before what they read
        # The reader is the anchor, an attached op, or the reduction that an attached op finishes.
        outer = epilogue_of.get(reader, reader)
        if reader is not anchor and outer not in out:
            continue
        reduction = source.get(op, op)
        block = None
        if reduction.reduce_axes:
            done = op if reduction is not op else None
            block = Block(
                reduction,
                inline_body(reduction, state.inlined),
                REDUCTION,
                done,
                inline_body(done, state.inlined) if done else None,
            )
        body = inline_body(op, state.inlined)
        out[op] = Attached(op, body, level, block, None if reader is anchor else out[outer])
    return tuple(reversed(out.values()))
