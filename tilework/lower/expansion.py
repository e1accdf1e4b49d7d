"""Expansion of loops: how much of a loop is written out instead of looped over."""

from __future__ import annotations

EXPANDED_LANES = 16
"""Vector width that unroll limits are counted in, on every target."""
