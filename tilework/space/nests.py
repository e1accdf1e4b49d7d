"""From the plans of a finished state to its root nests, with what each is capable of."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tilework.space.blocks import Attached, Block, inline_body
from tilework.space.levels import Levels
from tilework.space.plan import Fused, Root
from tilework.space.state import State
from tilework.te.expr import Expr
from tilework.te.tensor import Compute

Capability = Callable[[Block], Block]
"""``capability(block)``: the block with what it is capable of, or as it was."""


def blocks_of(state: State, capabilities: tuple[Capability, ...]) -> tuple[Block, ...]:
    """Root nests of a finished state, in an order that respects data flow."""
    blocks = []
    for op in state.facts.dag.compute_ops:
        place = state.plans[op].place
        if isinstance(place, Fused):
            blocks.append(_block(state, place.anchor, op, capabilities))
        elif isinstance(place, Root) and op not in state.epilogues:
            blocks.append(_block(state, op, None, capabilities))
    return tuple(blocks)


def _block(
    state: State, anchor: Compute, epilogue: Compute | None, capabilities: tuple[Capability, ...]
) -> Block:
    plan = state.plans[anchor]
    assert plan.levels is not None
    body = inline_body(anchor, state.inlined)
    finish = inline_body(epilogue, state.inlined) if epilogue else None
    attached = _attached(state, anchor, capabilities)
    kept = (capabilities, plan.sums, attached, plan.write_depth)
    return _nest(anchor, body, plan.levels, epilogue, finish, *kept)


@lru_cache(maxsize=2048)
def _nest(
    op: Compute,
    body: Expr,
    levels: Levels,
    epilogue: Compute | None,
    finish: Expr | None,
    capabilities: tuple[Capability, ...],
    sums: str = "output",
    attached: tuple[Attached, ...] = (),
    write_depth: int = 0,
) -> Block:
    """The block of these parts: one for all sketches, and targets, that have it."""
    names = op.attrs.get("const_axes", ())
    block = Block(
        op=op,
        body=body,
        levels=levels,
        epilogue=epilogue,
        epilogue_body=finish,
        sums=sums,
        attached=attached,
        write_depth=write_depth,
        const_axes=frozenset(a for a in (*op.axes, *op.reduce_axes) if a.name in names),
    )
    for capability in capabilities:
        block = capability(block)
    return block


def _attached(
    state: State, anchor: Compute, capabilities: tuple[Capability, ...]
) -> tuple[Attached, ...]:
    """Producers computed inside the anchor's nest, each after those that it reads."""
    reduction_of = {done: op for op, done in state.epilogues.items()}
    out: dict[Compute, Attached] = {}
    for op, at in state.attached.items():
        # The reader is the anchor, an attached op, or the reduction that an attached op finishes.
        outer = state.epilogues.get(at.reader, at.reader)
        if at.reader is not anchor and outer not in out:
            continue
        reduction = reduction_of.get(op, op)
        block = None
        if reduction.reduce_axes:
            done = op if reduction is not op else None
            sums = inline_body(reduction, state.inlined)
            finish = inline_body(done, state.inlined) if done else None
            levels = state.tiling.reduction
            block = _nest(reduction, sums, levels, done, finish, capabilities)
        body = inline_body(op, state.inlined)
        reader = None if at.reader is anchor else out[outer]
        out[op] = Attached(op, body, at.depth, block, reader)
    return tuple(reversed(out.values()))
