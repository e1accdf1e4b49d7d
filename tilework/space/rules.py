"""Sketch derivation: ordered rules turn a compute DAG into a few sketches.

Stages are visited from the last to the first. For each stage the rules of `CPU_RULES` are tried in
order; a rule returns the states it leads to, or nothing when it does not apply. The first rule
that applies ends the visit unless it is marked ``branch``, in which case the later ones are tried
as well. The last rule always applies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tilework.space.blocks import (
    ELEMENTWISE,
    MULTI_LEVEL,
    REDUCTION,
    Attached,
    Block,
    inline_body,
)
from tilework.te.affine import linear
from tilework.te.analysis import AccessAnalysis, is_elementwise_read
from tilework.te.expr import Read, reads
from tilework.te.tensor import Compute, Operation


@dataclass(frozen=True)
class State:
    """A partial sketch: what was decided for the stages visited so far.

    Attributes:
        inlined: ops substituted into their readers.
        fused: consumer op -> anchor op whose register tile it is computed on.
        structure: anchor op -> tile structure.
        accumulate: anchor op -> where partial sums wait.
        attached: producer op -> (consumer op, level) it is computed at.
        steps: readable names of the decisions, in order.
    """

    inlined: frozenset[Operation] = frozenset()
    fused: dict[Compute, Compute] = field(default_factory=dict)
    structure: dict[Compute, str] = field(default_factory=dict)
    accumulate: dict[Compute, str] = field(default_factory=dict)
    attached: dict[Compute, tuple[Compute, int]] = field(default_factory=dict)
    steps: tuple[str, ...] = ()

    def step(self, text: str, **changes: Any) -> State:
        """A successor state with one more step."""
        return replace(self, steps=(*self.steps, text), **changes)


Rule = Callable[[AccessAnalysis, State, Compute], list[State]]


def consumers(facts: AccessAnalysis, state: State, op: Operation) -> list[Compute]:
    """Readers of ``op``, looking through inlined stages."""
    out: dict[Compute, None] = {}
    for reader in facts.readers[op]:
        if reader in state.inlined:
            out.update(dict.fromkeys(consumers(facts, state, reader)))
        else:
            out[reader] = None
    return list(out)


def needs_tiling(facts: AccessAnalysis, op: Compute) -> bool:
    """Whether to tile at several levels; transforms by constant matrices are expanded instead."""
    return "const_axes" not in op.attrs and facts.needs_multi_level_tiling(op)


def elementwise_consumer(facts: AccessAnalysis, state: State, op: Compute) -> Compute | None:
    """The only consumer of ``op``, if it is free and reads ``op`` element by element."""
    if facts.is_output(op):
        return None
    found = consumers(facts, state, op)
    if len(found) != 1:
        return None
    consumer = found[0]
    if consumer.reduce_axes or consumer in state.fused or consumer.shape != op.shape:
        return None
    accesses = [r for r in reads(inline_body(consumer, state.inlined)) if r.tensor.op is op]
    if all(is_elementwise_read(r, consumer) for r in accesses):
        return consumer
    return None


def always_inline(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Inline cheap elementwise stages; expensive ones only where each element is used once."""
    if facts.is_output(op) or op.reduce_axes or op in state.fused:
        return []
    if not facts.is_strictly_inlineable(op):
        once = facts.is_expensive(op) and not facts.has_branch(op)
        if not once or elementwise_consumer(facts, state, op) is None:
            return []
    return [state.step(f"inline {op.name}", inlined=state.inlined | {op})]


def tile_with_fusion(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile a reduction and compute its elementwise consumer on the finished register tile."""
    consumer = elementwise_consumer(facts, state, op)
    if not op.reduce_axes or consumer is None:
        return []
    structure = MULTI_LEVEL if needs_tiling(facts, op) else REDUCTION
    return [
        state.step(
            f"tile {op.name} {structure} with {consumer.name}",
            structure=state.structure | {op: structure},
            fused=state.fused | {consumer: op},
            accumulate=state.accumulate | {op: "tile"},
        )
    ]


def add_cache_write(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile and keep partial sums in a tile-sized buffer (branches with `multi_level_tiling`)."""
    if not (op.reduce_axes and needs_tiling(facts, op)) or not facts.is_output(op):
        return []  # the result of an inner stage is a temporary already
    return [
        state.step(
            f"tile {op.name} {MULTI_LEVEL} cache write",
            structure=state.structure | {op: MULTI_LEVEL},
            accumulate=state.accumulate | {op: "tile"},
        )
    ]


def multi_level_tiling(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Tile a stage that reuses its inputs; partial sums wait in the output."""
    if not needs_tiling(facts, op):
        return []
    structure = MULTI_LEVEL if op.reduce_axes else ELEMENTWISE
    text = f"tile {op.name} {structure}"
    return [state.step(text, structure=state.structure | {op: structure})]


def place_producer(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Padding of a tiled consumer: its own nest, inlined, or per tile inside the consumer."""
    found = consumers(facts, state, op)
    if facts.is_output(op) or op.reduce_axes or op in state.fused or len(found) != 1:
        return []
    consumer = found[0]
    if consumer not in state.structure or not consumer.reduce_axes:
        return []
    body = inline_body(consumer, state.inlined)
    accesses = [r for r in reads(body) if r.tensor.op is op]
    forms = [linear(i) for r in accesses for i in r.indices]
    if not all(f is not None and all(c > 0 for c in f.coefficients.values()) for f in forms):
        return []
    root = state.step(f"compute {op.name} at root", structure=state.structure | {op: ELEMENTWISE})
    inline = state.step(f"inline {op.name}", inlined=state.inlined | {op})
    levels = (1, 2) if state.structure[consumer] == MULTI_LEVEL else ()
    at = [
        state.step(
            f"compute {op.name} at {consumer.name} level {level}",
            attached=state.attached | {op: (consumer, level)},
        )
        for level in levels
        if len(accesses) == 1 and in_range(accesses[0])
    ]
    return [root, *at, inline]


def in_range(read: Read) -> bool:
    """Whether a read at increasing linear indices stays within its tensor at every point.

    A guarded read may not, and then there is no region of the producer to compute ahead of it.
    """
    for index, size in zip(read.indices, read.tensor.shape, strict=True):
        form = linear(index)
        if form is None or form.const < 0:
            return False
        if form.const + sum(c * (a.extent - 1) for a, c in form.coefficients.items()) >= size:
            return False
    return True


def skip(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Leave the stage as its own simple nest."""
    if op in state.fused:
        return [state]
    structure = REDUCTION if op.reduce_axes else ELEMENTWISE
    return [state.step(f"loop {op.name}", structure=state.structure | {op: structure})]


CPU_RULES: tuple[tuple[Rule, bool], ...] = (
    (always_inline, False),
    (tile_with_fusion, False),
    (add_cache_write, True),
    (multi_level_tiling, False),
    (place_producer, False),
    (skip, False),
)
"""Rules in order; True marks a rule after which the later ones are tried as well (branching)."""


def derive(
    facts: AccessAnalysis, rules: tuple[tuple[Rule, bool], ...] = CPU_RULES
) -> list[tuple[tuple[Block, ...], State]]:
    """All sketches of a DAG: their blocks in execution order and the final state."""
    states = [State()]
    for op in reversed(facts.dag.compute_ops):
        successors: list[State] = []
        for state in states:
            for rule, branch in rules:
                found = rule(facts, state, op)
                successors += found
                if found and not branch:
                    break
        states = successors
    return [(blocks_of(facts, s), s) for s in states]


def blocks_of(facts: AccessAnalysis, state: State) -> tuple[Block, ...]:
    """Root nests of a finished state, in an order that respects data flow."""
    epilogue_of = {anchor: consumer for consumer, anchor in state.fused.items()}
    blocks = []
    for op in facts.dag.compute_ops:
        anchor = state.fused.get(op, op)
        if op in state.inlined or op in state.attached or anchor not in state.structure:
            continue
        if op is anchor and op in epilogue_of:
            continue
        epilogue = epilogue_of.get(anchor)
        blocks.append(
            Block(
                op=anchor,
                body=inline_body(anchor, state.inlined),
                structure=state.structure[anchor],
                epilogue=epilogue,
                epilogue_body=inline_body(epilogue, state.inlined) if epilogue else None,
                accumulate=state.accumulate.get(anchor, "output"),
                attached=tuple(
                    Attached(p, inline_body(p, state.inlined), level)
                    for p, (consumer, level) in state.attached.items()
                    if consumer is anchor
                ),
            )
        )
    return tuple(blocks)
