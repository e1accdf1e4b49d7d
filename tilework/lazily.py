"""Names of a package that are loaded when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def names_of(package: str, homes: dict[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's ``__getattr__``, by which it has names of its modules without loading them.

    Args:
        homes: the names by the module that each is from.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
