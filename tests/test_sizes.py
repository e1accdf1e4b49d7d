"""What keeps the engine readable: short files, narrow classes, names that say something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ENGINE = Path(__file__).parents[1] / "tilework"
TEXTS = {p.relative_to(ENGINE).as_posix(): p.read_text() for p in sorted(ENGINE.rglob("*.py"))}

LINES, METHODS = 400, 20
LONGER = {"record.py"}
"""What a record is, and which of several is the best: all of it is imported from there."""
EMPTY = {"found", "told", "made", "limited"}


def wide(text: str) -> Iterator[str]:
    """Classes of many methods. Operators do not count: a reader knows what they are."""
    classes = ast.walk(ast.parse(text)) if text.count("  def ") > METHODS else ()
    for node in classes:
        if isinstance(node, ast.ClassDef):
            names = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            count = sum(not name.startswith("__") for name in names)
            if count > METHODS:
                yield f"{node.name} has {count} methods"


def empty(text: str) -> Iterator[str]:
    """Local names that say of anything that it is there; most texts have none of the words."""
    nodes = ast.walk(ast.parse(text)) if EMPTY & set(re.findall(r"\w+", text)) else ()
    for node in nodes:
        if isinstance(node, ast.Name | ast.arg):
            name = node.arg if isinstance(node, ast.arg) else node.id
            if name in EMPTY:
                yield f"line {node.lineno}: {name}"


def test_files_are_short():
    long = [f for f, text in TEXTS.items() if text.count("\n") > LINES and f not in LONGER]
    assert not long


def test_classes_are_narrow_and_names_say_what_they_hold():
    seen = [f"{file}: {what}" for file, text in TEXTS.items() for what in wide(text)]
    seen += [f"{file}: {what}" for file, text in TEXTS.items() for what in empty(text)]
    assert not seen


def test_a_wide_class_and_an_empty_name_would_be_seen():
    methods = "".join(f"  def m{i}(self): pass\n" for i in range(METHODS + 1))
    assert list(wide(f"class C:\n{methods}"))
    assert list(empty("def f(found):\n  told = found"))
