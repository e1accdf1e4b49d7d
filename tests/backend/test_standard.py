"""The standard backend tests of the `onnx` package, run through `tilework.backend`.

`tests.backend.exclusions` lists what is left out and why. Such a test must end in a clear refusal:
one that passes, fails here, and so does one that crashes or computes something else.
"""

from __future__ import annotations

import re

import pytest

from tests.backend.cases import cases, excluded, included, refused, run
from tests.backend.exclusions import EXCLUDED, FAILING


@pytest.fixture(autouse=True)
def _models_folder(tmp_path, monkeypatch):
    """The package keeps data of its own under this folder."""
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))


@pytest.mark.parametrize("name", included())
def test_onnx(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", FAILING)
def test_known_failure(name: str) -> None:
    """It still fails as it is said to: by the values, and by little."""
    with pytest.raises(AssertionError, match="Not equal to tolerance") as e:
        run(name)
    (worst,) = re.findall(r"Max relative difference among violations: ([\d.e-]+)", str(e.value))
    assert float(worst) < 2 * 2**-10


@pytest.mark.parametrize("name", sorted(excluded()))
def test_excluded(name: str) -> None:
    message = refused(name)
    assert message and "\n" not in message


def test_exclusions_match() -> None:
    """Every pattern of the list stands for a test, and no test has two reasons."""
    reasons: dict[str, str] = {}
    for reason, patterns in EXCLUDED.items():
        for pattern in patterns:
            found = [n for n in cases() if re.fullmatch(pattern, n)]
            assert found, f"no test matches {pattern!r} ({reason})"
            for name in found:
                assert reasons.setdefault(name, reason) == reason, f"{name}: also {reason}"
