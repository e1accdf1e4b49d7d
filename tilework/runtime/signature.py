"""Signatures of module files: who made a module, told by an Ed25519 key.

The file ``net.tw.sig`` holds the signature of the manifest of ``net.tw``, as one line of base64.
The manifest names the checksum of everything else that is read of a module, so that signing it
signs all of it, and checking costs no second reading of the weights.
"""

from __future__ import annotations

import base64
import os
from os import PathLike
from pathlib import Path
from typing import Any

from tilework.errors import ModuleError

Key = bytes | str | PathLike[str]
"""An Ed25519 key: the path of a PEM file, the bytes of one, or the 32 bytes of the key itself."""

SUFFIX = ".sig"
_PURPOSE = b"tilework module 1\n"


def signature_path(path: Path) -> Path:
    """Where the signature of a module file lies."""
    return path.with_name(path.name + SUFFIX)


def signed(manifest: bytes, private_key: Key) -> bytes:
    """What to write into the signature file of a module with this manifest.

    Raises:
        ModuleError: the key is none, or the package ``cryptography`` is missing.
    """
    signature: bytes = key_of(private_key, "private").sign(_PURPOSE + manifest)
    return base64.b64encode(signature) + b"\n"


def check_signature(manifest: bytes, path: Path, public_key: Key) -> None:
    """Refuse a module whose manifest the owner of the key has not signed.

    Raises:
        ModuleError: the signature is missing or another, the key is none, or the package
            ``cryptography`` is missing.
    """
    key, where = key_of(public_key, "public"), signature_path(path)
    try:
        text = where.read_bytes()
    except OSError as e:
        raise ModuleError(
            f"{path} is not signed: cannot read {where} ({e.strerror or e}); save the module with "
            "private_key=..., or load it without public_key if you trust it"
        ) from e
    try:
        key.verify(base64.b64decode(text.strip(), validate=True), _PURPOSE + manifest)
    except Exception as e:  # of the package, which is imported only on demand
        raise ModuleError(
            f"{where} is no signature of {path} by the given key: the module was changed, or "
            "signed by somebody else; it was not loaded"
        ) from e


def key_of(given: Key, side: str) -> Any:
    """A key object of the package ``cryptography``; ``side`` is ``"private"`` or ``"public"``.

    Raises:
        ModuleError: it is no such key, or the package is missing.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as e:
        raise ModuleError(
            "signatures need the package 'cryptography': pip install cryptography"
        ) from e
    kinds: dict[str, Any] = {
        "private": ed25519.Ed25519PrivateKey,
        "public": ed25519.Ed25519PublicKey,
    }
    try:
        data = given if isinstance(given, bytes) else Path(os.fspath(given)).read_bytes()
        if len(data) == 32:
            make = "from_private_bytes" if side == "private" else "from_public_bytes"
            return getattr(kinds[side], make)(data)
        key: Any = (
            serialization.load_pem_private_key(data, password=None)
            if side == "private"
            else serialization.load_pem_public_key(data)
        )
    except OSError as e:
        raise ModuleError(f"cannot read the {side} key {given!r}: {e.strerror or e}") from e
    except (TypeError, ValueError) as e:
        raise ModuleError(
            f"this is no {side} key: give the path or the bytes of an unencrypted PEM file, or "
            f"the 32 bytes of an Ed25519 key ({e})"
        ) from e
    if not isinstance(key, kinds[side]):
        raise ModuleError(f"the {side} key is no Ed25519 key, but {type(key).__name__}")
    return key
