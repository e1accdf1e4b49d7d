"""What a GPU reaches, beside what the analytic model takes for it.

    python benchmarks/gpu/machine.py [--json machine.json]

Clock under load, float32 multiply-adds, reads from shared memory, from the second-level cache and
from the device's memory, copies, and what a launch costs, one by one and within a graph. A minute.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import numpy as np
from _common import Timer, arguments, begin, finish, machine_code, memory, open_driver
from _probes import CHAINS, EMPTY, THREADS, copies, multiply_adds, reads, shared_reads

from tilework.kinds.cuda.features.constants import CONSTANTS

DRY = "cuda -model=a100 -run=emulated"


class Probe:
    """A loaded kernel of `_probes`, ready to be launched."""

    def __init__(self, timer: Timer, target: Any, entry: str, text: str) -> None:
        self.timer = timer
        self._code = timer.driver.load({entry: machine_code(target, entry, text)})
        self._function = self._code.function(entry)

    def seconds(
        self, grid: int, block: int, pointers: list[int], launches: int, samples: int
    ) -> float:
        """Median time of a launch within a graph."""
        return self.timer.seconds(self.launch(grid, block, pointers), launches, samples)

    def launch(self, grid: int, block: int, pointers: list[int]) -> Any:
        """A launch that lacks its stream."""
        driver = self.timer.driver
        return partial(driver.launch, self._function, grid, block, 0, pointers)


def measure(target: Any, dry: bool) -> dict[str, float]:
    """Every figure by its name; see `print_figures` for the units."""
    driver = open_driver(target)
    facts = driver.facts()
    timer = Timer(driver)
    sms, samples = (2, 1) if dry else (facts.sms, 11)
    wave = sms if dry else sms * target.limits.threads_per_sm // THREADS  # all blocks resident
    small, large = 1 << 12, 1 << 13
    if not dry:
        small, large = facts.l2_bytes // 4, max(1 << 30, 8 * facts.l2_bytes)
    found: dict[str, float] = {"sms": facts.sms}
    with contextlib.ExitStack() as held:
        one, two, three = (held.enter_context(memory(driver, n)) for n in (large, large, 8 * wave))
        numbers = np.random.default_rng(0).random(min(large, 1 << 26) // 4).astype(np.float32)
        for at in range(0, large, numbers.nbytes):  # no zeros: they cost less energy, and lie
            driver.memory.write(one + at, numbers[: (large - at) // 4], timer.stream)

        steps, grid = 4 if dry else 4096, wave
        probe = Probe(timer, target, "multiply_adds", multiply_adds(steps, grid))
        took = probe.seconds(grid, THREADS, [one, two, three], 1, samples)
        cycles = np.empty(grid, np.int64)
        driver.memory.read(cycles, three, timer.stream)
        found["fma_tflops"] = 2e-12 * CHAINS * steps * THREADS * grid / took
        # All blocks begin at once, but the older ones of an SM are served first: the last to end
        # has the kernel's cycles.
        found["ghz"] = float(cycles.max()) / took * 1e-9

        probe = Probe(timer, target, "shared_reads", shared_reads(steps, grid))
        took = probe.seconds(grid, THREADS, [one, two], 1, samples)
        found["shared_tb_per_s"] = 16e-12 * steps * THREADS * grid / took

        turns = 1 if dry else 16
        probe = Probe(timer, target, "reads", reads(small // 4, turns, grid))
        took = probe.seconds(grid, THREADS, [one, two], 1, samples)
        found["l2_tb_per_s"] = 1e-12 * small * turns / took

        probe = Probe(timer, target, "reads", reads(large // 4, 1, grid))
        took = probe.seconds(grid, THREADS, [one, two], 1, samples)
        found["dram_read_tb_per_s"] = 1e-12 * large / took
        probe = Probe(timer, target, "copies", copies(large // 4, grid))
        took = probe.seconds(grid, THREADS, [one, two], 1, samples)
        found["dram_copy_tb_per_s"] = 2e-12 * large / took

        many = 4 if dry else 256
        probe = Probe(timer, target, "empty", EMPTY)
        found["graph_gap_us"] = 1e6 * probe.seconds(1, 32, [two], many, samples)
        launch = probe.launch(1, 32, [two])
        found["launch_us"] = 1e6 * timer.without_graph(launch, many, samples)
    return found


def expected(target: Any) -> dict[str, float]:
    """What the analytic model takes for the same figures, where it takes anything."""
    model, limits = target.device, target.limits
    l2 = model.l2_bytes_per_clock * CONSTANTS.l2_efficiency
    dram = model.dram_bytes_per_s * CONSTANTS.dram_efficiency
    return {
        "sms": model.sms,
        "ghz": model.ghz,
        "fma_tflops": 2e-3 * model.sms * limits.fp32_lanes * model.ghz,
        "shared_tb_per_s": 128e-3 * model.sms * model.ghz,
        "l2_tb_per_s": 1e-3 * model.sms * l2 * model.ghz,
        "dram_read_tb_per_s": 1e-12 * dram,
        "dram_copy_tb_per_s": 1e-12 * dram,
    }


def print_figures(found: dict[str, float], model: dict[str, float]) -> None:
    """A row for each: measured, what the analytic model takes for it, their ratio."""
    print("| figure | measured | model | ratio |\n|---|---|---|---|")
    for name, value in found.items():
        known = model.get(name)
        cells = ("", "") if known is None else (f"{known:.4g}", f"{value / known:.3f}")
        print(f"| {name} | {value:.4g} | {cells[0]} | {cells[1]} |")


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__).parse_args()
    target = begin(args.target, args.dry_run, DRY)
    found = measure(target, args.dry_run or target.run != "device")
    model = expected(target)
    print_figures(found, model)
    finish(args.json, target, {"measured": found, "model": model})


if __name__ == "__main__":
    main()
