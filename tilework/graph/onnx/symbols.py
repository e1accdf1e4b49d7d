"""Symbolic extents: what they are bound to, and what to say of those that are not."""

from __future__ import annotations

import ast
import operator
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

from tilework.index.extents import Extent
from tilework.index.symbols import Undecided

_OPERATIONS: dict[type[ast.operator], Callable[[Extent, Extent], Extent]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}

# what a symbol's name says that its extent may be, in the order of asking
_USUAL = (
    (("batch",), 1),
    (("channel",), 3),
    (("height", "width", "image"), 224),
)
_LENGTH = 16
"""What other extents are in an example: a length."""

_LISTED = 8  # inputs


def evaluated(text: str, symbols: Mapping[str, Extent]) -> Extent | None:
    """A symbol that is arithmetic of others, such as ``past + 1``; None if one is not known."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, symbols)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    except (Undecided, TypeError):  # a division by what a run brings
        return None


def _value(node: ast.expr, symbols: Mapping[str, Extent]) -> Extent:
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _value(node.left, symbols), _value(node.right, symbols)
        return _OPERATIONS[type(node.op)](left, right)
    raise ValueError("it is no arithmetic of whole numbers")


def names_in(text: str) -> list[str]:
    """The symbols that a declared extent is arithmetic of; the text itself where it is a name.

    ``4*h`` is of ``h``; ``input-length`` is taken for a name.
    """
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [text]
    plain = (ast.Name, ast.Load, ast.Constant, ast.BinOp, *_OPERATIONS)
    hyphens = (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) for n in nodes)
    if not all(isinstance(n, plain) for n in nodes) or any(hyphens):
        return [text]
    return list(dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name))) or [text]


Declared = Sequence[int | str | None]
"""A shape as the file has it: extents, symbols, and None where there is no name."""


def unbound(
    missing: Mapping[str, Declared], symbols: Mapping[str, int], inputs: Collection[str]
) -> str:
    """What is to be said of inputs whose extents are not known, with a line that can be pasted.

    Args:
        missing: shapes of these inputs.
        symbols: those that the caller has given.
        inputs: names of all inputs, which ``--shape`` takes for shapes and not for symbols.
    """
    known = dict(symbols)
    given: dict[str, tuple[int, ...]] = {}
    shapes = {n: s for n, s in missing.items() if None in s or any(m in inputs for m in s)}
    free = [(n, d, s) for s in missing.values() for d, n in enumerate(s) if isinstance(n, str)]
    for n, d, s in sorted(free, key=lambda one: not one[0].isidentifier()):
        if n not in known:
            for name in names_in(n):
                if name not in known:
                    known[name] = _example(name, d, s, known)
                    if name not in inputs:
                        given[name] = (known[name],)
            follows = evaluated(n, known)
            known.setdefault(n, follows if isinstance(follows, int) else _LENGTH)
    for name, shape in shapes.items():
        given[name] = tuple(_example(n, d, shape, known) for d, n in enumerate(shape))
    names = "; ".join(
        f"'{name}' {_shape_text(shape)}" for name, shape in list(missing.items())[:_LISTED]
    )
    names += f" and {len(missing) - _LISTED} more" * (len(missing) > _LISTED)
    command = " ".join(f"--shape {shlex.quote(_option(n, s))}" for n, s in given.items())
    return (
        f"there are symbolic extents in its input{'s' * (len(missing) > 1)} {names}; give each a "
        f"range by --shape any, or an extent, for example {command}, in Python shapes={given}"
    )


def _example(symbol: int | str | None, dim: int, shape: Declared, known: Mapping[str, int]) -> int:
    """An extent that may do."""
    if isinstance(symbol, int):
        return symbol
    if symbol is not None:
        if symbol in known:
            return known[symbol]
        for words, extent in _USUAL:
            if any(word in symbol.lower() for word in words):
                return extent
    if dim == 0:
        return 1
    if len(shape) == 4 and (symbol is None or symbol.lower() in ("h", "w")):
        return 3 if dim == 1 else 224
    return _LENGTH


def _shape_text(shape: Declared) -> str:
    return f"[{', '.join('?' if n is None else str(n) for n in shape)}]"


def _option(name: str, shape: Sequence[int]) -> str:
    return f"{name}={','.join(map(str, shape))}"
