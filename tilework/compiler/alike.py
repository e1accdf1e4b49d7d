"""Calls that differ in the names of their symbols alone: one schedule and one kernel serve all.

An encoder and a decoder over lengths of the same range, the rows and the columns of an image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilework.index.symbols import Symbol
from tilework.te.dag import ComputeDAG
from tilework.te.points import exchange_symbols


class Alike:
    """The first of some computations that are alike, in the order in which they are asked for.

    Args:
        symbols: of the network.
    """

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        ranges = Counter(replace(s, name="") for s in symbols)
        self._several = {s.name for s in symbols if ranges[replace(s, name="")] > 1}
        self._found: dict[str, tuple[ComputeDAG, Mapping[Symbol, Symbol]]] = {}
        self._first: dict[tuple[str, tuple[Symbol, ...]], ComputeDAG] = {}

    def first(self, dag: ComputeDAG) -> tuple[ComputeDAG, Mapping[Symbol, Symbol]]:
        """The first computation that is like one, and symbols of this one in place of its own.

        Names have the same order in both, so that kernels have their arguments in the same one.
        """
        if self._several.isdisjoint(s.name for s in dag.symbols):
            return dag, {}
        key = dag.workload_key
        if key not in self._found:
            plain = {s: replace(s, name=f"{i:04}") for i, s in enumerate(dag.symbols)}
            named = exchange_symbols(plain).dag(dag).workload_key, (*plain.values(),)
            first = self._first.setdefault(named, dag)
            pairs = zip(first.symbols, dag.symbols, strict=True)
            self._found[key] = first, {s: own for s, own in pairs if s != own}
        return self._found[key]
