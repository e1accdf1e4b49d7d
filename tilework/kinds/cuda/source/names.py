"""What buffers, variables and tables are called in one kernel's text."""

from __future__ import annotations

import re

from tilework.kinds.cuda.source.indices import Sum
from tilework.lower.ir import Buffer
from tilework.te.expr import Axis, Expr, Lookup

Base = frozenset[tuple[int, int]]
"""Terms of an index that are computed once, as (identity of the atom, its factor)."""


class Names:
    """Names of one kernel.

    Attributes:
        known: what stands for each variable, its name or its value in an expanded loop.
        bases: sums of terms that were computed before, by those terms.
        tables: constant matrices that are indexed by variables.
    """

    def __init__(self) -> None:
        self.known: dict[Axis, str | int] = {}
        self.bases: dict[Base, str] = {}
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

    def base(self, form: Sum) -> tuple[str, Sum] | None:
        """A sum as what was computed before and the rest; None where nothing was."""
        if not self.bases:
            return None
        found: Base | None = None
        own = {(id(a), c) for a, c in form.terms.items()}
        for base in self.bases:
            if base <= own and (found is None or len(base) > len(found)):
                found = base
        if found is None:
            return None
        rest = {a: c for a, c in form.terms.items() if (id(a), c) not in found}
        return self.bases[found], Sum(rest, form.const)

    def table(self, e: Lookup) -> str:
        """The name of an array that holds a constant matrix."""
        for name, known in self.tables.items():
            if (known.values, known.shape, known.dtype) == (e.values, e.shape, e.dtype):
                return name
        name = self.fresh(e.name)
        self.tables[name] = e
        return name


def base_of(form: Sum, inner: set[Expr]) -> Base:
    """The terms of a sum that do not vary with variables ``inner``."""
    return frozenset((id(a), c) for a, c in form.terms.items() if a not in inner)
