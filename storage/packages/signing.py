"""Who made a package, told by an Ed25519 key.

The file `zoo.parquet.sig` holds one line: the key that signed and the signature of all bytes of
`zoo.parquet`, so that a signature is checked before anything is parsed. Whose packages are welcome
is what public keys in the user's own folder say (`storage.packages.folders.keys_folder`).

    tilework-package-1 PUBLIC-KEY SIGNATURE      both in base64
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from storage.files import Location
from storage.packages.folders import keys_folder
from tilework.errors import StoreError
from tilework.runtime.signature import Key, key_of

SUFFIX = ".sig"
PUBLIC = ".pub"
_WORD = "tilework-package-1"
_PURPOSE = b"tilework package 1\n"
_LONGEST = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,79}")


@dataclass(frozen=True)
class Signature:
    """What a signature file says; nothing is checked yet.

    Attributes:
        key: the 32 bytes of the public key that is said to have signed.
        mark: the 64 bytes of the signature.
    """

    key: bytes
    mark: bytes

    @classmethod
    def parse(cls, text: bytes, name: str) -> Signature:
        """Reads a signature file.

        Raises:
            StoreError: it is none.
        """
        words = text.split() if len(text) <= _LONGEST else []
        if len(words) == 3 and words[0] == _WORD.encode():
            try:
                key, mark = (base64.b64decode(word, validate=True) for word in words[1:])
            except (binascii.Error, ValueError):
                key = mark = b""
            if len(key) == 32 and len(mark) == 64:
                return cls(key, mark)
        raise StoreError(f"{name!r} is no signature of a package: it is damaged")

    def check(self, content: bytes, name: str) -> None:
        """Refuse content that the key's owner has not signed.

        Raises:
            StoreError: the signature is of other content, or the key is none.
        """
        try:
            key_of(self.key, "public").verify(self.mark, _PURPOSE + content)
        except Exception as error:  # of the package, which is imported only on demand
            raise StoreError(
                f"{name!r} has a wrong signature: the file was changed since it was signed, or "
                "the signature is of another file; nothing is installed"
            ) from error

    def signer(self, known: dict[str, bytes]) -> str:
        """The name under which the key is known; empty if it is not."""
        return next((name for name, key in sorted(known.items()) if key == self.key), "")


def sign(content: bytes, private_key: Key) -> bytes:
    """What to write into the signature file of a package.

    Raises:
        ModuleError: the key is none.
    """
    key = key_of(private_key, "private")
    public = key.public_key().public_bytes_raw()
    words = (base64.b64encode(part).decode() for part in (public, key.sign(_PURPOSE + content)))
    return f"{' '.join((_WORD, *words))}\n".encode()


def fingerprint(key: bytes) -> str:
    """A public key in few digits, for people to compare."""
    digits = hashlib.sha256(key).hexdigest()[:16]
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def new_key(path: Path) -> tuple[Path, str]:
    """Makes a key: the private one at ``path``, for its owner only, the public one beside it.

    Returns:
        The place of the public key, and its fingerprint.

    Raises:
        StoreError: a file is there already, or cannot be written.
    """
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    public = key.public_key().public_bytes(
        forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
    )
    beside = path.with_name(path.name + PUBLIC)
    for place, text, mode in ((path, private, 0o600), (beside, public, 0o644)):
        try:
            with os.fdopen(
                os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
            ) as out:
                out.write(text)
        except FileExistsError:
            raise StoreError(f"there is a file {str(place)!r} already: name another") from None
        except OSError as error:
            raise StoreError(f"cannot write {str(place)!r}: {error.strerror or error}") from error
    return beside, fingerprint(key.public_key().public_bytes_raw())


def public_key(given: str) -> bytes:
    """The 32 bytes of a public key: of a file, or the name of one that is trusted.

    Raises:
        StoreError: there is no such name.
        ModuleError: the file is no key.
    """
    known = trusted()
    if given in known:
        return known[given]
    if not Path(given).expanduser().is_file():
        listed = ", ".join(sorted(known)) or "none"
        raise StoreError(f"there is no key {given!r}: name a file, or a trusted key ({listed})")
    raw: bytes = key_of(Path(given).expanduser(), "public").public_bytes_raw()
    return raw


def trusted() -> dict[str, bytes]:
    """The keys whose packages are welcome, by name. Files that are no key are left out."""
    from tilework.errors import TileworkError

    keys: dict[str, bytes] = {}
    for path in sorted(keys_folder().glob(f"*{PUBLIC}")):
        try:
            keys[path.name.removesuffix(PUBLIC)] = key_of(path, "public").public_bytes_raw()
        except TileworkError:
            continue
    return keys


def trust(given: str, name: str = "") -> tuple[str, bytes]:
    """Welcome the packages of a key's owner, from now on.

    Args:
        given: file of the public key.
        name: what to call it; the file's name by default.

    Returns:
        Its name, and the key.

    Raises:
        StoreError: the name is none, or stands for another key; or the folder cannot be written.
        ModuleError: the file is no key.
    """
    path = Path(given).expanduser()
    called = name or path.name.removesuffix(PUBLIC).removesuffix(".pem")
    if _NAME.fullmatch(called) is None:
        raise StoreError(
            f"{called!r} is no name for a key: use letters, digits, '.', '_', '@', '-'"
        )
    key: bytes = key_of(path, "public").public_bytes_raw()
    known = trusted()
    if known.get(called, key) != key:
        raise StoreError(
            f"another key is trusted as {called!r}: choose a --name, or "
            f"`tilework records trust --remove {called}` first"
        )
    Location.of(keys_folder()).write(called + PUBLIC, path.read_bytes())
    return called, key


def distrust(name: str) -> None:
    """Forget a key. What is installed stays.

    Raises:
        StoreError: there is none of this name, or it cannot be removed.
    """
    if _NAME.fullmatch(name) is None or not (keys_folder() / (name + PUBLIC)).is_file():
        raise StoreError(f"no key is trusted as {name!r}")
    Location.of(keys_folder()).remove(name + PUBLIC)
