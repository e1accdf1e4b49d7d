"""Winograd forms of convolutions: other DAGs of the same outputs with fewer multiplications."""

from tilework.space.winograd.rewrite import Variant, winograd_variants
from tilework.space.winograd.weights import WeightTransform

__all__ = ["Variant", "WeightTransform", "winograd_variants"]
