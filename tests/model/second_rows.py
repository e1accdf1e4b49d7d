"""Compiles whose kernels have a second row wherever one may hand over to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tilework.model import second
from tilework.model.drafted import forget_choices


@contextmanager
def everywhere() -> Iterator[None]:
    """It pays as if two rows were twice as fast; choices that are kept do not count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second, "PAYS", 0.5)
        patch.setenv("TILEWORK_CACHE", "off")
        forget_choices()
        yield
    forget_choices()
