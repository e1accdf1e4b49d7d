"""What generated code needs from a CPU."""

from __future__ import annotations

from collections.abc import Iterable

from tilework.kinds.cpu.target import CpuTarget as Target

# Features whose instructions LLVM may choose for the code that we generate.
_USED = frozenset({
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "movbe", "lzcnt", "bmi", "bmi2", "f16c", "fma",
    "avx", "avx2", "avxvnni", "gfni", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl",
    "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "avx512vnni", "avx512bf16",
    "avx512fp16", "avx512ifma", "neon", "sve",
})  # fmt: skip


def used_features(target: Target) -> tuple[str, ...]:
    """Features that code for the target may use."""
    return tuple(sorted(target.features & _USED))


def lacking_features(features: Iterable[str]) -> list[str]:
    """Those of the features that this machine's CPU does not have."""
    return sorted(set(features) - Target("llvm -mcpu=native").features)
