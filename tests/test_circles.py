"""No module needs, at any time, one that needs it: imports in functions and for types count.

A circle hides which of two modules is the lower one, and an import inside a function only hides
the circle. Names in strings (the tables of lazily loaded homes) are visible cuts and do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("tilework", "storage", "tasks", "flows")


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the project, by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules that one imports anywhere in its text, without the packages on the way."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return set(_imported(ast.parse(path.read_text()), package, known)) - {name}


def _imported(tree: ast.AST, package: str, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in known)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*above, *([source] if source else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                if inner in known:
                    yield inner
                elif source in known:
                    yield source


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach each other (strongly connected components over one)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in edges:
        stack = [(start, False)]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((n, False) for n in sorted(edges[node]) if n not in seen)
    back: dict[str, set[str]] = {n: set() for n in edges}
    for node, targets in edges.items():
        for target in targets:
            back[target].add(node)
    placed: set[str] = set()
    found = []
    for start in reversed(order):
        group: list[str] = []
        todo = [start]
        while todo:
            node = todo.pop()
            if node not in placed:
                placed.add(node)
                group.append(node)
                todo.extend(back[node])
        if len(group) > 1:
            found.append(sorted(group))
    return found


def test_circles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert circles(edges) == [["a", "b", "c"]]
    assert circles({**edges, "c": {"d"}}) == []


def test_every_kind_of_import_counts(tmp_path: Path) -> None:
    package = tmp_path / "tilework"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__", "b", "c", "d", "inner/__init__"):
        (package / f"{name}.py").write_text("")
    (package / "a.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "import tilework.b\n"
        "from . import d\n"
        "from tilework import VERSION\n"
        "if TYPE_CHECKING:\n    from tilework.c import C\n"
        "def f():\n    from tilework.inner import x\n"
    )
    known = modules(tmp_path)
    assert imported("tilework.a", known["tilework.a"], known) == {
        "tilework", "tilework.b", "tilework.c", "tilework.d", "tilework.inner",
    }  # fmt: skip


def test_no_circles() -> None:
    known = modules()
    edges = {n: imported(n, p, known) for n, p in known.items()}
    found = circles(edges)
    assert not found, "\n".join(" <-> ".join(group) for group in found)
