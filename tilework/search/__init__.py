"""The search: evolution over decision rows, the task scheduler, and the tuning loop.

It reads a history of records and proposes what to measure next; it never generates code, never
measures by itself, and knows no workflow engine.
"""

from tilework.search.failures import Cause, TaskFailure, frequent_causes
from tilework.search.options import EFFORTS, PolicyParams, TuningError, TuningOptions
from tilework.search.policy import SketchPolicy
from tilework.search.report import Round, TaskRow, TuneResult
from tilework.search.run import TuningRun
from tilework.search.scheduler import TaskScheduler, TaskState
from tilework.search.scope import Scope
from tilework.search.session import TuningSession
from tilework.search.tune import run_round, tune

__all__ = [
    "EFFORTS",
    "Cause",
    "PolicyParams",
    "Round",
    "Scope",
    "SketchPolicy",
    "TaskFailure",
    "TaskRow",
    "TaskScheduler",
    "TaskState",
    "TuneResult",
    "TuningError",
    "TuningOptions",
    "TuningRun",
    "TuningSession",
    "frequent_causes",
    "run_round",
    "tune",
]
