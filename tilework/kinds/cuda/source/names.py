"""What buffers, variables and tables are called in one kernel's text."""

from __future__ import annotations

import re

from tilework.index.extents import Extent
from tilework.index.form import Form, constant
from tilework.lower.ir import Buffer
from tilework.te.expr import Axis, Expr, Lookup

Terms = frozenset[tuple[int, Extent]]
"""Terms of an index, as (identity of the atom, its factor)."""


class Names:
    """Names of one kernel.

    Attributes:
        known: what stands for each variable, its name or its value in an expanded loop.
        bases: places in buffers that were computed before, by the terms of their index.
        tables: constant matrices that are indexed by variables.
    """

    def __init__(self) -> None:
        self.known: dict[Axis, str | int] = {}
        self.bases: dict[tuple[Buffer, Terms], str] = {}
        self.tables: dict[str, Lookup] = {}
        self._buffers: dict[Buffer, str] = {}
        self._count = 0

    def buffer(self, b: Buffer) -> str:
        """The name of a buffer."""
        if b not in self._buffers:
            self._buffers[b] = self.fresh(b.name)
        return self._buffers[b]

    def fresh(self, like: str) -> str:
        """A name that nothing has yet; the number also keeps it apart from words of C."""
        self._count += 1
        word = re.sub("[^A-Za-z0-9_]", "_", like).strip("_")
        word = word if word[:1].isalpha() else f"x{word}"
        return f"{word}_{self._count - 1}"

    def base(self, buffer: Buffer, form: Form[Expr]) -> tuple[str, Form[Expr]] | None:
        """The place in a buffer from which an access has least to go, and the way from there."""
        longest: tuple[Terms, str] | None = None
        own = {(id(a), c) for a, c in form.coefficients.items()} if self.bases else set()
        for (where, terms), name in self.bases.items():
            longer = longest is None or len(terms) > len(longest[0])
            if where is buffer and longer and terms <= own:
                longest = terms, name
        if longest is None:
            return None
        terms = longest[0]
        rest = form.only(lambda a: (id(a), form.coefficients[a]) not in terms)
        return longest[1], rest + constant(form.const)

    def table(self, e: Lookup) -> str:
        """The name of an array that holds a constant matrix."""
        for name, known in self.tables.items():
            if (known.values, known.shape, known.dtype) == (e.values, e.shape, e.dtype):
                return name
        name = self.fresh(e.name)
        self.tables[name] = e
        return name
