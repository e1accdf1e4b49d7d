"""Index algebra stands in `tilework.index` alone, and who decides code never reads `typical`.

Held on syntax trees. A reader that finds a better way to write one of these places should put it
into that room.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "tilework"


def trees(*places: str) -> dict[str, ast.Module]:
    """The modules at some places in the engine, by path."""
    paths: set[Path] = set()
    for place in places:
        found = list(ENGINE.glob(place))
        assert found, f"nothing is at {place}"
        for path in found:
            paths |= set(path.rglob("*.py")) if path.is_dir() else {path}
    return {str(p.relative_to(ENGINE)): _tree(p) for p in sorted(paths)}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _nodes(tree: ast.AST) -> list[ast.AST]:
    return list(ast.walk(tree))


# -- forms and strides are made in one room -------------------------------------------------------


def made_forms(tree: ast.AST) -> Iterator[int]:
    """Lines that construct a form other than by the functions of `tilework.index.form`."""
    names = {
        alias.asname or alias.name
        for node in _nodes(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tilework.index.form"
        for alias in node.names
        if alias.name == "Form"
    }
    for node in _nodes(tree):
        if isinstance(node, ast.Call):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            direct = isinstance(called, ast.Name) and called.id in names
            if direct or (isinstance(called, ast.Attribute) and called.attr == "Form"):
                yield node.lineno


def summed_forms(tree: ast.AST) -> Iterator[int]:
    """Lines of ``case`` patterns that take sums apart into terms: a second `form_of`."""
    for node in _nodes(tree):
        if isinstance(node, ast.match_case) and "'+' | '-'" in ast.unparse(node.pattern):
            yield node.pattern.lineno


def multiplied_strides(tree: ast.AST) -> Iterator[int]:
    """Lines that multiply up strides, from the last dimension to the first."""
    for node in _nodes(tree):
        if isinstance(node, ast.For) and _backwards(ast.unparse(node.iter)):
            turn = _names(node.target)
            for statement in (s for part in node.body for s in ast.walk(part)):
                if isinstance(statement, ast.stmt | ast.expr) and _grows(statement, turn):
                    yield statement.lineno
        product = isinstance(node, ast.Call) and _name(node.func) in ("prod", "size")
        if product and re.fullmatch(_PRODUCT_OF_REST, ast.unparse(node)):
            yield node.lineno


_PRODUCT_OF_REST = r"(math\.prod|np\.prod|size)\(.*\+ 1:\].*\)"  # math.prod(shape[d + 1 :])


def _backwards(loop: str) -> bool:
    return "reversed(" in loop or "-1, -1)" in loop or "[::-1]" in loop


def _grows(node: ast.AST, turn: set[str]) -> bool:
    """Whether a statement multiplies what the turn before has made by something of this turn."""
    match node:
        case ast.AugAssign(target=ast.Name(), op=ast.Mult(), value=by):
            return bool(_names(by) & turn)
        case ast.Assign(targets=[of], value=ast.BinOp(op=ast.Mult()) as product):
            return _of(product, of, turn)
        case ast.Call(func=ast.Attribute(value=of, attr="append" | "insert"), args=[*_, last]):
            return isinstance(last, ast.BinOp) and _of(last, of, turn)
    return False


def _of(product: ast.BinOp, made: ast.expr, turn: set[str]) -> bool:
    roots = (_root(product.left), _root(product.right))
    return (
        isinstance(product.op, ast.Mult) and _root(made) in roots and bool(_names(product) & turn)
    )


def _names(e: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(e) if isinstance(n, ast.Name)}


def _name(called: ast.expr) -> str | None:
    return getattr(called, "attr", getattr(called, "id", None))


def _root(e: ast.expr) -> str | None:
    while isinstance(e, ast.Subscript):
        e = e.value
    return e.id if isinstance(e, ast.Name) else None


ALLOWED = {"te/affine.py", "space/bounds.py"}
"""`form_of` itself; and what is zero wherever a guard does not hold, which is no sum of terms."""


def test_forms_and_strides_are_made_in_one_room():
    found = [
        f"{path}:{line} {what}"
        for path, tree in trees("*").items()
        if not path.startswith("index/")
        for what, lines in (
            ("constructs a form", made_forms(tree)),
            ("takes sums apart", [] if path in ALLOWED else summed_forms(tree)),
            ("multiplies up strides", multiplied_strides(tree)),
        )
        for line in lines
    ]
    assert not found, "this is what tilework.index is for:\n" + "\n".join(found)


BEFORE = [
    (made_forms, "from tilework.index.form import Form\nx = Form({}, 0)"),
    (made_forms, "from tilework.index.form import Form as F\nx = F[Axis]({a: 1}, 0)"),
    (made_forms, "from tilework.index import form\nx = form.Form({}, 0)"),
    (summed_forms, "match e:\n  case Binary(op='+' | '-'):\n    pass"),
    (multiplied_strides, "for n in reversed(shape):\n  out.append(out[-1] * n)"),
    (multiplied_strides, "for n in reversed(shape):\n  out.insert(0, out[0] * n)"),
    (multiplied_strides, "for i, n in zip(reversed(at), reversed(shape)):\n  t += s * i; s *= n"),
    (multiplied_strides, "for d in range(9, -1, -1):\n  out[d] = out[d + 1] * s[d + 1]"),
    (multiplied_strides, "for d in order[::-1]:\n  if x:\n    step = n[d] * step"),
    (multiplied_strides, "s = tuple(math.prod(shape[d + 1 :]) for d in range(4))"),
]


@pytest.mark.parametrize(("find", "text"), BEFORE)
def test_the_places_of_before_would_be_found(find, text):
    assert list(find(ast.parse(text)))


# -- the two faces of an extent -------------------------------------------------------------------

DECIDES_CODE = (
    "te", "ops", "graph", "lower", "compiler", "runtime", "torch", "session",
    "kinds/*/build.py", "kinds/*/lowering.py", "kinds/*/executor.py",
    "kinds/cpu/llvm", "kinds/cpu/library", "kinds/cpu/tactics.py",
    "kinds/cuda/source", "kinds/cuda/lower", "kinds/cuda/mma", "kinds/cuda/row_chain.py",
    "kinds/cuda/staging.py", "kinds/cuda/expansion.py", "kinds/cuda/geometry.py",
    "space/blocks.py", "space/bounds.py", "space/capabilities.py", "space/packing.py",
    "space/dots.py", "space/regions.py", "space/transforms.py", "space/winograd/rewrite.py",
)  # fmt: skip
"""What is read while a row becomes code, and while modules are made and run."""
LOOKS = (
    "kinds/*/draft.py", "kinds/*/features", "kinds/*/decisions.py", "kinds/*/canonical.py",
    "model", "measure", "search", "travel",
)  # fmt: skip
"""What ranks and measures rows, and carries them to other sizes."""


def readers(tree: ast.AST, name: str) -> Iterator[int]:
    """Lines that read an attribute, or import what has its name."""
    for node in _nodes(tree):
        read = isinstance(node, ast.Attribute) and node.attr == name
        if read or (isinstance(node, ast.alias) and node.name == name):
            yield node.lineno


LET = ("te/nodes.py", "te/flops.py", "runtime/solve.py")
"""What declares it; what tells people; where a module is timed if nobody says where."""


def test_what_decides_code_never_reads_typical():
    found = [
        f"{path}:{line}"
        for path, tree in trees(*DECIDES_CODE).items()
        if path not in LET
        for line in readers(tree, "typical")
    ]
    assert not found, "code must not depend on where a search looked:\n" + "\n".join(found)


def test_what_looks_reads_typical_alone():
    found = [
        f"{path}:{line}"
        for path, tree in trees(*LOOKS).items()
        for line in readers(tree, "extent")
    ]
    assert not found, "a search looks at typical extents:\n" + "\n".join(found)


def exact_shapes(tree: ast.AST) -> Iterator[int]:
    """Lines that read the shape of a read's tensor, other than to ask where a search looks."""
    asked = {
        id(argument)
        for node in _nodes(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "typicals"
        for argument in node.args
    }
    for node in _nodes(tree):
        shape = isinstance(node, ast.Attribute) and node.attr == "shape" and id(node) not in asked
        if shape and ast.unparse(node).endswith(".tensor.shape"):
            yield node.lineno


def test_features_read_typical_shapes_alone():
    found = [
        f"{path}:{line}"
        for path, tree in trees("kinds/*/features").items()
        for line in exact_shapes(tree)
    ]
    assert not found, "features are of typical extents:\n" + "\n".join(found)
