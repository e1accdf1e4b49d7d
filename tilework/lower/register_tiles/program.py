"""Lowering: one sketch and one decision row become a loop program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.index.strides import Strides
from tilework.lower.arguments import arguments, nests_of, weights
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Program, Region, Stmt
from tilework.lower.protocol import Lowered, Lowering
from tilework.lower.register_tiles.elementwise import lower_elementwise
from tilework.lower.register_tiles.reduction import lower_reduction
from tilework.lower.register_tiles.rows import written_rows
from tilework.lower.register_tiles.scatter import lower_scatter
from tilework.lower.register_tiles.slabs import over_slabs
from tilework.lower.register_tiles.transform import lower_transform, scattered_ops
from tilework.lower.tactics import NEUTRAL, Tactics
from tilework.overriding import override
from tilework.space.blocks import Block
from tilework.space.levels import Levels, Role
from tilework.space.nest import BlockNest
from tilework.space.packings import Packed, packings
from tilework.space.sketch import Sketch
from tilework.te.expr import Axis, Expr, Read, reads
from tilework.te.tensor import Operation, Placeholder

Form = Literal["transform", "scatter", "reduction", "elementwise"]

_LOWERINGS: dict[Form, Callable[[LoweringContext, BlockNest], tuple[tuple[Axis, ...], Stmt]]] = {
    "transform": lower_transform,
    "scatter": lower_scatter,
    "reduction": lower_reduction,
    "elementwise": lower_elementwise,
}
"""By form of a block: what makes the parallel variables and the body of its region."""


def lower(
    sketch: Sketch,
    row: Sequence[int],
    strides: Mapping[int, Strides] | None = None,
    tactics: Tactics = NEUTRAL,
) -> Lowered:
    """Lower one schedule.

    Args:
        sketch, row: the schedule.
        strides: of arguments that are not dense, in elements, by position: the inputs first,
            then the outputs.
        tactics: what the machine does about memory in every program.

    Raises:
        ScheduleError: the row does not fit the sketch or breaks a limit of the target, or a stage
            has levels that no code here is made for.
    """
    written = written_rows(sketch.dag, strides or {})
    if written is not None:
        return Lowered(written, {})
    nests = nests_of(sketch, row)
    for nest in nests:
        _check_levels(nest.block)
    packed: dict[Operation, Packed] = {}
    streamed: dict[Operation, int | Expr] = {}
    for nest in nests:
        own = packings(sketch.blocks, nest)
        packed |= own
        streamed |= {op: tactics.streamed(sketch.target, nest, op, p) for op, p in own.items()}
        streamed |= {r.tensor.op: tactics.ahead(nest, r) for r in _computed(nest.block)}
    buffers = arguments(sketch, packed, streamed, {} if sketch.slabs else strides or {})
    ctx = LoweringContext(buffers, packed, tactics, lanes=tactics.masked_lanes(sketch.target))
    scattered = scattered_ops(sketch.blocks)
    for op in (b.result for b in sketch.blocks):
        if op not in ctx.buffers:
            shape = tactics.spread(op.shape, op.dtype) if op in scattered else op.shape
            ctx.buffers[op] = ctx.temporary(op.name, shape, op.dtype, "global")
    regions = []
    for nest in nests:
        parallel, body = _LOWERINGS[_form(nest.block)](ctx, nest)
        regions.append(Region(nest.block.result.name, parallel, body))
    inputs = tuple(ctx.buffers[t.op] for t in sketch.dag.inputs)
    outputs = tuple(ctx.buffers[t.op] for t in sketch.dag.outputs)
    program = Program(inputs, outputs, tuple(ctx.temporaries), tuple(regions))
    if sketch.slabs is not None:
        program = over_slabs(program, sketch.slabs, strides or {})
    return Lowered(program, weights(sketch, packed))


def _computed(block: Block) -> list[Read]:
    """The factors of a product of which none is a weight, where they are arguments."""
    factors = list(reads(block.source)) if block.reduce else []
    if len(factors) < 2 or "layout_free" in block.op.attrs:
        return []
    return [read for read in factors if isinstance(read.tensor.op, Placeholder)]


@frozen
class TileLowering(Lowering):
    """Tiles in registers, vectors along the last axis, threads over the outermost loops."""

    tactics: Tactics

    @override
    def lower(
        self,
        sketch: Sketch,
        row: Sequence[int],
        strides: Mapping[int, Strides] | None = None,
    ) -> Lowered:
        return lower(sketch, row, strides, self.tactics)


def lowerable(levels: Levels, form: Form) -> bool:
    """Whether code is made for a stage that is tiled so.

    Its outermost level may be parallel, its innermost reduce level is the *inner* one, directly
    around the register tile. A reduction may have one more reduce level; other stages have one
    spatial level around their tile, and where terms are scattered the loop over them.
    """
    roles = [level.role for level in levels.items]
    *outer, tile = roles
    around = outer[1:] if outer[:1] == [Role.parallel] else outer
    if form == "scatter":
        around = around[:-1] if around == [Role.serial] else [Role.inner]
    elif form != "elementwise":
        if around[-1:] != [Role.inner]:
            return False
        around = around[:-1]
    if tile is not Role.vector or any(role is not Role.serial for role in around):
        return False
    return levels.reduce <= 2 if form == "reduction" else levels.spatial == 2


def _check_levels(block: Block) -> None:
    if not lowerable(block.levels, _form(block)):
        roles = ", ".join(f"{level.kind} {level.role}" for level in block.levels.items)
        raise ScheduleError(
            f"{block.op.name}: no code is made for a stage with the levels {roles}; its kind of "
            "machine needs a lowering of its own"
        )


def _form(block: Block) -> Form:
    """What kind of code computes a block."""
    if block.transform is not None:
        return "transform"
    if block.scatter is not None:
        return "scatter"
    return "reduction" if block.reduce else "elementwise"
