"""Sizes that a graph leaves open, as extents with a range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilework.errors import NetworkError
from tilework.index.extents import Extent, most
from tilework.index.symbols import Symbol, Symbolic, Undecided, symbol, symbols_of

if TYPE_CHECKING:
    import torch

    from tilework.graph.ir import Network

ROOMS = ((512, 4, 0), (128, 4, 0), (128, 2, 0), (32, 2, 0), (8, 1, 0), (128, 4, 4))
"""Where a range ends, the widest first: at a number, or at so many times what a size is now. And
by how much less it begins, where that is not where PyTorch says: a map that is rolled by 3 places
is another network at a width of 3."""
_MOST = 2**20
_LEAST_STEPPED = 16


class Sizes:
    """What each `torch.SymInt` of a graph is as an extent.

    PyTorch knows how little a size may be, and seldom how much. What lies beyond the range that it
    gets here is another compilation.

    Args:
        now: sizes at the first run, by the name of their symbol.
        room: one of `ROOMS`.
        alike: sizes that are equal now are one. PyTorch often does not know that those of all
            caches are.
        step: sizes are multiples of up to this number, as far as they are now: what is padded
            to windows is another graph.
    """

    def __init__(
        self,
        now: Mapping[str, int],
        room: tuple[int, int, int] = ROOMS[0],
        *,
        alike: bool = False,
        step: int = 1,
    ) -> None:
        self._now, self._room, self._alike, self._step = now, room, alike, step
        self._symbols: dict[str, Extent] = {}
        self._known: dict[Any, Extent] = {}  # by formula: those of windows are long

    def named(self, one: Symbol) -> str:
        """PyTorch's name of the size that a symbol stands for."""
        return next(name for name, n in self._symbols.items() if one in symbols_of([n]))

    def of(self, name: str) -> Extent:
        """The size of that name.

        Raises:
            NetworkError: it may be so large that it is a number, and no size.
        """
        if most(self._symbols[name]) > _MOST:
            raise NetworkError(f"{name} is no input's extent, but a number")
        return self._symbols[name]

    def __call__(self, n: int | torch.SymInt) -> Extent:
        """A size as an extent.

        Raises:
            NetworkError: it is no arithmetic of symbols that are sizes now.
        """
        if isinstance(n, int):
            return n
        try:
            return self._extent(n.node.expr, n.node.shape_env)
        except (Undecided, TypeError) as e:  # a division by what a run brings
            raise NetworkError(f"the size {n.node.expr} is no arithmetic of whole numbers") from e

    def _extent(self, expr: Any, env: Any) -> Extent:
        """What a formula of SymPy is."""
        if expr not in self._known:
            self._known[expr] = self._of(expr, env)
        return self._known[expr]

    def _of(self, expr: Any, env: Any) -> Extent:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            name = str(expr)
            if name not in self._symbols:
                self._symbols[name] = self._symbol(name, env, expr)
            return self._symbols[name]
        kind, parts = type(expr).__name__, [self._extent(part, env) for part in expr.args]
        if kind == "Add":
            return sum(parts)
        if kind == "Mul":
            return math.prod(parts)
        if kind == "Pow" and isinstance(parts[1], int) and parts[1] >= 0:
            return math.prod([parts[0]] * parts[1])
        if kind in ("FloorDiv", "CleanDiv"):
            whole, by = expr.args if isinstance(parts[1], int) else _shortened(*expr.args)
            return self._extent(whole, env) // self._extent(by, env)
        if kind in ("Mod", "PythonMod"):
            return parts[0] - parts[0] // parts[1] * parts[1]
        raise NetworkError(f"the size {expr} is no arithmetic of whole numbers")

    def _symbol(self, name: str, env: Any, one: Any) -> Extent:
        now = self._now.get(name)
        if now is None:
            raise NetworkError(f"the size {name} is not an input of the graph")
        if self._alike:
            same = (x for other, x in self._symbols.items() if self._now[other] == now)
            if (known := next(same, None)) is not None:
                return known
        bounds = env.var_to_range.get(one)
        low = int(bounds.lower) if bounds is not None and bounds.lower.is_Integer else 0
        least, times, less = self._room
        room = max(least, 1 << (times * now - 1).bit_length())
        high = int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else room
        low, high = max(low, now // less if less else 0), min(high, max(room, _MOST))
        if not low <= now <= high:
            low, high = min(low, now), max(high, now)
        near = (now // 4, now, 4 * now)
        step = math.gcd(self._step, now) if now >= _LEAST_STEPPED else 1
        if step > 1:
            name, low, high = f"{name}_by_{step}", -(-low // step), high // step
        return step * symbol(name, low, high, [min(max(n // step, low), high) for n in near])


def _shortened(whole: Any, by: Any) -> tuple[Any, Any]:
    """Two formulas of SymPy without the factors that they share: of all pixels, and of a row."""
    short: tuple[Any, Any] = (whole / by).cancel().as_numer_denom()
    return short


def unbound(network: Network) -> list[Symbol]:
    """Symbols of which no input's shape says the value."""
    attrs = [value for node in network.nodes for value in node.attrs.values()]
    listed = [n for value in attrs if isinstance(value, tuple) for n in value]
    shapes = [n for kind in network.types.values() for n in kind.shape]
    used = symbols_of(n for n in (*attrs, *listed, *shapes) if isinstance(n, (int, Symbolic)))
    extents = (n for x in network.inputs.values() for n in x.shape if isinstance(n, Symbolic))
    alone = {m[0] for n in extents if len(n.terms) == 1 for m in n.terms if len(m) == 1}
    return sorted(set(used) - alone, key=lambda s: s.name)


def hints(sizes: Sequence[int | torch.SymInt]) -> tuple[int, ...]:
    """Example values of sizes; asking a `torch.SymInt` for its own would bind it.

    Raises:
        NetworkError: a size has none.
    """
    numbers = [n if isinstance(n, int) else n.node.hint for n in sizes]
    if any(n is None for n in numbers):
        raise NetworkError("a size follows from data")
    return tuple(int(n) for n in numbers)


def is_known(tensor: torch.Tensor) -> bool:
    """Whether all sizes of a tensor are numbers."""
    return all(isinstance(n, int) for n in tensor.shape)
