"""Compiled networks as shared libraries, for programs in any language: `docs/library.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal, Protocol

from tilework import kinds
from tilework.errors import ModuleError, TargetError
from tilework.frozen import frozen
from tilework.runtime.image import Image
from tilework.runtime.module import Module
from tilework.runtime.parts import AnyModule, PartedModule
from tilework.target import Target

WeightsPlace = Literal["inside", "beside"]
"""Where a library's weights lie: in its own file, or in ``NAME.weights`` in the same folder."""


@frozen
class LibraryLevel:
    """One kind of CPU that a library has code for.

    Attributes:
        name: as callers choose it.
        target: text of the target.
        weights_bytes: of its packed constants.
        checked: whether its output was compared with the module's; it is where this machine can
            run the code.
    """

    name: str
    target: str
    weights_bytes: int
    checked: bool


@frozen
class Library:
    """What was written.

    Attributes:
        path: the library.
        name: its functions are called ``tw_NAME_create`` and so on.
        header: None if none was asked for.
        weights: the file beside it; None if they are inside.
        levels: in the order in which they are tried.
        nbytes: of the library and its weights.
        linker: the program that linked it.
    """

    path: Path
    name: str
    header: Path | None
    weights: Path | None
    levels: tuple[LibraryLevel, ...]
    nbytes: int
    linker: str


class Libraries(Protocol):
    """A kind's room ``library``."""

    def require(self, platform: str, path: Path) -> None:
        """Fail early if no library of that name can be made for a platform.

        Raises:
            ModuleError: there is no linker, or the name cannot be that of C functions.
        """

    def level_target(self, word: str, native: Target) -> str:
        """The target that a word for a level means, where ``native`` is the one given.

        Raises:
            TargetError: it means none.
        """

    def write(
        self, images: Sequence[Image], path: Path, header: Path | None, weights: WeightsPlace
    ) -> Library:
        """See `write_library`."""


def write_library(
    modules: AnyModule | Sequence[AnyModule],
    path: str | PathLike[str],
    *,
    header: str | PathLike[str] | None = None,
    weights: WeightsPlace = "inside",
) -> Library:
    """Link a compiled network to a shared library with functions that C can call.

    The library needs a C library and nothing of Tilework. Its functions are named after its file:
    ``resnet18.so`` has ``tw_resnet18_create`` and so on. Of a module of symbolic shapes it runs at
    every point of the ranges, and lays out memory by itself when shapes are new.

    Args:
        modules: the network, compiled for one CPU or for several: the library runs the code of the
            best one that a machine has. Each brings weights of its own, packed as its code wants
            them; equal ones are stored once.
        path: of the library, such as ``net.so``.
        header: write a C header there.
        weights: keep them in the library, or ``"beside"`` it in ``net.weights``.

    Raises:
        ModuleError: another engine runs a part of the network; the modules are not levels of one
            network; there is no linker, or it fails; this kind of machine has no libraries; or a
            file cannot be written.
    """
    given = [modules] if isinstance(modules, Module | PartedModule) else list(modules)
    images = []
    for module in given:
        if isinstance(module, PartedModule):
            raise ModuleError(
                f"{module.name} cannot become a shared library, as another engine runs a part "
                f"of it: {module.left}"
            )
        images.append(replace(module.image, num_threads=module.num_threads))
    if not images:
        raise ModuleError("a library needs at least one module")
    where = None if header is None else Path(header)
    return libraries_of(images[0].target).write(images, Path(path), where, weights)


def libraries_of(target: str) -> Libraries:
    """The room ``library`` of a target's kind.

    Raises:
        ModuleError: it has none.
    """
    kind = target.split()[0] if target.split() else ""
    try:
        room: Libraries = kinds.room(kind, "library")
    except TargetError as e:
        raise ModuleError(
            f"code for '{target}' cannot become a shared library, only that for CPUs (llvm): save "
            "it as a module (.tw)"
        ) from e
    return room
