"""Compute what is computed twice only once (common subexpressions)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tilework.graph.ir import Builder, Network, Node, rewrite
from tilework.graph.operators import COMMUTATIVE
from tilework.runtime.content import let_go

_SEEN = 64
"""Elements of a constant that are looked at before all of them."""


def merge_equal(net: Network) -> Network:
    """Let one node stand for all that apply the same operator to the same values.

    Constants count as the same if their elements are, bit by bit.

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
    alike: dict[Hashable, list[str]] = {}
    out: dict[str, str] = {}
    for name, array in constants.items():
        few = array.flat[:: max(1, array.size // _SEEN)].tobytes()  # nothing is copied whole
        others = alike.setdefault((str(array.dtype), array.shape, few), [])
        equal = next((o for o in others if _same_bits(array, constants[o])), None)
        let_go(array)
        if equal is None:
            others.append(name)
        else:
            out[name] = equal
    return out


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one type and shape hold the same; of floats, zeros have a sign."""
    bits, ours, theirs = f"u{a.dtype.itemsize}", a.__array_interface__, b.__array_interface__
    if ours["data"] == theirs["data"] and a.strides == b.strides:  # one weight, by two names
        return True
    return np.array_equal(a.view(bits), b.view(bits))


def _frozen(value: Any) -> Hashable:
    """A value of attributes as a key; numbers that differ only in their type stay apart."""
    match value:
        case Mapping():
            return tuple((k, _frozen(value[k])) for k in sorted(value))
        case np.ndarray():
            return (str(value.dtype), value.shape, value.tobytes())
        case str():
            return value
        case Network():  # the body of a loop
            return id(value)
        case Sequence():
            return tuple(map(_frozen, value))
    return (type(value).__name__, repr(value))
