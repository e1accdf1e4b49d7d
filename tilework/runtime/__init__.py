"""Compiled networks: choose schedules, plan memory, build, run, time, save and load."""

from __future__ import annotations

from tilework.runtime.archive import load_module, save_module
from tilework.runtime.assemble import compile
from tilework.runtime.bound import BoundCall
from tilework.runtime.choose import Choice, choose_schedule
from tilework.runtime.gap import Gap, KernelGap, explain_gap
from tilework.runtime.history import ApplyHistoryBest, load_best
from tilework.runtime.image import TaskReport, tuned_text, winograd_text
from tilework.runtime.module import Module
from tilework.runtime.single import TaskFunction, compile_task
from tilework.runtime.timing import BenchmarkResult, KernelTime

__all__ = [
    "ApplyHistoryBest",
    "BenchmarkResult",
    "BoundCall",
    "Choice",
    "Gap",
    "KernelGap",
    "KernelTime",
    "Module",
    "TaskFunction",
    "TaskReport",
    "choose_schedule",
    "compile",
    "compile_task",
    "explain_gap",
    "load_best",
    "load_module",
    "save_module",
    "tuned_text",
    "winograd_text",
]  # fmt: skip
