"""The conformance suite on this machine's CPU."""

from __future__ import annotations

from typing import ClassVar

from tests.conformance.suite import KindConformance


class TestLlvm(KindConformance):
    target = "llvm -mcpu=native -num-cores=2"
    settings: ClassVar = {
        "min_repeat_ms": 0.05,
        "repeats": 3,
        "time_budget_ms": 2.0,
        "final_rounds": 3,
    }
