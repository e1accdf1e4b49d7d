"""Ranges that begin at 0, of models that cannot have it in one network.

Kernels have an element at least. But a batch of none makes outputs of none: where no output has
elements at 0, the network of the range from 1 serves there as well, and a run computes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from tilework.errors import NetworkError
from tilework.graph.ir import Network
from tilework.graph.onnx.ranges import Shapes, from_one, holding_0
from tilework.index.symbols import Symbol, Symbolic


def or_nothing(shapes: Shapes, read: Callable[[Shapes], Network]) -> Network | None:
    """The network with as few symbols as need it that are 0 besides; None if there is none.

    Args:
        shapes: as `tilework.graph.onnx.importer.from_onnx` takes them.
        read: makes the network for some.
    """
    without = holding_0(shapes)
    if not without:
        return None
    for symbol in [*without] if len(without) > 1 else ():
        rest = [s for s in without if s != symbol]
        without = rest if _read(read, _besides(shapes, rest)) is not None else without
    net = _read(read, _besides(shapes, without))
    if net is None or {s.name for s in net.symbols if s.or_none} != set(without):
        return None
    return net if all(_of_nothing(net, s) for s in net.symbols if s.or_none) else None


def _besides(shapes: Shapes, symbols: Collection[str]) -> Shapes:
    """The shapes, ranges of some symbols from 1 and 0 besides."""
    return {
        s: f"0|{from_one(r)}" if s in symbols and isinstance(r, str) else r
        for s, r in shapes.items()
    }


def _read(read: Callable[[Shapes], Network], shapes: Shapes) -> Network | None:
    try:
        return read(shapes)
    except NetworkError:
        return None


def _of_nothing(net: Network, symbol: Symbol) -> bool:
    """Whether no output has elements where the symbol is 0."""
    sizes = [math.prod(net.types[v].shape) for v in net.outputs]
    return all(isinstance(n, Symbolic) and all(symbol in m for m in n.terms) for n in sizes)
