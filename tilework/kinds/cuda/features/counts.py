"""What one kernel does, counted: the common form that all kernels are brought to."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.features.lanes import Floats
from tilework.kinds.cuda.geometry import Geometry


@dataclass(eq=False)
class Counts:
    """Work of a kernel for P rows; arrays of floats, filled form by form.

    Attributes:
        geometry: blocks and threads.
        multiply_adds: of a thread, points that overhang included.
        calls: expensive functions of a thread.
        instructions: of a thread beside multiply-adds and accesses.
        lds, sts: loads from and stores to shared memory, of a thread.
        ldg, stg: the same for memory.
        shared_wavefronts: of a block, loads and stores.
        l1_cycles: that the first-level cache is busy with a block.
        l2_bytes: between the SM and the second-level cache, of a block.
        chain: cycles that a block waits for latencies, one after the other.
        rounds: iterations of the loop in which spilled registers would be loaded again.
        registers: of a thread, as far as counting tells.
        live: registers below which some are spilled.
        fetches: iterations of the outer loop over terms.
        terms: of the reduction, in one fetch.
        barriers: of a block.
        hmma: tensor-core instructions of a warp.
        tensor: multiply-adds that they take as long as.
        extra: further descriptive numbers, for the learned model alone.
    """

    geometry: Geometry
    multiply_adds: Floats
    calls: Floats
    instructions: Floats
    lds: Floats
    sts: Floats
    ldg: Floats
    stg: Floats
    shared_wavefronts: Floats
    l1_cycles: Floats
    l2_bytes: Floats
    chain: Floats
    rounds: Floats
    registers: Floats
    live: Floats
    fetches: Floats
    terms: Floats
    barriers: Floats
    hmma: Floats
    tensor: Floats
    extra: dict[str, Floats] = field(default_factory=dict)

    @staticmethod
    def none(geometry: Geometry) -> Counts:
        """Nothing counted yet."""
        count = len(geometry.threads)
        names = [f.name for f in fields(Counts) if f.name not in ("geometry", "extra")]
        zeros: dict[str, Any] = {n: np.zeros(count) for n in names}
        return Counts(geometry, **zeros)

    @property
    def warps(self) -> Floats:
        """Warps of a block, the last one perhaps in part."""
        return np.ceil(self.geometry.threads / WARP)

    def put(self, name: str, values: Floats) -> None:
        """A further number; where several have a name, the first one stays."""
        self.extra.setdefault(name, np.asarray(values, np.float64))
