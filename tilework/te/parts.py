"""What nodes are made of: their fields that hold other nodes, found once a class.

A field holds nodes if its annotation names their class: ``Expr``, ``Expr | None``,
``tuple[Expr, ...]``, or pairs that end with one, ``tuple[tuple[Axis, Expr], ...]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from tilework.index.symbols import Symbolic

N = TypeVar("N")


class Parts(dict[type, Callable[[Any], tuple[Any, ...]]]):
    """By class of nodes, a dataclass: what gives a node's parts, in the order of its fields.

    ``names`` are those of the parts' classes. A walk that leaves parts out has a table of its own,
    with other entries for some classes.
    """

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._one = names[0]
        self._named = re.compile(rf"\b({'|'.join(names)})\b")
        self._shapes: dict[type, dict[str, str]] = {}

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]]:
        held = {field: text for field, text in self._shape(kind).items() if text}
        self[kind] = _getter(held, self._one)
        return self[kind]

    def plain(self, node: Any) -> tuple[Any, ...]:
        """The values of a node's other fields."""
        return tuple(
            [getattr(node, f) for f, holds in self._shape(type(node)).items() if not holds]
        )

    def exchanged(self, node: N, parts: Sequence[Any]) -> N:
        """A node like another, of as many other parts."""
        left = iter(parts)

        def part(old: Any) -> Any:
            return (*old[:-1], next(left)) if isinstance(old, tuple) else next(left)

        values = []
        for field, holds in self._shape(type(node)).items():
            old = getattr(node, field)
            if holds:
                old = tuple([part(v) for v in old]) if isinstance(old, tuple) else part(old)
            values.append(old)
        return type(node)(*values)

    def _shape(self, kind: type) -> dict[str, str]:
        """By field of a class: its annotation, if it holds parts."""
        if kind not in self._shapes:
            texts = {f.name: str(f.type) for f in fields(kind)}
            named = {f: text if self._named.search(text) else "" for f, text in texts.items()}
            self._shapes[kind] = named
        return self._shapes[kind]


def _getter(held: dict[str, str], one: str) -> Callable[[Any], tuple[Any, ...]]:
    if not held:
        return lambda node: ()
    get, texts = attrgetter(*held), set(held.values())
    if texts == {one}:
        return get if len(held) > 1 else lambda node: (get(node),)
    several = f"tuple[{one}, ...]"
    if len(held) == 1:
        return get if texts == {several} else lambda node: tuple(_flat(get(node)))
    if [*held.values()] == [several, one]:  # most of what a program is made of: stores
        first, last = map(attrgetter, held)
        return lambda node: (*first(node), last(node))
    return lambda node: tuple(chain(*map(_flat, get(node))))


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [v[-1] if isinstance(v, tuple) else v for v in value]
    return [] if value is None or isinstance(value, int | Symbolic) else [value]


def preorder(roots: Sequence[N], parts: Parts, seen: set[N] | None = None) -> Iterator[N]:
    """All nodes under ``roots``, each before its parts; those alone that ``seen`` lacks."""
    left = [*roots[::-1]]
    while left:
        node = left.pop()
        if seen is not None:
            if node in seen:
                continue
            seen.add(node)
        yield node
        if below := parts[type(node)](node):
            left += below[::-1]
