"""The standard backend tests of the `onnx` package, run through `tilework.backend`.

`tests.backend.exclusions` lists what is left out and why. Such a test must end in a clear refusal
where all is to be ours: one that passes, fails here, and so does one that crashes or computes
something else. Where ONNX Runtime may run the rest, it must pass if that passes it.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.backend.cases import (
    cases,
    excluded,
    included,
    passes_elsewhere,
    pool,
    refused,
    run,
    their_pool,
)
from tests.backend.exclusions import EXCLUDED, FAILING, OTHERWISE
from tilework.errors import TileworkError


@pytest.fixture(autouse=True)
def _models_folder(tmp_path, monkeypatch):
    """The package keeps data of its own under this folder."""
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))


@pytest.mark.parametrize("name", included())
def test_onnx(name: str) -> None:
    run(name, strict=True)


@pytest.mark.parametrize("name", FAILING)
def test_known_failure(name: str) -> None:
    """It still fails as it is said to: by the values, and by little."""
    with pytest.raises(AssertionError, match="Not equal to tolerance") as e:
        run(name, strict=True)
    (worst,) = re.findall(r"Max relative difference among violations: ([\d.e-]+)", str(e.value))
    assert float(worst) < 2 * 2**-10


@pytest.mark.parametrize("name", sorted(n for names in OTHERWISE.values() for n in names))
def test_other_result(name: str) -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        run(name, strict=True)


@pytest.mark.parametrize("name", sorted(excluded()))
def test_excluded(name: str) -> None:
    message = refused(name)
    assert message and "\n" not in message


def test_what_is_left_to_onnx_runtime() -> None:
    """Of the excluded tests, those that it passes pass here; the others end in our own errors.

    One test, because most take a millisecond.
    """
    wrong: dict[str, str] = {}
    for name in sorted(excluded()):
        must_pass = passes_elsewhere(name)
        try:
            run(name)
        except TileworkError as e:
            if must_pass or "\n" in str(e):
                wrong[name] = str(e)
        except Exception as e:  # values that ONNX Runtime computes in another way
            if must_pass:
                wrong[name] = f"{type(e).__name__}: {e}"
    assert not wrong


def test_exclusions_match() -> None:
    """Every pattern of the list stands for a test, and no test has two reasons."""
    reasons: dict[str, str] = {}
    for reason, patterns in EXCLUDED.items():
        for pattern in patterns:
            found = [n for n in cases() if re.fullmatch(pattern, n)]
            assert found, f"no test matches {pattern!r} ({reason})"
            for name in found:
                assert reasons.setdefault(name, reason) == reason, f"{name}: also {reason}"


@pytest.mark.parametrize("kind", ["AVG", "LPPOOL", "MAX"])
def test_pooling_is_that_of_the_package(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 8), dtype=np.float32)
    given = (x, x.shape, (3, 2), (2, 1), (4, 7), kind)
    ours, theirs = pool(*given, p=3), their_pool(*given, p=3)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
