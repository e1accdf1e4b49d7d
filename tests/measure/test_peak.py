"""The measured multiply-add peak."""

from __future__ import annotations

from tilework.kinds.cpu.calibrate.peak import fma_peak_gflops
from tilework.target import Target


def test_the_peak_is_that_of_a_core_of_this_century():
    assert 1.0 < fma_peak_gflops(repeats=5) < 2000.0


def test_wider_vectors_are_not_slower():
    native = Target()
    if native.vector_bits > 256:
        narrow = Target(f"llvm -mcpu={native.mcpu} -mattr=-avx512f")
        assert narrow.vector_bits == 256
        assert fma_peak_gflops(native) > 0.7 * fma_peak_gflops(narrow)
