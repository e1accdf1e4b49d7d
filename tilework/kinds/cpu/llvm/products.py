"""Products in expressions: what is known of them before any code is written."""

from __future__ import annotations

from tilework.errors import ScheduleError
from tilework.kinds.cpu.llvm.integers import Integers
from tilework.te.expr import Axis, Expr, Lookup
from tilework.te.trees import factors


class Products:
    """Splits products into a literal, from constant matrices, and other factors."""

    def __init__(self, integers: Integers) -> None:
        self.integers = integers
        self._split: dict[int, tuple[Expr, list[Lookup], list[Expr]]] = {}

    def split(self, e: Expr) -> tuple[float, list[Expr]]:
        """The literal factor of a product at the current point of the loops, and the others."""
        hit = self._split.get(id(e))
        if hit is None:
            leaves = list(factors(e))
            lookups = [x for x in leaves if isinstance(x, Lookup)]
            others = [x for x in leaves if not isinstance(x, Lookup)]
            hit = self._split[id(e)] = (e, lookups, others)
        scale = 1.0
        for lookup in hit[1]:
            scale *= self.entry(lookup)
        return scale, hit[2]

    def entry(self, e: Lookup) -> float:
        """The matrix element; its loops are expanded, so the indices are literals.

        Raises:
            ScheduleError: they are not.
        """
        flat = 0
        for index, extent in zip(e.indices, e.shape, strict=True):
            loops = self.integers.bindings.loops
            bound = loops.get(index) if isinstance(index, Axis) else None
            if not isinstance(bound, int):
                at, _ = self.integers.int_value(index)
                if at.startswith("%"):
                    raise ScheduleError(f"the loops that index matrix {e.name} are not expanded")
                bound = int(at)
            flat = flat * extent + bound
        return e.values[flat]
