"""Generated code stays within its buffers: an access outside would end the child process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect and Linux page protection")
def test_no_access_leaves_a_buffer():
    command = [sys.executable, "-m", "tests.lower.guarded", "1", "40"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
