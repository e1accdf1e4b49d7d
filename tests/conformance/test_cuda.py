"""The conformance suite on an emulated GPU, which takes a while, and on a real one."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.conformance.suite import KindConformance


@pytest.mark.cuda_full
class TestEmulated(KindConformance):
    target = "cuda -model=a100 -run=emulated"
    settings: ClassVar = {"repeats": 1, "time_budget_ms": 1.0, "final_rounds": 1}
    host_memory = False


@pytest.mark.gpu
class TestDevice(KindConformance):
    target = "cuda"
    settings: ClassVar = {"repeats": 3, "time_budget_ms": 5.0, "final_rounds": 3}
    host_memory = False
