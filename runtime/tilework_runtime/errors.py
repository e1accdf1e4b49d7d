"""The one error of this package."""

from __future__ import annotations


class LibraryError(Exception):
    """A library that cannot be loaded or run here, or arrays that it cannot take."""
