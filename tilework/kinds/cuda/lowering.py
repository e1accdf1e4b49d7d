"""Schedules for GPUs as loop programs: `tilework.lower.protocol.Lowering`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilework.errors import ScheduleError
from tilework.index.extents import known_shape
from tilework.index.strides import Strides
from tilework.kinds.cuda.lower.across import lower_across
from tilework.kinds.cuda.lower.direct import lower_direct, lower_points, lower_transform
from tilework.kinds.cuda.lower.mma import lower_mma, mma_packings
from tilework.kinds.cuda.lower.ragged import lower_ragged
from tilework.kinds.cuda.lower.rows import lower_rows
from tilework.kinds.cuda.lower.tiled import lower_tiled
from tilework.kinds.cuda.target import CudaTarget
from tilework.kinds.cuda.tiling import Form, form_of
from tilework.lower.arguments import arguments, nests_of, weights
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Program, Region
from tilework.lower.protocol import Lowered, Lowering
from tilework.overriding import override
from tilework.space.nest import BlockNest
from tilework.space.packings import Packed
from tilework.space.sketch import Sketch
from tilework.te.tensor import Operation

_LOWERINGS: dict[Form, Callable[[LoweringContext, BlockNest], Region]] = {
    "across": lower_across,
    "direct": lower_direct,
    "ragged": lower_ragged,
    "mma": lower_mma,
    "points": lower_points,
    "rows": lower_rows,
    "transform": lower_transform,
}


class CudaLowering(Lowering):
    """A kernel launch for each block of a sketch; results between them are in global memory."""

    @override
    def lower(
        self,
        sketch: Sketch,
        row: Sequence[int],
        strides: Mapping[int, Strides] | None = None,
    ) -> Lowered:
        nests = nests_of(sketch, row)
        packed: dict[Operation, Packed] = {}
        for block in sketch.blocks:
            packed |= mma_packings(block) if form_of(block) == "mma" else {}
        ctx = LoweringContext(arguments(sketch, packed, {}, strides or {}), packed)
        for op in (b.result for b in sketch.blocks):
            if op not in ctx.buffers:
                ctx.buffers[op] = ctx.temporary(op.name, known_shape(op.shape), op.dtype, "global")
        target = CudaTarget.of(sketch.target)
        regions = tuple(_region(ctx, nest, target) for nest in nests)
        inputs = tuple(ctx.buffers[t.op] for t in sketch.dag.inputs)
        outputs = tuple(ctx.buffers[t.op] for t in sketch.dag.outputs)
        program = Program(inputs, outputs, tuple(ctx.temporaries), regions)
        return Lowered(program, weights(sketch, packed))


def _region(ctx: LoweringContext, nest: BlockNest, target: CudaTarget) -> Region:
    form = form_of(nest.block)
    if form == "tiled":
        return lower_tiled(ctx, nest, asynchronous=target.limits.async_copy)
    if form not in _LOWERINGS:
        raise ScheduleError(f"{nest.block.op.name}: no code is made for the form {form!r}")
    return _LOWERINGS[form](ctx, nest)


LOWERING = CudaLowering()
