"""Tilework: an auto-scheduler that tunes neural networks for the hardware they run on.

Everything public is reachable from here and loaded on first use, so that the import stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilework.systems import require_system
from tilework.version import __version__ as __version__

_HOMES = {
    "te": "tilework.te:",
    "zoo": "tilework.graph.zoo:",
    "from_onnx": "tilework.graph:from_onnx",
    "from_torch": "tilework.graph:from_torch",
    "extract_tasks": "tilework.graph:extract_tasks",
    "sparsify": "tilework.graph.sparse:sparsify",
    "Target": "tilework.target:Target",
    "SearchTask": "tilework.task:SearchTask",
    "create_task": "tilework.task:create_task",
    "ComputeDAG": "tilework.te:ComputeDAG",
    "TuningOptions": "tilework.search:TuningOptions",
    "TaskScheduler": "tilework.search:TaskScheduler",
    "SketchPolicy": "tilework.search:SketchPolicy",
    "tune": "tilework.search:tune",
    "Measurer": "tilework.measure:Measurer",
    "XGBModel": "tilework.model:XGBModel",
    "compile": "tilework.compiler:compile",
    "compile_task": "tilework.compiler:compile_task",
    "load_module": "tilework.runtime:load_module",
    "write_library": "tilework.runtime.library:write_library",
    "load_best": "tilework.compiler:load_best",
    "ApplyHistoryBest": "tilework.compiler:ApplyHistoryBest",
    "Session": "tilework.session:Session",
    "TileworkError": "tilework.errors:TileworkError",
}

if TYPE_CHECKING:
    from tilework import te
    from tilework.compiler import ApplyHistoryBest, compile, compile_task, load_best
    from tilework.errors import TileworkError
    from tilework.graph import extract_tasks, from_onnx, from_torch, zoo
    from tilework.graph.sparse import sparsify
    from tilework.measure import Measurer
    from tilework.model import XGBModel
    from tilework.runtime import load_module
    from tilework.runtime.library import write_library
    from tilework.search import SketchPolicy, TaskScheduler, TuningOptions
    from tilework.search.tune import tune
    from tilework.session import Session
    from tilework.target import Target
    from tilework.task import SearchTask, create_task
    from tilework.te import ComputeDAG


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tilework' has no attribute {name!r}")
    require_system()
    module, _, attribute = _HOMES[name].partition(":")
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


__all__ = [
    "ApplyHistoryBest", "ComputeDAG", "Measurer", "SearchTask", "Session", "SketchPolicy",
    "Target", "TaskScheduler", "TileworkError", "TuningOptions", "XGBModel", "compile",
    "compile_task", "create_task", "extract_tasks", "from_onnx", "from_torch", "load_best",
    "load_module", "sparsify", "te", "tune", "write_library", "zoo",
]  # fmt: skip
