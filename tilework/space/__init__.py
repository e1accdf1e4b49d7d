"""The schedule space: sketches derived by rules, decision rows, and the nests they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.lazily import names_of

if TYPE_CHECKING:
    from tilework.space.blocks import Attached, Block
    from tilework.space.decision import Decision
    from tilework.space.nest import BlockNest
    from tilework.space.protocol import Space, space_of
    from tilework.space.sketch import Sketch
    from tilework.space.space import SearchSpace
    from tilework.space.state import Branch, Rule, Rules, State, Variants

__getattr__ = names_of(
    __name__,
    {
        "blocks": (
            "Attached",
            "Block",
        ),
        "decision": ("Decision",),
        "nest": ("BlockNest",),
        "protocol": (
            "Space",
            "space_of",
        ),
        "sketch": ("Sketch",),
        "space": ("SearchSpace",),
        "state": (
            "Branch",
            "Rule",
            "Rules",
            "State",
            "Variants",
        ),
    },
)

__all__ = [
    "Attached",
    "Block",
    "BlockNest",
    "Branch",
    "Decision",
    "Rule",
    "Rules",
    "SearchSpace",
    "Sketch",
    "Space",
    "State",
    "Variants",
    "space_of",
]
