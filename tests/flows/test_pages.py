"""No page contradicts itself: what was disturbed is told, and which of two times to go by."""

from __future__ import annotations

import pytest

from flows.shell.pages import summary_page
from tasks.report import Loss, Progress, Standing, Timing, TuneReport
from tilework.search.report import TaskRow


def progress_of(total_ms, latency_ms=1.0, disturbed=(), note=""):
    row = TaskRow(0, "conv", 1, latency_ms, 100.0, 64, 2.0, note)
    return Progress(
        "llvm -mcpu=znver4", (row,), 3, 64, 9.0, total_ms * 1e-3, 64, None, finals=1,
        disturbed=disturbed,
    )  # fmt: skip


def page(total_ms, network_ms=1.273, disturbed=(), latency_ms=1.0, note="", first=None, **more):
    progress = progress_of(total_ms, latency_ms, disturbed, note)
    timings = [Timing(ms, ms, ms, ms, 0.0) for ms in (2.0, network_ms)]
    standing = Standing(*timings, network_ms / 2.0)
    words = ("run", "net", progress.target, "records", "")
    report = TuneReport(*words, progress, standing=standing, **more)
    return summary_page(report, "tune net", first)


def test_a_sum_far_above_the_networks_own_time_says_which_to_go_by():
    doubted = "1.46 times the network's own time"
    assert doubted in page(1.855)
    assert "own time" not in page(1.3)
    assert "own time" not in page(1.855, latency_ms=None), "drafts of tasks were not measured"


def test_finals_that_were_disturbed_are_told_and_no_drift_is_denied():
    calm = page(1.2)
    assert "none: the machine kept its speed" in calm
    assert "far from" not in calm
    told = page(1.2, disturbed=((0, 1.58),))
    assert "1 of 1 tasks; far from their own earlier records (task 0 1.6x)" in told
    assert "the machine kept its speed" not in told


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_both_ways_of_being_off_are_told(ratio):
    assert f"task 0 {ratio:.1f}x" in page(1.2, disturbed=((0, ratio),))


def test_a_page_says_what_the_terminal_says_of_what_is_left_and_lost():
    found = page(1.2, note="it is slow", left="2 nodes: NMS", loss=Loss(0.1, 0.01, 8, 0, 0))
    assert "\n- 2 nodes: NMS\n" in found and "\n- 8 bits against float32" in found
    assert found.endswith("64 |\n\n- no more trials for task 0: it is slow")


def test_a_run_is_compared_with_its_start_where_all_tasks_were_measured_then():
    assert "| 4.000 ms at the start: -50 % |" in page(2.0, first=progress_of(4.0))
    assert "at the start" not in page(2.0, first=progress_of(0.8, latency_ms=None))
