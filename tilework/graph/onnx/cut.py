"""Cut a model of which only parts can be compiled: the rest is left to ONNX Runtime.

The cut is made in the file's own graph, for inputs of known shapes or shapes within ranges. A node
is left that has no conversion, or that reads what has no extents before a run; then nodes of ours
are given away that are not worth a part of their own (`levels`). Values that are known at import
are constants of every part that reads them, whoever computed them; what follows from extents that
a run brings is computed by a part, and known to those of ours.

Ranges lose no work of ours: a node that becomes something else from run to run asks for narrower
ones, and what is a network at typical values, or a product there, is left over no range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike

from tilework.errors import NetworkError
from tilework.graph.ir import Builder, Network
from tilework.graph.onnx.context import RangesNeeded, ShapesRefused, ValuesNeeded
from tilework.graph.onnx.files import ReadModel
from tilework.graph.onnx.importer import convert, opened, telling
from tilework.graph.onnx.inputs import Values, at_typical
from tilework.graph.onnx.levels import Plan, together, worthwhile
from tilework.graph.onnx.messages import first_line, one_line
from tilework.graph.onnx.numbers import Numbers
from tilework.graph.onnx.operations import operations, worth_a_part
from tilework.graph.onnx.places import Places
from tilework.graph.onnx.protos import ModelProto, NodeProto
from tilework.graph.onnx.ranges import Loose, Shapes, shapes_of, symbols_given
from tilework.graph.onnx.reads import read_by
from tilework.graph.onnx.submodels import submodel
from tilework.graph.onnx.types import known_type, part_value
from tilework.graph.onnx.visited import Visited
from tilework.graph.onnx.walk import Walk
from tilework.graph.parts import OurPart, Parts, TheirPart
from tilework.runtime.left import Left
from tilework.runtime.other import OtherModel, shortened
from tilework.runtime.parts_image import PartValue, says, symbols_in


def cut(
    source: str | PathLike[str] | ReadModel | ModelProto,
    shapes: Loose | None = None,
    values: Values | None = None,
    ask: bool = False,
) -> Network | Parts:
    """Read a model: as a network if all of it can be compiled, else in parts.

    Args:
        source, shapes, values: as for `tilework.graph.onnx.importer.from_onnx`.
        ask: raise `ValuesNeeded` where the values of some inputs decide shapes and nothing else is
            amiss; else what needs them is left.

    Raises:
        ValuesNeeded: see ``ask``.
        NetworkError: the file is missing or corrupt, or an input's shape is not known.
    """
    model, places, label = opened(source)
    with telling(label):
        return cut_model(model, places, shapes_of(shapes), values or {}, ask)


def cut_model(
    model: ModelProto, places: Places | None, shapes: Shapes, values: Values, ask: bool = False
) -> Network | Parts:
    """The same of a model that is read.

    Raises:
        ValuesNeeded: see `cut`.
        RangesNeeded: what some nodes become differs from run to run.
        NetworkError: see `cut`; the message does not name the model.
    """
    try:
        return convert(model, places, shapes, values)
    except ShapesRefused:
        raise
    except NetworkError as e:
        if ask and isinstance(e, ValuesNeeded):
            raise
        inlined = _inlined(model)
        symbols = symbols_given(shapes)
        if not symbols:
            return _Cutting(inlined, places, shapes, values, e).result()
        here = at_typical(inlined.graph.input, shapes, symbols)
        at = Visited(inlined, places, here, values, e)
        if not at.left_any:  # a network at numbers, of which no range leaves anything
            raise
        try:
            cutting = _Cutting(inlined, places, shapes, values, e, at)
            cutting.require_no_less_than(at)
        except RangesNeeded:
            raise
        except NetworkError:
            if isinstance(e, RangesNeeded):  # narrower ones may make it one network
                raise e from None
            raise
        return cutting.result()


def _inlined(model: ModelProto) -> ModelProto:
    """The model with its functions in the place of their calls, so that these can be cut, too."""
    if not model.functions:
        return model
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception:  # over 2 GiB, or functions that only look like some: calls are left whole
        return model


class _Cutting(Visited):
    """One model while it is cut."""

    # ------------------------------------------------------------ who runs what

    def result(self) -> Network | Parts:
        """The model in parts; a network if all that anybody needs of it can be one.

        Raises:
            NetworkError: nothing is left, so that something else was refused.
        """
        if not self.left_any:
            raise self.refused
        if all(self.all.ours):
            return self._network(self.name, self.all.nodes, self.inputs, self.outputs)
        return self.parts(True)

    def parts(self, generous: bool) -> Parts:
        """The model in parts.

        Args:
            generous: give away nodes that are not worth a part of ours.
        """
        producers = self.all.producers
        ours = list(self.all.ours)
        if generous:
            ours = worthwhile(ours, producers, self._worth)
        notes: list[str] = []
        while True:
            live = self._live(ours)
            groups = ([n for n in g if n in live] for g in together(ours, producers))
            plan = Plan(self.all.nodes, ours, [g for g in groups if g], self._reads)
            networks, failed = self._networks(plan, notes)
            if not failed:
                break
            for n in failed:
                ours[n] = False
        parts = [
            OurPart(net, tuple(net.inputs), self._writes(plan, n), partial(self._model, plan, n))
            if (net := networks.get(n)) is not None
            else TheirPart(self._model(plan, n))
            for n in range(len(plan.groups))
        ]
        crossing = dict.fromkeys((*self.inputs, *(o for p in parts for o in p.outputs)))
        given = [n for n, mine in enumerate(self.all.ours) if mine and not ours[n]]
        return Parts(
            name=self.name,
            inputs={n: self._value(n) for n in self.inputs},
            outputs=self.outputs,
            values={n: self._value(n) for n in crossing},
            parts=tuple(parts),
            left=self._left(ours),
            refused=one_line(self.refused),
            whole=self._whole,
            notes=tuple(notes),
            again=partial(self.parts, False) if generous and given else None,
        )

    def _typed(self, name: str) -> PartValue:
        return part_value(name, self.walk.type_of(name), self.walk.texts)

    def _value(self, name: str) -> PartValue:
        """What is known of a value before the part runs that computes it."""
        value = self._typed(name)
        if name not in self.walk.bearers:
            return value
        return replace(
            value, shape=tuple(n if isinstance(n, int) else None for n in value.shape or ())
        )

    def _live(self, ours: Sequence[bool]) -> set[int]:
        """The nodes that must run: what follows from extents is known to ours."""
        if not self.walk.numbers:
            return set(range(len(ours)))
        maker = {o: n for n, node in enumerate(self.all.nodes) for o in node.output if o}
        live: set[int] = set()
        stack = [*self.outputs, *self.walk.bearers]
        while stack:
            at = maker.get(name := stack.pop())
            if at is not None and at not in live and name not in self.walk.constants:
                live.add(at)
                stack += self._asks(self.all.nodes[at : at + 1], ours[at])
        return live

    def _asks(self, nodes: Sequence[NodeProto], mine: bool) -> list[str]:
        """What some nodes read that is not known to them."""
        known = (self.walk.constants, self.walk.numbers if mine else {})
        return [i for i in read_by(nodes) if not any(i in each for each in known)]

    def _worth(self, group: Sequence[int]) -> bool:
        """Whether it pays that some nodes are ours, which run together."""
        return worth_a_part([self.all.nodes[n] for n in group], self.walk.shape_of)

    def _left(self, ours: Sequence[bool]) -> Left:
        both = zip(self.all.nodes, ours, strict=True)
        each = [(n, mine) for n, mine in both if not n.output[0].startswith(" ")]  # of the file
        counted = [operations(n, self.walk.shape_of) for n, _ in each]
        theirs = [c for c, (_, mine) in zip(counted, each, strict=True) if not mine]
        total = sum(c for c in counted if c is not None)
        share = sum(c for c in theirs if c is not None) / total if total else None
        operators = tuple(self.all.refused)
        return Left(operators, len(theirs), len(each), share, theirs.count(None))

    # ------------------------------------------------------------ parts

    def _networks(self, plan: Plan, notes: list[str]) -> tuple[dict[int, Network], list[int]]:
        """Our parts as networks, by number; and the nodes of those that are none after all."""
        networks: dict[int, Network] = {}
        failed: list[int] = []
        for number, group in enumerate(plan.groups):
            if not plan.ours[group[0]]:
                continue
            nodes, writes = plan.of(number), self._writes(plan, number)
            inputs = plan.reads[number]
            try:
                networks[number] = self._network(f"{self.name}.{number}", nodes, inputs, writes)
            except NetworkError as e:
                if self.walk.texts:  # a narrower range, or a form for numbers, may do
                    raise
                kinds = dict.fromkeys(n.op_type for n in nodes)
                notes.append(f"a part of {shortened(list(kinds))} is left, too: {one_line(e)}")
                failed += group
        return networks, failed

    def _network(
        self,
        name: str,
        nodes: Sequence[NodeProto],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> Network:
        """Some nodes as a network.

        Raises:
            NetworkError: they have no conversion after all.
        """
        part = Walk(Builder(name), self.walk.opset, self.places, self.model.functions)
        numbers = {n: self.walk.numbers[n] for n in read_by(nodes) if n in self.walk.numbers}
        for n in inputs:
            kind = known_type(self.walk.type_of(n), self.walk.texts)
            if kind is not None and self.walk.defined(n):
                part.input(n, *kind)
        for n in dict.fromkeys((*read_by(nodes), *outputs)):
            if n in self.walk.constants:
                part.define(n, self.walk.constants[n])
            elif n in numbers and n not in inputs:
                part.define(n, numbers[n])
        try:
            part.graph(nodes)
            return part.b.finish([part.output(o) for o in outputs], outputs)
        except NetworkError:
            raise
        except Exception as e:  # a gap of ours must not end what the other engine runs
            raise NetworkError(f"{type(e).__name__}: {first_line(e)}") from e

    def _bringing(self, inputs: Sequence[str], numbers: Iterable[Numbers]) -> list[str]:
        """Inputs of the model that a part must be given, so that shapes say what symbols are."""
        needed = {s for n in numbers for s in n.symbols}
        values = [v for v in map(self._typed, inputs) if v.sized]
        more: list[str] = []
        for name in (*self.inputs, *self.walk.bearers):
            needed |= {*symbols_in(values)}
            if says(values, needed):
                break
            value = self._typed(name)
            if name not in inputs and value.sized and needed & {*symbols_in([value])}:
                values.append(value)
                more.append(name)
        return more

    def _reads(self, nodes: Sequence[NodeProto], mine: bool) -> list[str]:
        """What a part reads that is not known to it; ours also what says what symbols are."""
        asked = self._asks(nodes, mine)
        numbers = [self.walk.numbers[n] for n in read_by(nodes) if n in self.walk.numbers]
        return [*asked, *self._bringing(asked, numbers)] if mine else asked

    def _writes(self, plan: Plan, number: int) -> tuple[str, ...]:
        """What of a part others read, or a run returns."""
        wanted = set(self.outputs)
        for other in range(len(plan.groups)):
            if other != number:
                wanted.update(plan.reads[other])
        outputs = (o for n in plan.of(number) for o in n.output if o)
        return tuple(o for o in outputs if o in wanted and o not in self.walk.constants)

    def _model(self, plan: Plan, number: int) -> OtherModel:
        """A part for the other engine; its last one also returns outputs that are constants."""
        outputs = self._writes(plan, number)
        if number == plan.last_of_theirs:
            constant = (o for o in dict.fromkeys(self.outputs) if o in self.walk.constants)
            outputs = (*outputs, *constant)
        return submodel(
            plan.of(number),
            {n: self.walk.type_of(n) for n in plan.reads[number]},
            {n: self.walk.type_of(n) for n in outputs},
            self.walk.constants,
            self.model,
            self.places,
            f"{number}.weights",
        )

    def _whole(self, more: tuple[str, ...]) -> OtherModel:
        names = dict.fromkeys((*self.outputs, *more))
        inputs = {n: self.walk.type_of(n) for n in self.inputs}
        return submodel(
            self.nodes,
            inputs,
            {n: self.walk.type_of(n) for n in names},
            {**{n: a for n, a in self.walk.constants.items() if n[:1] == " "}, **self.given},
            self.model,
            self.places,
            "whole.weights",
        )
