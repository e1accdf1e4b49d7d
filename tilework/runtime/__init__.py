"""Compiled networks: open them, run them, time them. Imports nothing of the compiler."""

from __future__ import annotations

from tilework.runtime.archive import load_module, save_module
from tilework.runtime.bound import BoundCall
from tilework.runtime.gap import Gap, KernelGap, explain_gap
from tilework.runtime.image import TaskReport, tuned_text, winograd_text
from tilework.runtime.module import Module
from tilework.runtime.timing import BenchmarkResult, KernelTime

__all__ = [
    "BenchmarkResult",
    "BoundCall",
    "Gap",
    "KernelGap",
    "KernelTime",
    "Module",
    "TaskReport",
    "explain_gap",
    "load_module",
    "save_module",
    "tuned_text",
    "winograd_text",
]
