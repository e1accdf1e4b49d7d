"""Where packages are on this machine: the user's folders, and what is shipped."""

from __future__ import annotations

import os
from pathlib import Path

ENDING = ".parquet"
"""How the names of packages end, so that any reader of Parquet takes them."""
LEFT_OUT = "TILEWORK_NO_PACKAGES"
"""Environment variable: unless empty, no package is looked at that was not named."""


def packages_folder() -> Path:
    """Where this user's packages are installed."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "tilework" / "packages"


def keys_folder() -> Path:
    """Where this user keeps the public keys of those whose packages are welcome."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "tilework" / "keys"


def shipped_folder() -> Path:
    """The packages that come with Tilework."""
    return Path(__file__).with_name("shipped")


def files(folder: Path) -> list[Path]:
    """The packages of a folder, by name; a folder that is not there has none."""
    try:
        packages = [p for p in folder.iterdir() if p.name.endswith(ENDING) and p.name[0] != "."]
    except OSError:
        return []
    return sorted(packages, key=lambda path: path.name)
