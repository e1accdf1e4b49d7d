"""No module of the language or of the operators imports itself by way of others."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tilework

ROOT = Path(tilework.__file__).parent


def imported(path: Path, known: set[str]) -> set[str]:
    """The modules of ``known`` that a file imports, lazily or for type checking included."""
    out = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            out |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{a.name}" for a in node.names}
            out |= members & known or {node.module}
    return out & known


@pytest.mark.parametrize("package", ["te", "ops"])
def test_no_circle_of_imports(package: str) -> None:
    files = {f"tilework.{package}.{p.stem}": p for p in (ROOT / package).glob("*.py")}
    files[f"tilework.{package}"] = files.pop(f"tilework.{package}.__init__")
    graph = {name: imported(path, set(files)) for name, path in files.items()}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, which names it
    assert len(order) == len(files)
