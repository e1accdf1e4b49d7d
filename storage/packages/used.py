"""The packages that a compile looks at: by their indexes, or read whole where one is missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from storage.packages.folders import ENDING, files, packages_folder, shipped_folder
from storage.packages.index import Content, read_index
from storage.packages.outdated import of_other_rules, other_rules_text


@dataclass(frozen=True)
class Used:
    """A package that is there.

    Attributes:
        name: what it is called.
        shipped: whether it came with Tilework.
        content: what is in it; None if it cannot be used.
        problem: why it cannot be used, or what of it is not; empty if all is.
    """

    name: str
    shipped: bool
    content: Content | None
    problem: str = ""


def used() -> list[Used]:
    """All packages that a compile looks at, those of this user first, by name."""
    own = [_used(path, False) for path in files(packages_folder())]
    return own + [_used(path, True) for path in files(shipped_folder())]


def _used(path: Path, shipped: bool) -> Used:
    found = read_index(path)
    if found is None:
        try:
            from storage.packages.installed import look_at  # with it comes pyarrow
        except ImportError as error:
            name = path.name.removesuffix(ENDING)
            return Used(name, shipped, None, f"it has no index, and cannot be read ({error})")
        whole = look_at(path, shipped, {})
        return Used(whole.name, shipped, whole.package, whole.problem)
    problem = other_rules_text(of_other_rules(found), len(found.rows))
    return Used(path.name.removesuffix(ENDING), shipped, found, problem)
