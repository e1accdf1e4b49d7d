"""The analytic draft model of GPUs: predicted seconds from numbers of the device alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.kinds.cuda.features.constants import CONSTANTS
from tilework.kinds.cuda.features.lanes import Floats
from tilework.kinds.cuda.features.matrix import FEATURE_NAMES, feature_matrix
from tilework.kinds.cuda.features.population import costs
from tilework.kinds.cuda.features.terms import TERMS, combined
from tilework.kinds.cuda.target import CudaTarget
from tilework.model.draft import Draft
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch
from tilework.target import Target


@frozen(eq=False)
class Terms:
    """Predicted seconds of P rows, by what their S kernels wait for.

    Attributes:
        parts: by name (`TERMS`), P x S.
    """

    parts: Mapping[str, Floats]

    def kernels(self, factors: Mapping[str, float] | None = None) -> Floats:
        """Seconds of each kernel, P x S; each term is multiplied by its factor, 1 by default."""
        scaled = {n: p * (factors or {}).get(n, 1.0) for n, p in self.parts.items()}
        return combined(scaled, CONSTANTS)

    def total(self, factors: Mapping[str, float] | None = None) -> Floats:
        """Seconds of each row: its kernels run one after another."""
        return np.asarray(self.kernels(factors).sum(axis=1))

    def bound(self) -> list[list[str]]:
        """The slowest term of each row's kernels, by name."""
        names = [n for n in TERMS if n != "launch"]
        slowest = np.argmax(np.stack([self.parts[n] for n in names]), axis=0)
        return [[names[i] for i in row] for row in slowest]


def terms(
    sketch: Sketch, rows: Rows, registers: Floats | None = None, spills: Floats | None = None
) -> Terms:
    """Predicted seconds term by term.

    Args:
        sketch: whose kernels.
        rows: P rows.
        registers: of a thread of each kernel (P x S), where they are known from its cubin.
        spills: registers of a thread that did not fit (P x S), where they are known.
    """
    by_row = costs(sketch, rows, registers, spills)
    parts: dict[str, Floats] = {}
    for name in TERMS:
        pieces = [np.stack([c.kernel.parts[name] for c in some], axis=1) for some in by_row]
        parts[name] = np.concatenate(pieces)
    return Terms(parts)


@frozen
class CudaDraft(Draft):
    """`tilework.model.draft.Draft` for GPUs.

    A kernel takes as long as the slowest of: multiply-adds, wavefronts of shared memory, the
    first-level and the second-level cache, instructions to issue, latencies that the resident
    warps do not hide, and memory; plus a share of the others, plus a constant for its launch.
    """

    names: ClassVar[tuple[str, ...]] = FEATURE_NAMES

    def machine(self, target: Target) -> dict[str, float]:
        """The device's numbers; see `tilework.model.draft.Draft`.

        Beside these a one for each term, which models that are on record have as columns.
        """
        where = CudaTarget.of(target)
        device, limits = where.device, where.limits
        return {
            "sms": float(device.sms),
            "clock_hz": device.ghz * 1e9,
            "dram_bytes_per_s": device.dram_bytes_per_s,
            "l2_bytes": float(device.l2_bytes),
            "l2_bytes_per_clock": device.l2_bytes_per_clock,
            "tensor_lanes": device.tensor_lanes,
            "fp32_lanes": float(limits.fp32_lanes),
            "threads_per_sm": float(limits.threads_per_sm),
            "blocks_per_sm": float(limits.blocks_per_sm),
            "shared_per_sm": float(limits.shared_per_sm),
            "flops_per_s": 2.0 * device.sms * limits.fp32_lanes * device.ghz * 1e9,
            **{f"factor_{name}": 1.0 for name in TERMS},
        }

    def features(self, sketch: Sketch, rows: Rows) -> NDArray[np.float32]:
        """Feature matrix (P, S, F): one row per candidate and kernel."""
        return np.concatenate([feature_matrix(some) for some in costs(sketch, rows)])

    def seconds(
        self, sketch: Sketch, rows: Rows, registers: Floats | None = None
    ) -> NDArray[np.float64]:
        """Predicted run time of every row in seconds: the sum over the sketch's kernels."""
        each = costs(sketch, rows, registers)
        return np.concatenate([np.sum([c.seconds for c in some], axis=0) for some in each])

    def block_seconds(self, sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
        """See `tilework.model.draft.Draft`: of each kernel."""
        each = costs(sketch, rows)
        return np.concatenate([np.stack([c.seconds for c in some], axis=1) for some in each])


DRAFT = CudaDraft()
