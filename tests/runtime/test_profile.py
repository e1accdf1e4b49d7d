"""Profiles, rooflines, and why a network takes longer than its tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.test_history import record
from tests.hosts import x86
from tilework import Target, extract_tasks
from tilework import compile as compile_network
from tilework.compiler import choose_schedule
from tilework.kinds.cpu.calibrate.bandwidth import Bandwidth
from tilework.kinds.cpu.roofline import CpuRoofline
from tilework.record import MemoryHistory
from tilework.runtime import explain_gap
from tilework.runtime.gap import Gap, KernelGap, _why

TARGET = Target(x86("core-avx2", 1))
ROOF = CpuRoofline(TARGET, 1, 100.0, Bandwidth(400, 100, 50, 20))


def test_a_profile_names_kernels_and_what_the_machine_allows(mlp_module):
    rows = mlp_module.profile(repeat=3)
    assert [r.symbol for r in rows] == [s.symbol for s in mlp_module.image.steps]
    assert all(0 < r.roofline < 2 for r in rows)
    roof = mlp_module.roofline()
    assert roof is mlp_module.roofline() and roof.peak_gflops > 0


def test_steps_know_their_constants_and_tasks(mlp_module):
    steps = mlp_module.image.steps
    assert steps[0].constant_bytes == 4 * (784 * 128 + 128)
    assert steps[-1].constant_bytes == 0
    assert [mlp_module.report[s.task].desc for s in steps] == [s.desc for s in steps]


def test_the_roofline_is_the_longer_of_arithmetic_and_traffic(mlp_module):
    step = mlp_module.image.steps[0]
    image = replace(mlp_module.image, arena_bytes=TARGET.l3_bytes)
    busy = replace(step, flops=1e9, nbytes=3 << 20, constant_bytes=2 << 20)
    assert ROOF.seconds(busy, image) == pytest.approx(1e9 / 100e9)
    still = replace(busy, flops=1)
    in_l2, from_memory = (1 << 20) / 100e9, (2 << 20) / 20e9
    assert ROOF.seconds(still, image) == pytest.approx(in_l2 + from_memory)
    assert ROOF.warm_constants_s(still) == pytest.approx((2 << 20) / 50e9)


def tuned(mlp, target, seconds):
    tasks, _ = extract_tasks(mlp, target)
    rows = []
    for task in tasks:
        choice = choose_schedule(task)
        rows.append(record(task, choice.row, seconds, sketch=choice.sketch_id))
    return compile_network(mlp, target, records=MemoryHistory(rows))


def test_a_gap_is_put_down_to_kernels(mlp, target):
    module = tuned(mlp, target, 1e-9)  # records no machine keeps
    gap = explain_gap(module, 5e-2, threads=1)
    assert gap.large and len(gap.rows) == 4
    assert gap.tasks_ms == pytest.approx(4e-6)
    assert gap.rows[0].extra_ms == max(r.extra_ms for r in gap.rows)
    assert all("slower than on record" in r.why or "cache" in r.why for r in gap.rows)
    first, *others = gap.lines()
    assert "above the sum of the tasks" in first
    assert any(gap.rows[0].desc in line for line in others)


def test_records_slower_than_the_network_make_no_gap(mlp, target):
    gap = explain_gap(tuned(mlp, target, 1.0), 5e-2, threads=1)
    assert not gap.large and gap.gap_ms < 0
    assert all(r.why == "as recorded" for r in gap.rows)
    assert gap.lines() == ["end to end 50.00 us is 100% below the sum of the tasks, 4.000 s"]


def test_without_records_there_is_nothing_to_compare(mlp_module):
    assert explain_gap(mlp_module) is None


@pytest.mark.parametrize(
    "change, recorded, alone, network, why",
    [
        ({}, 1.0, 1.0, 1.01, "as recorded"),
        ({}, 1.0, 1.5, 1.6, "slower than on record when run alone"),
        ({}, 1.0, 1.0, 1.2, r"weights \(8.0 MiB\) come from memory"),
        ({"constant_bytes": 0}, 1.0, 1.0, 1.2, "inputs lie in another cache"),
        ({}, None, 1.0, 1.0, "no record"),
        ({"task": None}, None, 1.0, 1.0, "not tuned"),
    ],
)
def test_causes(mlp_module, change, recorded, alone, network, why):
    import re

    step = replace(mlp_module.image.steps[0], nbytes=8 << 20, constant_bytes=8 << 20)
    image = replace(mlp_module.image, arena_bytes=2 * TARGET.l3_bytes)
    found = _why(replace(step, **change), image, ROOF, recorded, alone, network)
    assert re.search(why, found)


def test_the_rest_of_a_gap_is_named_too():
    rows = (KernelGap("conv", 2, 1.0, 1.0, 1.5, "cold"), KernelGap("pool", 1, 1.0, 1.0, 1.0, ""))
    first = Gap(4.0, 2.0, rows, "seq = 16").lines()[0]
    assert first.startswith("end to end 4.000 ms at seq = 16 is 100% above")
    assert Gap(4.0, 2.0, rows).lines() == [
        "end to end 4.000 ms is 100% above the sum of the tasks, 2.000 ms",
        "+0.500 ms conv x2: cold",
        "+1.500 ms all other kernels, and the way between them",
    ]
