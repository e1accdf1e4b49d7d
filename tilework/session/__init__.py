"""Sessions: run an ONNX file through the calls that users of ONNX Runtime know.

    cache      compiled networks in a folder of bounded size, by key
    entry      one of them as a file that is opened quickly
    facts      what a model's file says of itself: its digest, inputs and outputs
    records    which measured schedules a session compiles with, and whether they have changed
    forms      the compiled forms of one model
    later      keeps them once the first answer is there
    options    options of sessions and runs
    values     inputs and outputs in the words of ONNX Runtime
    binding    inputs and outputs that are bound before a run
    session    `Session`

``import tilework.session as onnxruntime`` has the names that most programs use. Opening a session
whose network is in the cache imports neither ``onnx`` nor the compiler.
"""

from __future__ import annotations

from tilework.session.binding import IOBinding
from tilework.session.cache import ModuleCache
from tilework.session.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from tilework.session.session import PROVIDERS, Session
from tilework.session.values import ModelMetadata, NodeArg

InferenceSession = Session


def get_available_providers() -> list[str]:
    """Names that sessions take as ``providers``."""
    return list(PROVIDERS)


def get_device() -> str:
    """Where sessions run unless ``target`` says otherwise."""
    return "CPU"


__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "ModelMetadata", "ModuleCache", "NodeArg", "RunOptions", "Session", "SessionOptions",
    "get_available_providers", "get_device",
]  # fmt: skip
