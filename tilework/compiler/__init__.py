"""From a network to a module: choose schedules, plan memory, build, assemble."""

from __future__ import annotations

from tilework.compiler.choose import choose_schedule
from tilework.compiler.history import ApplyHistoryBest, load_best
from tilework.compiler.parts import compile
from tilework.compiler.single import compile_task

__all__ = ["ApplyHistoryBest", "choose_schedule", "compile", "compile_task", "load_best"]
