"""Winograd forms of convolutions: other DAGs of the same outputs with fewer multiplications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.lazily import names_of

if TYPE_CHECKING:
    from tilework.space.winograd.rewrite import Variant, winograd_variants
    from tilework.space.winograd.weights import WeightTransform

__getattr__ = names_of(
    __name__, {"rewrite": ("Variant", "winograd_variants"), "weights": ("WeightTransform",)}
)

__all__ = ["Variant", "WeightTransform", "winograd_variants"]
