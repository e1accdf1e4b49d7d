"""What a plan of a network consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from tilework.frozen import frozen
from tilework.graph.operators.base import ValueType
from tilework.index.extents import Extent
from tilework.index.slots import Slot
from tilework.index.symbols import Symbol
from tilework.te import ComputeDAG


@frozen(eq=False)
class Repeat:
    """Calls in a row that a run makes again and again.

    Attributes:
        trips: how often.
        trip: the number of the trip, from 0, in offsets of `Plan.slots`: a symbol of its own, or
            0 where there is one trip at the most.
    """

    trips: Extent
    trip: Extent


@frozen(eq=False)
class Call:
    """One fused kernel call.

    Attributes:
        dag: what it computes.
        inputs: the value bound to each placeholder of ``dag``, in order.
        output: the value that it defines.
        name: the fused operators, for example ``"conv2d_add_relu"``.
        desc: one line for tables: operators and extents.
        complex: whether it reduces anything (such calls are worth tuning).
        repeat: what it is a part of, with its neighbours of which that is the same.
        within: symbols of ``dag`` in place of the network's, of the same names: the values that
            they have where a run makes the call at all.
    """

    dag: ComputeDAG
    inputs: tuple[str, ...]
    output: str
    name: str
    desc: str
    complex: bool
    repeat: Repeat | None = None
    within: Mapping[Symbol, Symbol] = field(default_factory=dict)

    @property
    def without(self) -> dict[Symbol, Symbol]:
        """The network's symbols in place of those of ``dag``."""
        return {near: symbol for symbol, near in self.within.items()}

    @property
    def trips(self) -> Extent:
        """How often a run makes it."""
        return 1 if self.repeat is None else self.repeat.trips


@frozen(eq=False)
class Plan:
    """How to run a network.

    Attributes:
        name: of the network.
        values: type of every value that the plan mentions.
        constants: parameters, already folded and in the layout that the calls read.
        inputs, outputs: value names; an output may be a view, or appear twice.
        calls: in execution order.
        views: values that share another value's memory under another shape; the other value is
            never a view itself, but it may be an input or a constant.
        names: what callers know the outputs by: no two alike, nor like an input.
        slots: values that lie within others: rows of one trip of a `Repeat`.
    """

    name: str
    values: dict[str, ValueType]
    constants: dict[str, np.ndarray]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]
    views: dict[str, str]
    names: tuple[str, ...] = ()
    slots: Mapping[str, Slot] = field(default_factory=dict)
