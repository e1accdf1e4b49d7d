"""Seconds of a kernel, term by term: counts against what a device does in a cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from tilework.frozen import frozen
from tilework.kinds.cuda.architectures import WARP, resident_blocks
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.demand import expected_registers
from tilework.kinds.cuda.features.lanes import Floats
from tilework.kinds.cuda.features.traffic import memory_bytes
from tilework.kinds.cuda.target import CudaTarget
from tilework.space.nest import BlockNest
from tilework.te.tensor import Operation

BUSY = ("multiply_adds", "tensor", "shared", "l1", "l2", "issue")
"""What an SM may be busy with."""
_ONE_UNIT = ("shared", "l1")
"""Shared memory and the first-level cache are one memory with one path to the registers."""
TERMS = (*BUSY, "latency", "dram", "launch")
"""What a kernel may wait for; all but ``launch`` overlap."""
_SCHEDULERS = 4.0


@frozen(eq=False)
class KernelCounts:
    """A kernel's numbers that depend on how many blocks an SM holds, for P rows.

    Attributes:
        registers: of a thread.
        spills: registers that did not fit.
        resident: blocks that an SM holds at once; 0 where not even one fits.
        waves: rounds in which all blocks run.
        busiest: blocks that the busiest SM runs.
        dram_bytes: between the second-level cache and memory.
        parts: seconds of each of `TERMS`; a kernel that does not fit is never launched.
    """

    registers: Floats
    spills: Floats
    resident: Floats
    waves: Floats
    busiest: Floats
    dram_bytes: Floats
    parts: Mapping[str, Floats]


def kernel_of(
    nest: BlockNest,
    counts: Counts,
    target: CudaTarget,
    outputs: Collection[Operation],
    constants: Constants,
    registers: Floats | None = None,
    spills: Floats | None = None,
) -> KernelCounts:
    """The terms of a block's kernel.

    Args:
        nest: the rows.
        counts: what the kernel does.
        target: the device.
        outputs: stages whose tensors are the program's results.
        constants: of the model.
        registers: of a thread, where they are known; those that counting expects otherwise.
        spills: registers that did not fit, where they are known.
    """
    limits, device, g = target.limits, target.device, counts.geometry
    if registers is None:
        registers, expected = expected_registers(nest, counts, limits)
        spills = expected if spills is None else spills
    spills = np.zeros(nest.count) if spills is None else spills
    resident = resident_blocks(limits, registers.astype(np.int64), g.threads, g.shared) * 1.0
    held = np.maximum(resident, 1.0)
    per_sm = np.ceil(g.grid / device.sms)
    held = np.minimum(held, per_sm)
    full = np.floor(g.grid / (device.sms * held))
    left = g.grid - full * device.sms * held
    waves = full + (left > 0)
    busiest = full * held + np.ceil(left / device.sms)
    at_once = np.minimum(held * device.sms, g.grid)
    moved = memory_bytes(nest, at_once, outputs, device, constants)
    cycles = _cycles(counts, target, constants, spills)
    alone = np.maximum.reduce([v for k, v in cycles.items() if k != "latency"])
    clock = device.ghz * 1e9
    parts = {name: busiest * cycles[name] / clock for name in cycles if name != "latency"}
    parts["latency"] = waves * (cycles["latency"] + alone) / clock
    parts["dram"] = moved / (device.dram_bytes_per_s * constants.dram_efficiency)
    parts["launch"] = np.full(nest.count, constants.launch_seconds)
    parts["launch"][resident == 0] = np.inf
    return KernelCounts(registers, spills, resident, waves, busiest, moved, parts)


def combined(parts: Mapping[str, Floats], constants: Constants) -> Floats:
    """Seconds of a kernel.

    What keeps an SM busy takes as long as the slowest part and a share of the others. That,
    latencies and memory hide each other but where they are about as long.
    """
    busy = {name: parts[name] for name in BUSY if name not in _ONE_UNIT}
    busy["shared"] = parts["shared"] + parts["l1"]
    share = {name: constants.not_hidden for name in busy} | {"l2": constants.l2_not_hidden}
    slowest = np.maximum.reduce(list(busy.values()))
    added = np.sum([share[name] * np.minimum(t, slowest) for name, t in busy.items()], axis=0)
    throughput = slowest + added - constants.not_hidden * slowest
    sides = [throughput, parts["latency"], parts["dram"]]
    longest = np.maximum.reduce(sides)
    unit = np.maximum(longest, 1e-30)
    total = np.sum([(side / unit) ** constants.sharpness for side in sides], axis=0)
    return np.asarray(longest * total ** (1 / constants.sharpness) + parts["launch"])


def _cycles(
    counts: Counts, target: CudaTarget, constants: Constants, spills: Floats
) -> dict[str, Floats]:
    """Cycles of an SM for one block, by what does the work."""
    lanes, device = target.limits.fp32_lanes, target.device
    warps = counts.warps
    calls = counts.calls * constants.call_instructions
    float_work = counts.multiply_adds + calls
    spilled = spills * counts.rounds * constants.spill_instructions
    instructions = (
        float_work + counts.instructions + counts.lds + counts.sts + counts.ldg + counts.stg
        + counts.hmma + spilled
    )  # fmt: skip
    l1 = counts.l1_cycles + spilled * warps * WARP * 4.0 / constants.l1_bytes
    per_clock = device.l2_bytes_per_clock * constants.l2_efficiency
    return {
        "multiply_adds": float_work * warps * WARP / lanes,
        "tensor": counts.tensor * warps / device.tensor_lanes,
        "shared": counts.shared_wavefronts,
        "l1": l1,
        "l2": counts.l2_bytes / per_clock,
        "issue": instructions * warps / _SCHEDULERS,
        "latency": counts.chain,
    }
