"""What generated code needs from a CPU."""

from __future__ import annotations

from collections.abc import Iterable

from tilework.kinds.cpu import cpus
from tilework.kinds.cpu.target import CpuTarget


def used_features(target: CpuTarget) -> tuple[str, ...]:
    """Features that code for the target may use."""
    return tuple(sorted(target.code_features()))


def lacking_features(features: Iterable[str]) -> list[str]:
    """Those of the features that this machine's CPU does not have."""
    return sorted(set(features) - cpus.host_features())
