"""The memory of a compiled network: where its inputs, outputs and values lie."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilework.compiler.constants import Constants, root_of
from tilework.dtypes import dtype_bytes
from tilework.index.extents import Extent, known, nbytes
from tilework.index.slots import Slot, along
from tilework.index.strides import reach as reach_of
from tilework.index.symbols import symbols_of
from tilework.lower.kernel import KernelArg
from tilework.runtime.arena import Lifetime, place
from tilework.runtime.image import Place, Ref, Room, Value

if TYPE_CHECKING:
    from tilework.graph import Plan
    from tilework.graph.planned import Repeat


class Memory:
    """Where every value of a plan lives.

    Values of which one takes the other's place share its memory: they are a single *tenant*, named
    after the first, and alive from the first's beginning to the last's end. Where shapes are
    symbolic they share it if their sizes are equal at every point, and the arena is laid out by
    whoever knows the point.

    Args:
        overwritten: of each call, the positions of inputs that its output may overwrite; by
            default none.
        slots: values that lie inside others.
        rooms: of each input that shares its buffer with the output that continues it, in which
            dimension the buffer is longer, and how long.
    """

    def __init__(
        self,
        plan: Plan,
        overwritten: Sequence[frozenset[int]] = (),
        slots: Mapping[str, Slot] | None = None,
        rooms: Mapping[str, tuple[int, Extent]] | None = None,
    ) -> None:
        self._plan = plan
        self._slots = slots or {}
        self._overwritten = overwritten or [frozenset()] * len(plan.calls)
        self._tenant: dict[str, str] = {}
        self._io = {name: i for i, name in enumerate(plan.inputs)}
        for name in plan.outputs:
            self._io.setdefault(self._root(name), len(self._io))
        self.inputs = tuple(self._value(n) for n in plan.inputs)
        names = plan.names or plan.outputs
        self.outputs = tuple(
            replace(self._value(v), name=n) for v, n in zip(plan.outputs, names, strict=True)
        )
        long = rooms or {}
        self.rooms = tuple(_room(v, *long[v.name]) for v in self.inputs if v.name in long)
        self.symbols = symbols_of(e for v in self.inputs for e in v.shape)
        lifetimes = self._share(self._lifetimes())
        self.lifetimes = tuple(lifetimes.values()) if self.symbols else ()
        self.places: dict[Place, int] = {}
        offsets, self.arena_bytes = place([] if self.symbols else list(lifetimes.values()))
        numbers = dict(zip(lifetimes, offsets or itertools.count(), strict=False))
        self._arena = {name: numbers[tenant] for name, tenant in self._tenant.items()}

    def _root(self, name: str) -> str:
        """The value in whose memory ``name`` lies."""
        return root_of(self._plan, self._slots, name)

    def _value(self, name: str) -> Value:
        kind = self._plan.values[name]
        return Value(name, tuple(kind.shape), kind.dtype, self._io[self._root(name)])

    def _lifetimes(self) -> dict[str, Lifetime]:
        """Lifetime of each intermediate value, in calls.

        What was there before a call is repeated is there at the last trip, too; and what it writes
        a part of at each trip is there from before the first.
        """
        out: dict[str, Lifetime] = {}
        ends = {c.repeat: i for i, c in enumerate(self._plan.calls)}
        begins = {c.repeat: i for i, c in reversed([*enumerate(self._plan.calls)])}
        for i, call in enumerate(self._plan.calls):

            def last(name: str, i: int = i, repeat: Repeat | None = call.repeat) -> int:
                before = repeat is not None and out[name].first < begins[repeat]
                return ends[repeat] if before else i

            for name in map(self._root, call.inputs):
                if name in out:
                    out[name] = replace(out[name], last=last(name))
            root = self._root(call.output)
            if root in out:
                out[root] = replace(out[root], last=last(root))
            elif root not in self._io:
                kind = self._plan.values[root]
                size = nbytes(kind.shape, kind.dtype)
                grows = call.repeat is not None and call.output in self._slots
                out[root] = Lifetime(size, begins[call.repeat] - 1 if grows else i, i)
        return out

    def _share(self, lifetimes: dict[str, Lifetime]) -> dict[str, Lifetime]:
        """Lifetimes of tenants: an output joins that of an input which dies where it is made."""
        self._tenant = {name: name for name in lifetimes}
        out = dict(lifetimes)
        within = {self._root(c.output): c.repeat for c in reversed(self._plan.calls)}
        for i, call in enumerate(self._plan.calls):
            new = self._root(call.output)
            if new not in lifetimes or call.output in self._slots:
                continue
            for old in dict.fromkeys(map(self._root, call.inputs)):
                places = {k for k, v in enumerate(call.inputs) if self._root(v) == old}
                if (
                    old in lifetimes
                    and not any(call.inputs[k] in self._slots for k in places)
                    and lifetimes[old].last == i
                    and (call.repeat is None or within[old] is call.repeat)
                    and lifetimes[old].size == lifetimes[new].size
                    and places <= self._overwritten[i]
                ):
                    tenant = self._tenant[new] = self._tenant[old]
                    out[tenant] = replace(out[tenant], last=out.pop(new).last)
                    break
        return out

    def ref(
        self,
        name: str,
        arg: KernelArg,
        constants: Constants,
        strides: Sequence[Extent] | None = None,
        trip: Extent = 0,
    ) -> Ref:
        """Where a kernel finds a value; a constant has a place, packed as the kernel wants it.

        Args:
            constants: those of the plan.
            strides: the value's, in elements, if it is not dense.
            trip: the number of the trip, where the call is repeated; the first one counts.
        """
        root, reach = self._root(name), arg.nbytes
        if strides is not None and 0 not in arg.shape:
            reach = reach_of(arg.shape, strides, 1) * dtype_bytes(arg.dtype)
        if root in constants:
            return Ref("constant", constants.place(name, root, arg), reach)
        if arg.packing is not None:
            raise RuntimeError(f"'{name}' is computed at run time, but {arg.name} wants it packed")
        if root in self._io:
            behind = name in self._slots and self._slots[name].offset != 0
            return Ref("behind" if behind else "io", self._io[root], reach)
        offset, _ = along(self._slots[name].offset, trip) if name in self._slots else (0, 0)
        inside = offset * dtype_bytes(arg.dtype)
        if self.symbols:
            place = Place(self._arena[root], inside)
            return Ref("place", self.places.setdefault(place, len(self.places)), reach)
        return Ref("arena", self._arena[root] + known(inside), reach)

    def advance(self, name: str, repeat: Repeat | None) -> Extent:
        """How many bytes further a kernel finds a value at each trip than at the one before."""
        if repeat is None or name not in self._slots:
            return 0
        _, each = along(self._slots[name].offset, repeat.trip)
        return each * dtype_bytes(self._plan.values[name].dtype)

    def symbol(self, name: str) -> Ref:
        """Where a kernel finds the value of a symbol."""
        return Ref("symbol", [s.name for s in self.symbols].index(name), 8)


def _room(value: Value, axis: int, length: Extent) -> Room:
    shape = (*value.shape[:axis], length, *value.shape[axis + 1 :])
    return Room(value.name, shape, value.dtype, value.io, axis)
