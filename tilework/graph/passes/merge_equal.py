"""Compute what is computed twice only once (common subexpressions)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import COMMUTATIVE

_COMPARED = 4096
"""Constants of more elements are equal only if they are the same array."""


def merge_equal(net: Network) -> Network:
    """Let one node stand for all that apply the same operator to the same values.

    Small constants count as the same if their elements are.

    rewrite:
        y = f(x), z = f(x)        ->  y = f(x), and z is y
        y = a + b, z = b + a      ->  y = a + b, and z is y
    """
    known: dict[Hashable, str] = {}
    same = _equal_constants(net.constants)

    def rule(b: Builder, node: Node, inputs: tuple[str, ...]) -> str:
        values = tuple(same.get(v, v) for v in inputs)
        order = tuple(sorted(values)) if node.op in COMMUTATIVE else values
        key = (node.op, order, _frozen(node.attrs))
        if key not in known:
            known[key] = b.keep(node, values)
        return known[key]

    return rewrite(net, rule)


def _equal_constants(constants: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The first of several equal constants, for each of the others."""
    first: dict[Hashable, str] = {}
    out: dict[str, str] = {}
    for name, array in constants.items():
        bits: Hashable = array.tobytes() if array.size <= _COMPARED else id(array)
        other = first.setdefault((str(array.dtype), array.shape, bits), name)
        if other != name:
            out[name] = other
    return out


def _frozen(value: Any) -> Hashable:
    """A value of attributes as a key; numbers that differ only in their type stay apart."""
    match value:
        case Mapping():
            return tuple((k, _frozen(value[k])) for k in sorted(value))
        case np.ndarray():
            return (str(value.dtype), value.shape, value.tobytes())
        case str():
            return value
        case Sequence():
            return tuple(map(_frozen, value))
    return (type(value).__name__, repr(value))
