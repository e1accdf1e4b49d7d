"""The analytic model of the interpreter: `tilework.model.draft.Draft`. It counts as the clock."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.kinds.reference.clock import REGION_S, STEP_S
from tilework.lower.interpret import LANES
from tilework.model.draft import Draft
from tilework.overriding import override
from tilework.space.decision import Rows
from tilework.space.nest import BlockNest
from tilework.space.sketch import Sketch
from tilework.target import Target

_NAMES = ("stores", "iterations", "width", "parallel", "share", "block", "total")


@frozen
class Counts:
    """What a nest makes the interpreter do, each an array over P rows.

    Attributes:
        stores: of the innermost loop, each of up to `LANES` elements.
        iterations: of all serial loops.
        width: elements of a vector.
        parallel: iterations of the parallel loop.
        share: of the work that the longest thread does.
    """

    stores: NDArray[np.float64]
    iterations: NDArray[np.float64]
    width: NDArray[np.float64]
    parallel: NDArray[np.float64]
    share: NDArray[np.float64]

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Predicted time."""
        return REGION_S + STEP_S * self.share * (self.stores + self.iterations)


def count(nest: BlockNest, threads: int) -> Counts:
    """Walk the loops of a block, outermost first."""
    block = nest.block
    ones = np.ones(nest.count)
    trips, iterations, parallel, width = ones, 0 * ones, ones, ones
    innermost = (block.spatial[-1], block.spatial_levels - 1) if block.spatial else None
    fused = {axis: i for i, axis in enumerate(block.parallel_axes)}
    for axis, level in block.loops:
        extent = nest.tiles[axis][level].astype(np.float64)
        if (axis, level) == innermost:
            width = extent
            continue
        trips = trips * extent
        shared = (nest.parallel > fused[axis]) if level == 0 and axis in fused else 0 * ones > 0
        parallel = parallel * np.where(shared, extent, 1)
        iterations = iterations + np.where(shared, 0, trips)
    stores = trips * np.ceil(width / LANES)
    share = np.ceil(parallel / threads) / parallel
    return Counts(stores, iterations, width, parallel, share)


@frozen
class ReferenceDraft(Draft):
    """Features are logarithms of the counts, and of the time that they give."""

    names: ClassVar[tuple[str, ...]] = _NAMES

    @override
    def machine(self, target: Target) -> dict[str, float]:
        return {"step_s": STEP_S, "region_s": REGION_S, "threads": float(target.num_cores)}

    @override
    def features(self, sketch: Sketch, rows: Rows) -> NDArray[np.float32]:
        blocks = self._counts(sketch, rows)
        seconds = [c.seconds for c in blocks]
        total = np.sum(seconds, axis=0)
        out = np.empty((len(rows), len(blocks), len(_NAMES)), np.float32)
        for s, c in enumerate(blocks):
            counts = [c.stores, c.iterations, c.width, c.parallel, c.share]
            times = [seconds[s] * 1e9, total * 1e9]
            out[:, s, :] = np.log2(1 + np.stack([*counts, *times], axis=-1))
        return out

    @override
    def seconds(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        counts = self._counts(sketch, rows)
        return np.asarray(np.sum([c.seconds for c in counts], axis=0))

    @override
    def block_seconds(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        return np.stack([c.seconds for c in self._counts(sketch, rows)], axis=1)

    def _counts(self, sketch: Sketch, rows: Rows) -> list[Counts]:
        return [count(nest, sketch.target.num_cores) for nest in sketch.nests(rows)]


DRAFT = ReferenceDraft()
