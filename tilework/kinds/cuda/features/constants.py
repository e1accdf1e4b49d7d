"""Numbers of the draft model that no data sheet has.

Fitted on an H200 to 2,494 programs of ResNet-18 (f32, bf16), MobileNet and four matrix products:
random ones (as `benchmarks/gpu/rank_correlation.py` measures them) and those that the model liked
best. What hardly mattered there is as documents have it.
"""

from __future__ import annotations

from tilework.frozen import frozen


@frozen
class Constants:
    """Latencies in cycles, throughputs a cycle of one multiprocessor (SM), instructions a thread.

    Attributes:
        not_hidden: share of what an SM does beside its slowest work that adds to its time.
        l2_not_hidden: the same of its traffic with the second-level cache, whose load makes
            every fetch later.
        sharpness: exponent of the norm that joins work, latencies and memory: how well they hide
            each other.
        launch_seconds: from the end of a kernel to the beginning of the next one.
        start: of a block, until its first instruction of use and after its last one.
        memory_latency: of a load on average, from memory or the second-level cache.
        l2_latency: of a load that the second-level cache answers.
        l1_latency: of a load that the first-level cache answers.
        shared_latency: of a load from shared memory.
        barrier: until a block's threads have met.
        multiply_add_latency: until a multiply-add's result can be used.
        shuffle_latency: of one step of a reduction across the threads of a warp.
        l1_bytes: that a load through the first-level cache delivers.
        l1_request: cycles of such a load beside its data, for the look-up of its tags.
        l1_missed: share of the repeated reads that the first-level cache does not hold any more.
        l2_efficiency: share of the second-level cache's peak that all SMs together get.
        l2_kept: share of the second-level cache that holds what a kernel reads again.
        dram_efficiency: share of the memory's peak.
        fetch_instructions: of a thread for a vector that it stages, without load and store.
        guard_instructions: for each comparison that guards a load.
        loop_instructions: of one iteration of a loop.
        address_instructions: of an element whose address is computed.
        call_instructions: of a function such as exp.
        base_registers: for addresses and counters.
        spill_instructions: loads and stores of a spilled register in one round of its loop.
    """

    not_hidden: float = 0.11
    l2_not_hidden: float = 0.24
    sharpness: float = 6.0
    launch_seconds: float = 1.0e-6
    start: float = 320.0
    memory_latency: float = 550.0
    l2_latency: float = 180.0
    l1_latency: float = 42.0
    shared_latency: float = 40.0
    barrier: float = 56.0
    multiply_add_latency: float = 6.0
    shuffle_latency: float = 9.0
    l1_bytes: float = 64.0
    l1_request: float = 0.6
    l1_missed: float = 0.24
    l2_efficiency: float = 0.4
    l2_kept: float = 0.6
    dram_efficiency: float = 0.9
    fetch_instructions: float = 24.0
    guard_instructions: float = 5.0
    loop_instructions: float = 4.0
    address_instructions: float = 3.0
    call_instructions: float = 12.0
    base_registers: float = 24.0
    spill_instructions: float = 2.0


CONSTANTS = Constants()
"""Those that predictions are made with."""
