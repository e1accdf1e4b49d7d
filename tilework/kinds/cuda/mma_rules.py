"""The rule of sketch derivation for tensor cores."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilework.errors import ScheduleError
from tilework.kinds.cuda.mma.product import Product, product_of
from tilework.kinds.cuda.split import in_parts
from tilework.kinds.cuda.tiling import MMA, POINTS
from tilework.space.blocks import Block, inline_body
from tilework.space.plan import Root, StagePlan
from tilework.space.rules import (
    by_constants,
    elementwise_consumer,
    finished_reduction,
    has_limits,
)
from tilework.space.state import Branch, State
from tilework.space.tables import divisors
from tilework.te.analysis import AccessAnalysis
from tilework.te.expr import Axis, Const, IfThenElse, Read, reads
from tilework.te.rewrite import replaced
from tilework.te.tensor import Compute, make_compute

_LEAST_POINTS = 8
"""Of m and n: with fewer, most of an instruction's results are thrown away."""
_LEAST_TERMS = 16
_TILE = 64 * 64
"""Points of a block of usual size."""
_PART_TERMS = 128
"""Of each part of a sum that is split, at least."""
_MOST_PARTS = 32


def tensor_cores(facts: AccessAnalysis, state: State, op: Compute) -> list[State]:
    """Also: products of bfloat16, float16 or tf32 numbers on tensor cores.

    Those of few points are offered in parts of their sum as well, as many as fill the device once
    or twice; a second kernel adds the parts in order. Padding is where copies bring zeros; what
    else is computed from an operand beforehand has a kernel of its own.
    """
    plain = bool(op.reduce_axes) and not has_limits(op) and not by_constants(op)
    if not plain or op in state.prepared or not state.target.limits.mma:  # type: ignore[attr-defined]
        return []
    multiplied = _multiplied(facts, state, op)
    if multiplied is None:
        return []
    prepared, product = multiplied
    consumer = elementwise_consumer(facts, prepared, op)
    text = f"tensor cores for {op.name}" + (f" with {consumer.name}" if consumer else "")
    whole = prepared.tile(op, MMA, text, consumer=consumer, sums="tile")
    return Branch([whole, *_in_parts(state, op, product)])


def _multiplied(facts: AccessAnalysis, state: State, op: Compute) -> tuple[State, Product] | None:
    """The state in which the operands are in memory, and their product; None if it is none."""
    for read in list(dict.fromkeys(reads(op.body))):
        producer = read.tensor.op
        while isinstance(producer, Compute) and not state.decided(producer):
            if producer.reduce_axes or facts.is_output(producer):
                break
            moved = _moved(producer)
            if moved is None:
                if finished_reduction(facts, producer) is None:
                    state = state.tile(producer, POINTS, f"points of {producer.name}")
                break
            state = state.inline(producer)
            producer = moved.tensor.op
    block = Block(op, inline_body(op, state.inlined), MMA)
    try:
        product = product_of(block)
    except ScheduleError:
        return None
    weight = product.b.read.tensor.op
    if product.b.constant and facts.readers[weight] != (op,):
        return None
    _, m, n, k = product.extents
    return (state, product) if min(m, n) >= _LEAST_POINTS and k >= _LEAST_TERMS else None


def _moved(op: Compute) -> Read | None:
    """The element that a stage of padding or of another order takes; None for other stages."""
    body = op.body
    if isinstance(body, IfThenElse) and isinstance(body.b, Const) and body.b.value == 0:
        body = body.a
    return body if isinstance(body, Read) else None


def _in_parts(state: State, op: Compute, product: Product) -> Iterator[State]:
    """States in which parts of the sum are computed by blocks of their own."""
    batch, m, n, k = product.extents
    wanted = state.target.device.sms  # type: ignore[attr-defined]
    blocks = batch * max(m * n / _TILE, 1.0)
    most = min(_MOST_PARTS, k // _PART_TERMS)
    if state.form or blocks >= wanted or most < 2:
        return
    axis = max(op.reduce_axes, key=lambda a: a.typical)
    fit = [d for d in divisors(axis.points) if 2 <= d <= most and _whole(axis, d, product)]
    if not fit:
        return
    near = (min(fit, key=lambda d: abs(math.log(d * blocks / (wanted * s)))) for s in (0.5, 1, 2))
    for parts in dict.fromkeys(near):
        new, partial = _split(state, op, axis, parts)
        multiplied = _multiplied(new.facts, new, partial)
        if multiplied is not None:
            plans = {partial: StagePlan(Root(), MMA, sums="tile")}
            yield multiplied[0].step(f"tensor cores for {partial.name}", plans)


def _whole(axis: Axis, parts: int, product: Product) -> bool:
    """Whether parts of an axis of k hold whole pieces."""
    along = product.a.axis is axis or product.b.axis is axis
    return not along or axis.points // parts % product.piece == 0


def _split(state: State, op: Compute, axis: Axis, parts: int) -> tuple[State, Compute]:
    """Partial sums and their sum, both to be decided; weights may still be packed."""
    new, partial = in_parts(state, op, axis, parts)
    plans = {o: plan for o, plan in new.plans.items() if o is not partial}
    free = {k: v for k, v in op.attrs.items() if k == "layout_free"}
    kept = make_compute(partial.name, partial.axes, partial.body, free)
    dag, moved = replaced(new.facts.dag, {partial: kept})
    state = State(
        new.facts, new.target, new.tiling, plans, new.prepared, new.form, new.transforms, new.steps
    ).moved(AccessAnalysis(dag), moved)
    return state, kept
