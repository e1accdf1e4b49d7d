"""Sketch derivation: ordered rules turn a compute DAG into a few sketches.

Stages are visited from the last to the first. At each stage the rules are tried in order. A rule
returns the states it leads to: nothing when it does not apply; a list, which ends the visit; or a
`Branch`, after which the later rules are tried on the same state as well. A stage is visited until
the state says what becomes of it (`State.decided`), so a rule may prepare a stage for the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tilework.errors import ScheduleError
from tilework.space.blocks import Block
from tilework.space.nests import Capability, blocks_of
from tilework.space.state import (
    Branch,
    LastRestart,
    LastVariants,
    Later,
    Restart,
    Rule,
    State,
    Variants,
)
from tilework.te.tensor import Compute

_MAX_STATES = 4096
_MOST_VARIANTS = 8
"""Sketches of `Variants` that a task has. Each costs a derivation, its share of every sample, and
a call of the draft and of the learned model for every population; a search of few trials has none
to spend on more."""


def derive(
    first: State, rules: Sequence[Rule], capabilities: tuple[Capability, ...]
) -> list[tuple[tuple[Block, ...], State]]:
    """All sketches of a DAG in the order in which their derivation ends.

    Args:
        first: a state in which nothing is decided yet.
        rules: tried in order at each stage; `Variants` that they offer come last, eight at most.
        capabilities: what is found about each block of a finished sketch, in order.

    Returns:
        For each sketch its blocks in execution order and its final state.

    Raises:
        ScheduleError: no rule applies to a stage, or the rules never come to an end.
    """
    done, behind = _derived([first], rules)
    if behind:
        done += _derived(behind, rules)[0]
    return [(blocks_of(s, capabilities), s) for s in done]


def _derived(first: Sequence[State], rules: Sequence[Rule]) -> tuple[list[State], list[State]]:
    """All final states from the first ones on, and the states of `LastRestart`s."""
    done: list[State] = []
    behind: list[State] = []
    waiting, seen = deque(first), set[str]()
    variants: deque[State] = deque()
    last: deque[State] = deque()
    most = _MAX_STATES
    while waiting or ((variants or last) and len(done) < most):
        if not waiting:  # all others are done
            most = min(most, len(done) + _MOST_VARIANTS)
            waiting.append((variants or last).popleft())
        states = [waiting.popleft()]
        while states:
            successors: list[State] = []
            for state in states:
                op = state.undecided()
                if op is None:
                    done.append(state)
                    continue
                visited = _visit(state, op, rules)
                successors += visited.successors
                variants += visited.variants
                last += visited.last
                for later, restarts in ((waiting, visited.restarts), (behind, visited.behind)):
                    new = [s for s in restarts if s.form not in seen]
                    seen.update(s.form for s in new)
                    later.extend(new)
            if len(successors) + len(done) > _MAX_STATES:
                raise ScheduleError(f"the rules lead to more than {_MAX_STATES} sketches")
            states = successors
    return done[:most], behind


class _Visited(NamedTuple):
    """What the rules make of a state."""

    successors: list[State]
    variants: list[State]
    last: list[State]
    restarts: list[State]
    behind: list[State]


def _visit(state: State, op: Compute, rules: Sequence[Rule]) -> _Visited:
    """What the rules make of a state at its next stage."""
    out: list[State] = []
    late: list[State] = []
    variants: list[State] = []
    last: list[State] = []
    restarts: list[State] = []
    behind: list[State] = []
    for rule in rules:
        successors = rule(state.facts, state, op)
        if type(successors) is list and not successors:
            continue
        if not isinstance(successors, list):
            raise ScheduleError(
                f"rule {rule_name(rule)} returns {successors!r} for stage {op.name}; "
                "return a list of states, [] to pass"
            )
        if isinstance(successors, Restart):
            (behind if isinstance(successors, LastRestart) else restarts).extend(successors)
            continue
        for new in successors:
            if not new.decided(op) and new.prepared == state.prepared:
                raise ScheduleError(
                    f"rule {rule_name(rule)} leaves stage {op.name} as it was; return [] to pass"
                )
        match successors:
            case LastVariants():
                last += successors
            case Variants():
                variants += successors
            case Later():
                late += successors
            case _:
                out += successors
        if successors and not isinstance(successors, Branch):
            break
    if not out and not late:
        raise ScheduleError(
            f"no rule applies to stage {op.name}; end the rules with tilework.space.rules.skip"
        )
    return _Visited(out + late, variants, last, restarts, behind)


def rule_name(rule: Rule) -> str:
    """The rule's name, for messages."""
    return getattr(rule, "__qualname__", repr(rule))
