"""The conformance suite on the interpreter of loop programs."""

from __future__ import annotations

from tests.conformance.suite import KindConformance


class TestReference(KindConformance):
    target = "reference -num-cores=2"
    deterministic = True
