"""The schedule space: sketches derived by rules, decision rows, and the nests they describe."""

from __future__ import annotations

from tilework.space.ansor import ANSOR_RULES
from tilework.space.blocks import Attached, Block
from tilework.space.derive import Branch, Rule, Rules, State
from tilework.space.nest import BlockNest
from tilework.space.rules import CPU_RULES, TARGET_RULES
from tilework.space.sketch import Decision, Sketch
from tilework.space.space import RULES_VERSION, SearchSpace

__all__ = [
    "ANSOR_RULES",
    "CPU_RULES",
    "RULES_VERSION",
    "TARGET_RULES",
    "Attached",
    "Block",
    "BlockNest",
    "Branch",
    "Decision",
    "Rule",
    "Rules",
    "SearchSpace",
    "Sketch",
    "State",
]
