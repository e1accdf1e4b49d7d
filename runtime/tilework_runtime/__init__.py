"""Runs networks that Tilework compiled to shared libraries, with NumPy and ctypes alone."""

from __future__ import annotations

from tilework_runtime.errors import LibraryError
from tilework_runtime.library import BoundCall, Level, Library, Symbol, load
from tilework_runtime.past import Past
from tilework_runtime.values import Value, aligned_empty
from tilework_runtime.version import __version__

__all__ = [
    "BoundCall",
    "Level",
    "Library",
    "LibraryError",
    "Past",
    "Symbol",
    "Value",
    "__version__",
    "aligned_empty",
    "load",
]
