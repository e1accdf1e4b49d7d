"""The search: evolution over decision rows, the task scheduler, and the tuning loop.

It reads a history of records and proposes what to measure next; it never generates code, never
measures by itself, and knows no workflow engine.
"""

from tilework.search.options import EFFORTS, PolicyParams, TuningError, TuningOptions
from tilework.search.policy import SketchPolicy
from tilework.search.run import TuningRun
from tilework.search.scheduler import TaskScheduler
from tilework.search.scope import Scope
from tilework.search.session import TuningSession
from tilework.search.tune import tune

__all__ = [
    "EFFORTS", "PolicyParams", "Scope", "SketchPolicy", "TaskScheduler", "TuningError",
    "TuningOptions", "TuningRun", "TuningSession", "tune",
]  # fmt: skip
