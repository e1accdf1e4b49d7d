"""Compiled networks: open them, run them, time them. Imports nothing of the compiler.

Which machine runs them, and how, is behind `tilework.runtime.executor`.
"""

from __future__ import annotations

from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.runtime.bound import BoundCall
from tilework.runtime.gap import Gap, KernelGap, explain_gap
from tilework.runtime.image import TaskReport, tuned_text, winograd_text
from tilework.runtime.module import Module
from tilework.runtime.opening import load_module
from tilework.runtime.timing import BenchmarkResult, KernelTime

__all__ = [
    "BenchmarkResult",
    "BoundCall",
    "Gap",
    "KernelGap",
    "KernelTime",
    "Module",
    "TaskReport",
    "aligned_copy",
    "aligned_empty",
    "explain_gap",
    "load_module",
    "tuned_text",
    "winograd_text",
]
