"""The analytic draft model of CPUs: predicted seconds from hardware parameters alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.kinds.cpu.machine import DESCRIBING, Machine
from tilework.kinds.cpu.target import CpuTarget
from tilework.model.draft import Draft
from tilework.overriding import override
from tilework.space.slabs import on_one_core
from tilework.target import Target

if TYPE_CHECKING:
    from tilework.kinds.cpu.features.matrix import SketchCost
    from tilework.space.decision import Rows
    from tilework.space.sketch import Sketch

# What costs are made of is imported by the first of them: a start whose choices are kept asks for
# the machine alone.


@frozen
class CpuDraft(Draft):
    """`tilework.model.draft.Draft` for CPUs.

    Each nest costs the slower of its instructions (multiply-add ports, load ports, latency,
    register spills, loop overhead) and its traffic into L1, L2 and L3, plus a quarter of what the
    slower hides, shared by the threads that its parallel loops can occupy.
    """

    @property
    @override
    def names(self) -> tuple[str, ...]:
        from tilework.kinds.cpu.features.matrix import FEATURE_NAMES

        return FEATURE_NAMES

    @override
    def machine(self, target: Target) -> dict[str, float]:
        machine = Machine.of(CpuTarget.of(target))
        numbers = {name: float(getattr(machine, name)) for name in DESCRIBING}
        peak = 2.0 * machine.fma_ports * machine.lanes * machine.clock_hz * machine.cores
        return {**numbers, "threads": float(machine.cores), "flops_per_s": peak}

    def features(self, sketch: Sketch, rows: Rows) -> NDArray[np.float32]:
        """Feature matrix (P, S, F): one row per candidate and block."""
        from tilework.kinds.cpu.features.matrix import feature_matrix

        return feature_matrix(self._cost(sketch, rows))

    def seconds(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        """Predicted run time of every row in seconds: the sum over the sketch's nests."""
        cost = self._cost(sketch, rows)
        seconds = np.asarray(np.add.reduce(cost.seconds, axis=0))
        if _widens(sketch):
            from tilework.kinds.cpu.features.cost import memory_seconds

            hidden = 1.0 - self._machine(sketch).not_hidden
            for part, block in zip(cost.parts, cost.blocks, strict=True):
                seconds = seconds + hidden * part.of_all(memory_seconds(block))
        return seconds

    @override
    def block_seconds(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        return np.stack(self._cost(sketch, rows).seconds, axis=1)

    @override
    def least(self, sketch: Sketch, closely: bool = False, alone: bool = False) -> float:
        from tilework.kinds.cpu.features.least import least_seconds
        from tilework.kinds.cpu.features.slabs import least_of_slabs

        machine = self._machine(sketch)
        if alone:
            machine = replace(machine, cores=1)
        least = sum(least_seconds(block, machine, closely) for block in sketch.blocks)
        return least if sketch.slabs is None else least_of_slabs(least, sketch, machine)

    @override
    def lengths(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        cost = self._cost(sketch, rows)
        each = zip(cost.parts, cost.blocks, strict=True)
        return np.asarray(np.sum([part.of_all(block.length) for part, block in each], axis=0))

    def _cost(self, sketch: Sketch, rows: Rows) -> SketchCost:
        from tilework.kinds.cpu.features.matrix import SketchCost

        return SketchCost.of(sketch, rows, self._machine(sketch))

    def _machine(self, sketch: Sketch) -> Machine:
        """The machine that blocks of a sketch have."""
        machine = Machine.of(CpuTarget.of(on_one_core(sketch.target, sketch.slabs)))
        return machine if sketch.slabs is None else replace(machine, again=True)


def _widens(sketch: Sketch) -> bool:
    """Whether a variant multiplies float32 where the direct form multiplies pairs of bfloat16.

    Its weights are four to eight times as large: 9 MB of a layer of ResNet-50. Products did not
    hide them where they came from memory: 1.2 to 1.4 ms instead of 0.82, the direct form 0.96.
    """
    return bool(sketch.transforms) and any(t.dtype == "bfloat16" for t in sketch.dag.inputs)


DRAFT = CpuDraft()
