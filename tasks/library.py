"""A network as a shared library: compiled for each level, checked, and linked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks import finish
from tasks.extraction import Extracted, extract
from tasks.model_files import require_unchanged
from tasks.network import NetworkSpec
from tilework.errors import ModuleError, RunFailed, TargetError

if TYPE_CHECKING:
    from tasks.patience import Tell
    from tasks.report import CheckResult
    from tilework.record import History
    from tilework.runtime.library import Library, WeightsPlace
    from tilework.runtime.parts import AnyModule
    from tilework.target import Target

SUFFIX = ".so"
"""What the name of a library ends with; other names are those of modules."""


@dataclass(frozen=True)
class LibraryRequest:
    """What library is wanted.

    Attributes:
        path: of its file.
        header: where its header goes; empty for none.
        levels: words such as ``v3`` or ``native``; none for the target alone.
        weights: inside it, or in a file beside it.
    """

    path: str
    header: str = ""
    levels: tuple[str, ...] = ()
    weights: WeightsPlace = "inside"


def library_request(
    path: str, header: str, levels: str, weights: WeightsPlace
) -> LibraryRequest | None:
    """What the options of a command ask for; None if it is a module.

    Raises:
        ModuleError: an option of libraries is given for a module, or the header has no place.
    """
    if not path.endswith(SUFFIX):
        given = {"--header": header, "--levels": levels, "--weights": weights != "inside"}
        for option, value in given.items():
            if value:
                raise ModuleError(
                    f"{option} belongs to a shared library: name one with --output NAME{SUFFIX}"
                )
        return None
    finish.check_place(path, library=True)
    finish.check_place(header, library=True)
    words = tuple(word.strip() for word in levels.split(",") if word.strip())
    return LibraryRequest(path, header, words, weights)


def level_targets(request: LibraryRequest, target: Target) -> list[Target]:
    """The targets of a library's levels: the one given first, if it is among them.

    Raises:
        TargetError: a level is not known.
        ModuleError: this kind of machine has no libraries, or there is no linker.
    """
    from tilework.runtime.library import libraries_of
    from tilework.target import Target

    room = libraries_of(str(target))
    room.require(target.platform, Path(request.path))
    targets = [target] if not request.levels else []
    for word in request.levels:
        try:
            targets.append(Target(room.level_target(word, target)))
        except TargetError as error:
            raise TargetError(
                f"--levels {','.join(request.levels)}: '{word}' is no level; write v2, v3, v4, "
                f"native or the name of a CPU ({error})"
            ) from error
    unique = list(dict.fromkeys(targets))
    return sorted(unique, key=lambda t: t != target)


def compile_levels(
    spec: NetworkSpec,
    targets: Sequence[Target],
    records: History,
    tell: Tell,
    in_place: bool = False,
) -> list[tuple[Extracted, AnyModule, CheckResult | None]]:
    """Compile and check the network for each target; the check is None where it cannot run here.

    Args:
        in_place: see `tilework.compile`.

    Raises:
        RunFailed: the output of one is wrong.
    """
    out = []
    for target in targets:
        extracted = extract(spec, target, briefly=True)
        if extracted.left:
            raise ModuleError(
                f"{spec.network} cannot become a shared library, which another engine has no part "
                f"in: {extracted.left}"
            )
        compiled = finish.compile_network(extracted, target, records, "", tell, False, in_place)
        check = finish.check(compiled)
        if check is not None and check.fault:
            raise RunFailed(f"{extracted.network.name} for {target}: {check.fault}")
        require_unchanged(extracted.files)
        out.append((extracted, compiled.tuned, check))
    return out


def link(request: LibraryRequest, modules: Sequence[AnyModule]) -> Library:
    """Write the library and its header."""
    from tilework.runtime.library import write_library

    return write_library(
        modules, request.path, header=request.header or None, weights=request.weights
    )
