"""Whether ``flows``, ``tasks`` and ``storage`` are Tilework's own.

They are names of the top level that other programs have, too: a project's ``tasks.py``, a
distribution called ``storage``. Where another one is found first, imports fail deep inside with
words that help nobody; so who starts from outside asks here. Nothing is imported for it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

PACKAGES = ("flows", "tasks", "storage")
"""The packages above the engine, which are installed with it."""

MARK = 'OWNER = "tilework"'
"""The line of their ``__init__.py`` that tells them apart."""


def shadowed() -> str | None:
    """One line that names who stands in the place of a package of ours; None if nobody does.

    A package that is not there at all is no shadow: whoever imports it says so.
    """
    for name in PACKAGES:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):  # kept from being imported
            continue
        if spec is None:
            continue
        place = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        if place is None or not _ours(Path(place)):
            return (
                f"`{name}` is {place or 'made at run time'}, where Tilework needs its own package "
                f"of this name: run in another folder, take it off PYTHONPATH, or give Tilework "
                f"an environment of its own"
            )
    return None


def _ours(place: Path) -> bool:
    try:
        return place.name == "__init__.py" and MARK in place.read_text("utf-8", "replace")
    except OSError:
        return False
