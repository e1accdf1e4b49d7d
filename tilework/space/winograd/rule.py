"""Winograd forms as a rule of sketch derivation."""

from __future__ import annotations

from functools import lru_cache

from tilework.space.state import LastRestart, Restart, State
from tilework.space.winograd.rewrite import Variant, winograd_variants
from tilework.te.analysis import AccessAnalysis
from tilework.te.dag import ComputeDAG
from tilework.te.tensor import Compute


def winograd(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: a convolution with constant weights as transforms and products, one DAG a tile size.

    Nothing is decided there; the sketches of these DAGs come after those of the direct form.
    """
    return Restart(_restarted(facts, state, op, groups=False))


def winograd_of_groups(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """The same for a convolution whose channels are in groups, behind all other sketches."""
    return LastRestart(_restarted(facts, state, op, groups=True))


def _restarted(facts: AccessAnalysis, state: State, op: Compute, groups: bool) -> list[State]:
    if state.form or not op.reduce_axes:
        return []
    return [
        state.restarted(AccessAnalysis.of(v.dag), v.name, v.transforms)
        for v in _variants(facts.dag, op)
        if v.groups == groups
    ]


@lru_cache(maxsize=256)
def _variants(dag: ComputeDAG, op: Compute) -> list[Variant]:
    """The same for every target."""
    return winograd_variants(dag, op=op)
