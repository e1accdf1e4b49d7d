"""Networks that seem to take the same times on every machine: no run's end is left to luck.

A run's last step times the tuned network beside what it replaces: seconds, and on a busy machine a
verdict of its own. Candidates are timed for a moment, by one process that builds, and may take as
long as they need. The machine's speed at rest is a number: where processes that are busy in turns
measure another one, the machine is another device, on which a run begins anew. A run of
`tests/flows/test_resume.py` is left as it is, in processes of its own.
"""

from __future__ import annotations

import pytest

from tasks import standing
from tilework.kinds.cpu.device import DEVICE
from tilework.measure.settings import Settings
from tilework.runtime.samples import Samples

GOOD = {"untuned": 2e-3, "tuned": 1e-3, "old": 1.01e-3}

BRIEF = Settings(
    build_processes=1, build_timeout_s=300.0, run_timeout_s=300.0, min_repeat_ms=0.05, repeats=3,
    time_budget_ms=2.0, final_rounds=3, rotate_bytes=0,
)  # fmt: skip


def samples(seconds: float) -> Samples:
    """Twenty samples of about so many seconds."""
    return Samples(tuple(seconds * (1 + 0.001 * (i % 3)) for i in range(20)))


def still(patch: pytest.MonkeyPatch) -> None:
    """Let every network take the seconds of `GOOD`, and measure candidates as `BRIEF` says."""

    def timed(engines, net, seconds):
        return {name: samples(GOOD[name]) for name in engines}

    patch.setattr(standing, "time_at_points", timed)
    patch.setattr("flows.pipeline.gap_lines", lambda *_: ())
    patch.setattr(type(DEVICE), "settings", lambda _: BRIEF)
    patch.setattr("tilework.kinds.cpu.identity.calibration_at_rest", lambda *_, **__: 1e-3)


@pytest.fixture(scope="module", autouse=True)
def still_times():
    """For all tests of a folder whose conftest imports it."""
    with pytest.MonkeyPatch.context() as patch:
        still(patch)
        yield
