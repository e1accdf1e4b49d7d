"""What is true of the CPU as a device and of no other kind's; the rest is conformance."""

from __future__ import annotations

import time

from tilework.kinds.cpu.device import DEVICE


def test_calibration_is_a_short_fixed_piece_of_work():
    start = time.process_time()  # not the wall's: others may have the core
    found = DEVICE.calibration_s()
    assert time.process_time() - start < 1
    assert found > 1e-5
