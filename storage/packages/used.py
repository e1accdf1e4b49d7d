"""The packages that a compile looks at: by their indexes, or read whole where one is missing."""

from __future__ import annotations

from pathlib import Path

from storage.packages.folders import ENDING, files, packages_folder, shipped_folder
from storage.packages.index import SUFFIX, Content, index_in, read
from storage.packages.outdated import of_other_rules, other_rules_text
from tilework.frozen import frozen
from tilework.kept import key_of


@frozen
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


@frozen
class PackageFile:
    """A package's file as it was found, not looked into.

    Attributes:
        path: of the file.
        shipped: whether it came with Tilework.
        content, index: bytes of the file and of its index; empty where they cannot be read.
    """

    path: Path
    shipped: bool
    content: bytes
    index: bytes

    @property
    def state(self) -> str:
        """Changes when what is used of it may be another; looking into it takes far longer."""
        return key_of(self.content, self.index)

    def used(self) -> Used:
        """What is in it."""
        index = index_in(self.content, self.index)
        if index is None:
            try:
                from storage.packages.installed import look_at  # with it comes pyarrow
            except ImportError as error:
                name = self.path.name.removesuffix(ENDING)
                return Used(
                    name, self.shipped, None, f"it has no index, and cannot be read ({error})"
                )
            whole = look_at(self.path, self.shipped, {})
            return Used(whole.name, self.shipped, whole.package, whole.problem)
        problem = other_rules_text(of_other_rules(index), len(index.places()))
        return Used(self.path.name.removesuffix(ENDING), self.shipped, index, problem)


def all_packages() -> list[PackageFile]:
    """All packages that a compile looks at, those of this user first, by name."""
    own = [_file(path, False) for path in files(packages_folder())]
    return own + [_file(path, True) for path in files(shipped_folder())]


def used() -> list[Used]:
    """The same, looked into."""
    return [one.used() for one in all_packages()]


def _file(path: Path, shipped: bool) -> PackageFile:
    return PackageFile(path, shipped, read(path), read(path.with_name(path.name + SUFFIX)))
