"""The schedule space: sketches derived by rules, decision rows, and the nests they describe."""

from __future__ import annotations

from tilework.space.blocks import Attached, Block
from tilework.space.nest import BlockNest
from tilework.space.sketch import Decision, Sketch
from tilework.space.space import RULES_VERSION, SearchSpace

__all__ = [
    "RULES_VERSION",
    "Attached",
    "Block",
    "BlockNest",
    "Decision",
    "SearchSpace",
    "Sketch",
]
