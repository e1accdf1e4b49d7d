"""The packages of this user: installed whole or not at all, listed, removed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from storage.files import Location
from storage.packages.folders import ENDING, files, packages_folder, shipped_folder
from storage.packages.index import SUFFIX as INDEX
from storage.packages.index import index_of
from storage.packages.manifest import NotPackage
from storage.packages.outdated import of_other_rules, other_rules_text
from storage.packages.package import Package, check_documents
from storage.packages.places import name_of, opened, read_bytes
from storage.packages.signing import SUFFIX, Signature, fingerprint, public_key, trusted
from storage.uris import shown
from tilework.errors import StoreBusy, StoreError

_STALE_S = 60.0
"""Temporary files this old belong to no installation that is still going on."""


@dataclass(frozen=True)
class Offer:
    """A package that was read and checked, and is not installed yet.

    Attributes:
        name: under which it would be installed.
        text: where it came from, as messages may show it.
        package: what is in it.
        signer: name of the trusted key that signed it; empty if none did.
        stranger: fingerprint of a key that signed it and is not trusted; empty if none did.
    """

    name: str
    text: str
    package: Package
    signer: str
    stranger: str
    content: bytes
    signature: bytes

    @property
    def refusal(self) -> str:
        """Why it is not installed unless it is asked for; empty if a trusted key signed it."""
        if self.signer:
            return ""
        if self.stranger:
            return (
                f"{self.text!r} is signed by a key that is not trusted here ({self.stranger}): "
                "trust its owner's key with `tilework records trust KEY.pub`, or install it all "
                "the same with --unsigned"
            )
        return (
            f"{self.text!r} is not signed: ask its maker for {self.name}{ENDING}{SUFFIX}, or "
            "install it all the same with --unsigned"
        )


@dataclass(frozen=True)
class Installed:
    """A package that is there.

    Attributes:
        name: what it is called.
        path: its file.
        shipped: whether it came with Tilework.
        package: what is in it; None if it cannot be used.
        problem: why it cannot be used, or what of it is not; empty if all is.
        signer: name of the trusted key that signed it; empty if none did.
    """

    name: str
    path: Path
    shipped: bool
    package: Package | None
    problem: str = ""
    signer: str = ""


def offer(text: str, key: str = "") -> Offer:
    """Reads a package from a file or URI, and checks its signature and all that is in it.

    Args:
        key: only this key counts: a file, or the name of a trusted one.

    Raises:
        StoreError: it cannot be read, its signature is wrong or another key's than ``key``, or it
            holds nothing that this version of Tilework can use. The message says what to do.
        ModuleError: ``key`` is none.
    """
    name, where = name_of(text), shown(text)
    wanted = public_key(key) if key else None
    content = read_bytes(text)
    signature = _signature_of(text)
    signer = stranger = ""
    if signature:
        parsed = Signature.parse(signature, f"{where}{SUFFIX}")
        parsed.check(content, where)
        signer = key if parsed.key == wanted else parsed.signer(trusted())
        stranger = "" if signer else fingerprint(parsed.key)
        if wanted is not None and parsed.key != wanted:
            raise StoreError(
                f"{where!r} is not signed by {key!r} but by {signer or stranger}; "
                "nothing is installed"
            )
    elif wanted is not None:
        raise StoreError(f"{where!r} is not signed, and {key!r} should have signed it")
    package = opened(content, text)
    try:
        check_documents(package)
    except NotPackage as error:
        raise StoreError(f"{where!r} is not a usable package: {error}") from None
    if refused := unusable(package):
        raise StoreError(f"{where!r} is of no use here: {refused}; nothing is installed")
    return Offer(name, where, package, signer, stranger, content, signature)


def install(offered: Offer) -> bool:
    """Puts a package into this user's folder, in place of an older one of its name.

    Whenever it is killed, the old package stands there or the new one, whole.

    Returns:
        Whether there was an older one.

    Raises:
        StoreError: the folder cannot be written.
    """
    folder = packages_folder()
    place = Location.of(folder)
    file = offered.name + ENDING
    older = (folder / file).exists()
    try:
        place.remove(file + SUFFIX)  # what is not signed at the moment is said to be so
        if not place.create(file, offered.content):  # which leaves nothing behind when killed
            place.write(file, offered.content)
        if offered.signature:
            place.write(file + SUFFIX, offered.signature)
    except StoreError as error:
        kind = StoreBusy if isinstance(error, StoreBusy) else StoreError
        raise kind(f"cannot install {offered.name!r} into {str(folder)!r}: {error}") from error
    with contextlib.suppress(StoreError):  # it is there; without an index it is read more slowly
        place.write(file + INDEX, index_of(offered.content, offered.package))
    _sweep(folder)
    return older


def uninstall(name: str) -> None:
    """Removes an installed package.

    Raises:
        StoreError: there is none of this name, or it cannot be removed.
    """
    names = [path.name.removesuffix(ENDING) for path in files(packages_folder())]
    if name not in names:
        shipped = [path.name.removesuffix(ENDING) for path in files(shipped_folder())]
        hint = f"installed: {', '.join(names) or 'none'}"
        if name in shipped:
            hint = "it came with Tilework; a compile leaves it out with --no-packages"
        raise StoreError(f"no package {name!r} is installed ({hint})")
    place = Location.of(packages_folder())
    place.remove(name + ENDING)
    place.remove(name + ENDING + SUFFIX)
    place.remove(name + ENDING + INDEX)


def installed() -> list[Installed]:
    """All packages that a compile looks at, those of this user first, by name."""
    keys = trusted()
    own = [look_at(path, False, keys) for path in files(packages_folder())]
    return own + [look_at(path, True, keys) for path in files(shipped_folder())]


def unusable(package: Package) -> str:
    """Why no record of a package can be used, in one line; empty if some can."""
    others = of_other_rules(package)
    if not len(package.rows):
        return "it holds no records"
    if sum(others.values()) < len(package.rows):
        return ""
    return other_rules_text(others, len(package.rows))


def look_at(path: Path, shipped: bool, keys: dict[str, bytes]) -> Installed:
    """What is to be said of a package's file: all of it is read."""
    name = path.name.removesuffix(ENDING)
    try:
        content = read_bytes(str(path))
        package = opened(content, str(path))
    except StoreError as error:
        return Installed(name, path, shipped, None, str(error))
    problem = other_rules_text(of_other_rules(package), len(package.rows))
    return Installed(name, path, shipped, package, problem, _signer(path, content, keys))


def _signer(path: Path, content: bytes, keys: dict[str, bytes]) -> str:
    with contextlib.suppress(OSError, StoreError):
        signature = Signature.parse(path.with_name(path.name + SUFFIX).read_bytes(), path.name)
        signature.check(content, path.name)
        return signature.signer(keys) or fingerprint(signature.key)
    return ""


def _signature_of(text: str) -> bytes:
    path, mark, query = text.partition("?")
    try:
        return read_bytes(path + SUFFIX + mark + query)
    except StoreBusy:
        raise
    except StoreError:
        return b""


def _sweep(folder: Path) -> None:
    """Removes what installations left that were killed while they replaced a package."""
    with contextlib.suppress(OSError):
        for path in folder.glob(".*"):
            if path.is_file() and time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()
