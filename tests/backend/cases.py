"""The standard tests of the `onnx` package, by name, and which of them are excluded."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock

import numpy as np
import pytest
from onnx.backend.test.case import base
from onnx.reference.ops import op_pool_common

from tests.backend.exclusions import EXCLUDED, FAILING, OTHERWISE
from tilework.errors import TileworkError

Case = Callable[[object], None]
their_pool = op_pool_common.pool
_OPTIONS: dict[str, object] = {}
"""What the backend is asked for while a test runs: the package does not pass options on."""


@cache
def cases() -> dict[str, Case]:
    """Every test that the package has for a CPU: a function of an unused argument."""
    from onnx.backend.test import BackendTest

    from tilework.backend import TileworkBackend

    class _Backend(TileworkBackend):
        """Takes the tolerance that the package hands to the backend, too."""

        @classmethod
        def prepare(cls, model, device="CPU", rtol=None, **kwargs):
            return super().prepare(model, device, **_OPTIONS, **kwargs)

    with quickly():
        classes = BackendTest(_Backend, __name__).test_cases
    return {
        name.removeprefix("test_").removesuffix("_cpu"): test
        for group in classes.values()
        for name, test in vars(group).items()
        if name.startswith("test_") and name.endswith("_cpu")
    }


@contextmanager
def quickly() -> Iterator[None]:
    """While the package makes its tests, which each process of a run of tests lets it do."""
    with (
        mock.patch.object(op_pool_common, "pool", pool),
        mock.patch.object(base, "process_snippet", lambda *_: ("", "")),  # of its documentation
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # it overflows on purpose where it makes its data
        yield


def pool(padded, x_shape, kernel, strides, out_shape, pooling_type, *rest, p=1, **more):
    """`op_pool_common.pool`, by arrays where windows are dense and nothing is padded.

    Half of the time in which the package makes the data of its tests would go by in theirs.
    """
    if rest or more or pooling_type not in ("AVG", "LPPOOL", "MAX"):
        return their_pool(
            padded, x_shape, kernel, strides, out_shape, pooling_type, *rest, p=p, **more
        )
    axes = tuple(range(2, padded.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axes)
    windows = windows[(..., *(slice(None, None, s) for s in strides), *map(slice, kernel))]
    last = tuple(range(padded.ndim, windows.ndim))
    if pooling_type == "AVG":
        return windows.mean(axis=last)
    if pooling_type == "MAX":
        return windows.max(axis=last)
    return (np.abs(windows) ** p).sum(axis=last) ** np.asarray(1 / p, padded.dtype)


@cache
def excluded() -> dict[str, str]:
    """Reason for each excluded test."""
    return {
        name: reason
        for reason, patterns in EXCLUDED.items()
        for pattern in patterns
        for name in cases()
        if re.fullmatch(pattern, name)
    }


def included() -> list[str]:
    """Names of the tests that must pass."""
    others = (name for names in OTHERWISE.values() for name in names)
    return sorted(set(cases()) - set(excluded()) - set(FAILING) - set(others))


@cache
def other_cases() -> dict[str, Case]:
    """The same tests for ONNX Runtime alone."""
    import onnxruntime as ort
    from onnx.backend.base import Backend, BackendRep
    from onnx.backend.test import BackendTest

    class _Rep(BackendRep):
        def __init__(self, model):
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            self._session = ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )

        def run(self, inputs, **_):
            names = [i.name for i in self._session.get_inputs()]
            return self._session.run(None, dict(zip(names, inputs, strict=False)))

    class _Other(Backend):
        @classmethod
        def prepare(cls, model, device="CPU", **_):
            return _Rep(model)

        @classmethod
        def supports_device(cls, device):
            return device == "CPU"

    with quickly():
        classes = BackendTest(_Other, __name__).test_cases
    return {
        name.removeprefix("test_").removesuffix("_cpu"): test
        for group in classes.values()
        for name, test in vars(group).items()
        if name.startswith("test_") and name.endswith("_cpu")
    }


def passes_elsewhere(name: str) -> bool:
    """Whether ONNX Runtime passes a test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            other_cases()[name](None)
        except Exception:
            return False
    return True


def run(name: str, **options: object) -> None:
    """Run a test of the package.

    Args:
        name: of the test.
        options: of `tilework.backend.prepare`, such as a target.

    Raises:
        Exception: whatever the backend raises, or AssertionError for a wrong output.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _OPTIONS.update(options)
        try:
            cases()[name](None)
        finally:
            _OPTIONS.clear()


def refused(name: str) -> str:
    """The error that an excluded test ends with; it must be one of Tilework's own."""
    try:
        run(name, strict=True)
    except TileworkError as e:
        return str(e)
    pytest.fail(f"'{name}' passes: take it off the list of excluded tests")
