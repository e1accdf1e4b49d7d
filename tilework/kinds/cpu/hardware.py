"""CPUs for people and reports: `tilework.target.hardware.Hardware`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tilework.kinds.cpu.calibrate.bandwidth import Bandwidth, level_of, read_bandwidth, read_level
from tilework.kinds.cpu.calibrate.core_to_core import core_to_core_ns
from tilework.kinds.cpu.calibrate.peak import fma_peak_gflops
from tilework.kinds.cpu.calibrate.throughput import measure_parameters
from tilework.kinds.cpu.calibrate.wakes import wake_helpers
from tilework.kinds.cpu.identity import look_again
from tilework.kinds.cpu.instructions import instructions_of
from tilework.kinds.cpu.machine import Machine
from tilework.kinds.cpu.parameters import Parameters, default_path, measured, save
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.team import counts_during
from tilework.model.drafted import forget_choices
from tilework.overriding import override
from tilework.space.instructions import Instruction
from tilework.target.hardware import Hardware, Reach
from tilework.target.host import others_since_now
from tilework.target.identity import identity_of

_TOLD = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bf16", "avx512vnni", "avxvnni",
         "amx-tile", "amx-int8", "neon", "sve", "dotprod", "fullfp16", "bf16", "i8mm")  # fmt: skip
"""Features that people ask for."""
_BUSY = 0.1
"""Share of the cores that others may take while the machine is measured."""


class CpuHardware(Hardware):
    """Cores, caches and memory of this machine, measured with generated code."""

    def describe(self, target: CpuTarget) -> dict[str, str]:
        """Its name in records, registers, features, caches, a core's peak, its threads."""
        facts = {
            "in records": identity_of(target).id,
            "vector registers": f"{target.num_vector_registers} of {target.vector_bits} bits",
            "features": " ".join(f for f in _TOLD if f in target.features),
            "caches": f"L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB, "
            f"L3 {target.l3_bytes >> 10} KiB",
            "FMA peak, 1 thread": f"{fma_peak_gflops(target):.0f} GFLOPS, measured now",
            "products of 8 bits": products_of_bytes(target),
        }
        if target.num_cores > 1:
            facts["helpers after pauses"] = wake_helpers(target)
        return facts

    def calibrate(self, target: CpuTarget, again: bool) -> dict[str, str]:
        """Throughputs in cycles, as `Machine` has them, and where they are kept.

        Beside other work they are too low, the cost of threads far too high, and choices would
        follow them for good: they are then kept only if somebody asked for them, by ``again``.
        """
        path, busy = str(default_path()), ""
        if again:
            look_again()
        if again or measured(target) is None:
            others = others_since_now()
            fresh = measure_parameters(target)
            if (share := others()) > _BUSY:
                busy = f"other work took {share:.0%} of the cores meanwhile"
            if busy and not again:
                path = f"not kept: {busy}; typical numbers are used (--measure keeps its own)"
            else:
                path = _kept(target, fresh)
        machine, parameters = Machine.of(target), measured(target)
        return {
            "clock": f"{machine.clock_hz * 1e-9:.2f} GHz",
            "per cycle": f"{machine.fma_ports:.2f} vector multiply-adds, {machine.load_ports:.2f} "
            f"vector loads, {machine.broadcast_ports:.2f} broadcasts",
            "multiply-add latency": f"{machine.latency:.1f} cycles",
            "bytes per cycle": f"L2 {machine.l2_rate:.0f}, L3 {machine.l3_rate:.0f}, memory "
            f"{machine.memory_rate:.1f}, each of {machine.cores} threads",
            "starting threads": f"{machine.fork_cycles:.0f} cycles",
            "measured": parameters.measured_at + (f", {busy}" if busy else "")
            if parameters
            else "never",
            "kept in": path,
        }

    def sizes(self, target: CpuTarget) -> dict[str, Any]:
        """Bytes of the caches, by level."""
        caches = {"l1": target.l1_bytes, "l2": target.l2_bytes, "l3": target.l3_bytes}
        return {"caches_bytes": caches}

    def figures(self, target: CpuTarget) -> dict[str, Any]:
        """Peaks of the target's threads and, with several, the way between cores.

        ``fma_peak_gflops`` is in GFLOP/s, ``read_gb_per_s`` by level of memory.
        """
        threads = target.num_cores
        figures: dict[str, Any] = {
            "threads": threads,
            "fma_peak_gflops": fma_peak_gflops(target, threads=threads),
            "read_gb_per_s": asdict(read_bandwidth(target, threads)),
        }
        if threads > 1:
            figures["core_to_core_ns"] = core_to_core_ns()
        return figures

    def helpers_during(self, work: Callable[[], object]) -> str:
        """See `tilework.kinds.cpu.team.Counts`."""
        counts = counts_during(work)
        return str(counts) if counts.shared else ""

    @override
    def in_one_line(self, figures: Mapping[str, Any]) -> str:
        read = Bandwidth(**figures["read_gb_per_s"])
        text = (
            f"FMA peak {figures['fma_peak_gflops']:.0f} GFLOP/s; reads L1 {read.l1:.0f}, L2 "
            f"{read.l2:.0f}, L3 {read.l3:.0f}, DRAM {read.dram:.0f} GB/s"
        )
        if figures.get("core_to_core_ns"):
            text += f"; core to core {figures['core_to_core_ns']:.0f} ns"
        return text

    def reach(self, target: CpuTarget, nbytes: int, precision: str = "f32") -> Reach:
        """See `tilework.target.hardware.Hardware`; the peak is that of float32."""
        threads = target.num_cores
        peak = fma_peak_gflops(target, threads=threads)
        level = level_of(nbytes, target, threads)
        return Reach(peak, read_level(level, target, threads, repeats=3))


def products_of_bytes(target: CpuTarget) -> str:
    """What multiplies bytes by bytes, and its peak over that of float32, as the draft counts."""
    rows = [
        i
        for i in instructions_of(target.features)
        if (i.left, i.right, i.result) == ("uint8", "int8", "int32")
    ]
    if not rows:
        return "plain multiplications of int32: floats are faster"
    vectors = target.lanes() * Machine.of(target).fma_ports

    def peak(i: Instruction) -> float:
        of_unit = i.rows * i.columns / vectors if i.rows > 1 else 1.0
        return i.terms / i.cost * of_unit

    bounded = [i for i in rows if i.pairs]
    plain = next(i for i in rows if not i.pairs and i.rows == 1)
    parts = [f"{plain.name}, {peak(plain):.2g} times the float32 peak"]
    if plain.needs == "sse2":
        narrow = max(bounded, key=peak, default=None)
        parts += (
            [f"{narrow.name} of weights of 7 and 4 bits, {peak(narrow):.2g}"] if narrow else []
        )
    parts += [f"{i.name} of many rows, {peak(i):.2g}" for i in rows if i.rows > 1]
    return "; ".join(parts)


def _kept(target: CpuTarget, fresh: Parameters) -> str:
    """Keep what was measured; where, or why not."""
    try:
        where = save(target, fresh)
    except OSError as error:
        return f"cannot be written: {default_path()} ({error}); typical numbers are used"
    forget_choices()
    return str(where)


HARDWARE = CpuHardware()
