"""Sketch rules as a user writes them: in a module of their own, which workers can import."""

from __future__ import annotations

from tilework.space import Branch, State
from tilework.te.analysis import AccessAnalysis
from tilework.te.tensor import Compute


def padding_at_root(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Padding is always a nest of its own."""
    return [state.root(op)] if op.name == "pad_temp" else []


def keep_bias(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """The bias is never inlined."""
    return [state.root(op)] if op.name == "T_add" else []


def also_untiled(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """A plain loop nest for each reduction, beside what the other rules offer."""
    return Branch([state.root(op)]) if op.reduce_axes else []


def two_ways(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Ends the whole derivation: the product untiled, or tiled."""
    tiled = state.tile(op, state.tiling.reuse, "tile")
    return [state.root(op), tiled]


def forgets(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Wrong: says that it applies, and decides nothing."""
    return [state]


def says_nothing(facts: AccessAnalysis, state: State, op: Compute) -> None:
    """Wrong: a rule returns a list."""


class Holder:
    """A rule may be a static method."""

    @staticmethod
    def rule(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
        """Never applies."""
        return []
