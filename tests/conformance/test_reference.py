"""The conformance suite on the interpreter of loop programs."""

from __future__ import annotations

from tests.conformance.suite import CountedConformance


class TestReference(CountedConformance):
    target = "reference -num-cores=2"
