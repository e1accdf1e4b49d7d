"""How candidates are built, verified and timed."""

from __future__ import annotations

from tilework.frozen import frozen


@frozen
class Settings:
    """Options of a `Measurer`, which takes each of them by its name. Devices have own defaults.

    Attributes:
        build_processes: None: the cores; with `overlap`, those that the device leaves.
        build_factor: candidates that a search builds for each one that it measures, to replace
            those whose code is worse than their schedule (`tilework.lower.kernel.Kernel`).
        build_timeout_s: limit for building one candidate, in seconds.
        run_timeout_s: limit for verifying and timing one, in seconds.
        reference_timeout_s: limit for computing a task's reference output.
        min_repeat_ms: a sample repeats the kernel until it lasts about this long.
        repeats: samples taken of a contender, as far as `time_budget_ms` allows; half as many more
            of what looks like the new best. Others end early: `tilework.runtime.sequential`.
        short_look: samples of a candidate that is not given up, even if time is over.
        final_rounds: samples of each finalist.
        time_budget_ms: no further sample of a candidate is begun after this long.
        cold_cache: empty the caches before every sample; a sample is then a single call.
        rotate_bytes: large constant weights are timed in as many copies as fill this many bytes,
            one after another, so that they come from memory as they do in a network whose other
            weights pass through the caches in between; 0 times one copy.
        verify: compare outputs with those of the task's reference; off for devices that compute
            nothing.
        overlap: build while measuring; None: if two cores stay free of the kernel.
        seed: of the random inputs.
        builder: "module:attribute" of a `tilework.lower.protocol.Builder` to use instead of the
            one of the target's kind; empty for that.
        device: the same, of a `tilework.measure.device.Device`.
    """

    build_processes: int | None = None
    build_factor: int = 1
    build_timeout_s: float = 15.0
    run_timeout_s: float = 10.0
    reference_timeout_s: float = 120.0
    min_repeat_ms: float = 1.0
    repeats: int = 12
    short_look: int = 3
    final_rounds: int = 25
    time_budget_ms: float = 30.0
    cold_cache: bool = False
    rotate_bytes: int = 96 << 20
    verify: bool = True
    overlap: bool | None = None
    seed: int = 0
    builder: str = ""
    device: str = ""
