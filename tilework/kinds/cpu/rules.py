"""The rules by which sketches for CPUs are derived, in order."""

from __future__ import annotations

from tilework.space.few_rows import sum_along_rows
from tilework.space.rfactor import add_rfactor, other_cuts
from tilework.space.rules import (
    add_cache_write,
    always_inline,
    multi_level_tiling,
    place_producer,
    place_producer_inside,
    place_reduction,
    place_reduction_inside,
    ragged_reduction,
    simplify_const_tensor,
    skip,
    tile_with_fusion,
)
from tilework.space.scattering import scatter_terms
from tilework.space.state import Rules
from tilework.space.winograd.rule import winograd, winograd_of_groups

RULES_VERSION = 6
"""Raised whenever a sketch or the meaning of its columns changes: rows of another version are
never replayed."""

CPU_RULES: Rules = (
    winograd,
    winograd_of_groups,
    scatter_terms,
    place_reduction_inside,
    place_reduction,
    always_inline,
    simplify_const_tensor,
    ragged_reduction,
    other_cuts,
    sum_along_rows,
    add_rfactor,
    tile_with_fusion,
    add_cache_write,
    multi_level_tiling,
    place_producer_inside,
    place_producer,
    skip,
)
"""The space that is searched on CPUs: lean, no two sketches have the same programs.

Rules that offer `Variants` stand before those that end a stage's visit.
"""
