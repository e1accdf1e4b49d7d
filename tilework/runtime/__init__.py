"""Compiled networks: open them, run them, time them. Imports nothing of the compiler.

Which machine runs them, and how, is behind `tilework.runtime.executor`.
"""

from __future__ import annotations

from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.runtime.gap import explain_gap
from tilework.runtime.image import TaskReport, tuned_text, winograd_text
from tilework.runtime.module import Module
from tilework.runtime.opening import load_module
from tilework.runtime.timing import KernelTime

__all__ = [
    "KernelTime", "Module", "TaskReport", "aligned_copy", "aligned_empty", "explain_gap",
    "load_module", "tuned_text", "winograd_text",
]  # fmt: skip
