"""The numbers of a CPU that the analytic model needs, per core."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilework.frozen import frozen
from tilework.kinds.cpu.parameters import Parameters, measured
from tilework.kinds.cpu.target import CpuTarget

_TWO_PORTS = frozenset({"znver5", "skylake-avx512", "cascadelake", "cooperlake", "icelake-server",
                        "sapphirerapids", "emeraldrapids", "graniterapids"})  # fmt: skip
_MESH = _TWO_PORTS - {"znver5"} | {"icelake-client", "tigerlake", "rocketlake"}
"""Servers of Intel, and the names that virtual machines on them have."""
_SERVER_FEATURE = "avx512fp16"
"""All cores with it have two ports for 512 bits, whatever name a hypervisor gives them."""
_L3_RATE, _SLOW_RATE = 28.0, 10.0
"""Bytes per cycle: of a core's own slice and its neighbours', and over a mesh of many."""


_TURNS_LOST = 0.12


@frozen
class Machine:
    """Throughputs in elements of a clock cycle of one core, and what habits of code cost.

    Attributes:
        clock_hz: cycles per second.
        fma_ports: vector multiply-adds per cycle at full vector width.
        load_ports: loads of whole vectors per cycle.
        broadcast_ports: loads of one element into all lanes per cycle.
        latency: cycles from one multiply-add to the next that depends on it.
        ahead: instructions that a core works on before older ones are done.
        lanes: float32 elements per vector.
        registers: vector registers.
        l1_bytes, l2_bytes, l3_bytes: usable cache sizes (L3: the share of one core).
        l1_ways: lines that one of the 64 sets of L1 holds.
        l2_rate, l3_rate, memory_rate: bytes per cycle that L2, L3 and memory deliver.
        memory_cores: what memory delivers to all cores together, relative to one core.
        fork_cycles: cost of starting and joining a parallel region.
        cores: threads of a parallel region.
        not_hidden: share of the faster of instructions and traffic that does not hide behind the
            slower.
        conflict_cycles: of an element read from a set of L1 that too many lines compete for.
        stray_lines: lines that a run of neighbouring lines from beyond L2 costs more than it has:
            what is fetched ahead begins too late, and goes too far.
        guard_cycles: of a load that asks first whether it falls on padding.
        spill_loads: loads for every register that a tile needs and the machine lacks.
        finish_cycles: of an operation of an epilogue on a vector, on one multiply-add port.
        math_cycles: of an instruction of a math function, such as an exponential, on one.
        tile_cycles: of starting a register tile.
        loop_cycles: of one iteration of a loop.
        handover_rate: bytes per cycle that a core reads of lines that another has written.
        turns_lost: share of what memory takes that is lost where it delivers two streams in short
            turns.
        again: whether the same was just computed of other data: weights are where they fit.
    """

    clock_hz: float = 3.8e9
    fma_ports: float = 2.0
    load_ports: float = 2.0
    broadcast_ports: float = 2.0
    latency: float = 4.0
    ahead: float = 192.0
    lanes: int = 16
    registers: int = 32
    l1_bytes: float = 32 << 10
    l1_ways: int = 8
    l2_bytes: float = 1 << 20
    l3_bytes: float = 16 << 20
    l2_rate: float = 48.0
    l3_rate: float = _L3_RATE
    memory_rate: float = 7.0
    memory_cores: float = 1.6
    fork_cycles: float = 8000.0
    cores: int = 1
    not_hidden: float = 0.25
    conflict_cycles: float = 0.6
    stray_lines: float = 1.0
    guard_cycles: float = 1.9
    spill_loads: float = 2.0
    finish_cycles: float = 1.2
    math_cycles: float = 0.7
    tile_cycles: float = 4.0
    loop_cycles: float = 1.0
    handover_rate: float = 1.0
    turns_lost: float = 0.0
    again: bool = False

    @staticmethod
    def of(target: CpuTarget) -> Machine:
        """What `tilework doctor` measured here for the target's CPU, or typical numbers.

        Cache sizes, lanes and registers are the target's own.
        """
        return _machine(target, measured(target))


def has_mesh(target: CpuTarget) -> bool:
    """Whether L3 and memory lie behind a mesh of many cores, and so farther away."""
    return target.mcpu in _MESH


@lru_cache(maxsize=64)
def _machine(target: CpuTarget, figures: Parameters | None) -> Machine:
    wide = target.vector_bits == 512
    halved = wide and target.mcpu not in _TWO_PORTS and _SERVER_FEATURE not in target.features
    base = Machine(
        fma_ports=1.0 if halved else 2.0,
        load_ports=1.0 if halved else 2.0,
        l2_rate=32.0 if halved else 48.0,
        l3_rate=_SLOW_RATE if has_mesh(target) else _L3_RATE,
        lanes=target.lanes(),
        registers=target.num_vector_registers,
        l1_bytes=0.8 * target.l1_bytes,
        l1_ways=max(target.l1_bytes // (64 * 64), 1),
        l2_bytes=0.8 * target.l2_bytes,
        l3_bytes=0.8 * target.l3_bytes / target.num_cores,
        cores=target.num_cores,
        turns_lost=_TURNS_LOST if target.mcpu == "znver4" else 0.0,
    )
    if figures is None:
        return base
    shared = figures.shared(target.num_cores)
    return replace(
        base,
        clock_hz=figures.clock_hz,
        fma_ports=figures.fma_ports,
        load_ports=figures.load_ports,
        broadcast_ports=figures.broadcast_ports,
        latency=figures.latency,
        l2_rate=figures.l2_rate,
        l3_rate=shared.l3_rate,
        memory_rate=shared.memory_rate,
        fork_cycles=shared.fork_cycles,
    )


DESCRIBING: tuple[str, ...] = (
    "clock_hz", "fma_ports", "load_ports", "broadcast_ports", "latency", "lanes", "registers",
    "l1_bytes", "l2_bytes", "l3_bytes", "l2_rate", "l3_rate", "memory_rate", "memory_cores",
    "fork_cycles",
)  # fmt: skip
"""Numbers that tell one machine from another, besides its threads."""
