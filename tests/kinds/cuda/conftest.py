"""What tests of CUDA code need: a compiler for devices' code, and one for this machine's."""

from __future__ import annotations

import pytest

from tilework.errors import TargetError
from tilework.kinds.cuda.emulate.compile import compiler


@pytest.fixture(scope="session")
def needs_nvrtc() -> None:
    """Skip where NVRTC's wheels are missing."""
    try:
        from cupy_backends.cuda.libs import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # which one depends on what is missing
        pytest.skip(f"NVRTC is not there: {str(error).splitlines()[0]}")


@pytest.fixture(scope="session")
def needs_compiler() -> None:
    """Skip where there is no C++ compiler."""
    try:
        compiler()
    except TargetError as error:
        pytest.skip(str(error))
