"""Sketch rules of sparse products, offered through the interface for rules of a user's own."""

from __future__ import annotations

from tilework.space.derive import Rules, State
from tilework.space.rules import limited_reduction
from tilework.te.analysis import AccessAnalysis
from tilework.te.tensor import Compute


def sparse_product(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """A product with stored blocks, tiled around the loop over the blocks of a block row."""
    return limited_reduction(facts, state, op) if "bsr" in op.attrs else []


SPARSE_RULES: Rules = (sparse_product,)
"""What the tasks of sparse operators are searched with: `SearchTask(.., rules=SPARSE_RULES)`."""
