"""The schedule space: sketches derived by rules, decision rows, and the nests they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.lazily import names_of

if TYPE_CHECKING:
    from tilework.space.nest import BlockNest
    from tilework.space.protocol import space_of
    from tilework.space.sketch import Sketch
    from tilework.space.space import SearchSpace
    from tilework.space.state import Branch, State

__getattr__ = names_of(
    __name__,
    {
        "nest": ("BlockNest",),
        "protocol": ("space_of",),
        "sketch": ("Sketch",),
        "space": ("SearchSpace",),
        "state": ("Branch", "State"),
    },
)

__all__ = ["BlockNest", "Branch", "SearchSpace", "Sketch", "State", "space_of"]
