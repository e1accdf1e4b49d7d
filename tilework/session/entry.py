"""A compiled network as a file of the cache: what opens it in a tenth of a second.

    magic, 16 bytes
    length of the head, 8 bytes, little-endian
    SHA-256 of the head, 32 bytes
    head: JSON; the key, ABI version, the `Image` without its blocks, and per block its name, size
        and digest
    the blocks, each at a multiple of 4096 bytes: code, then the packed constants

A module file (`tilework.runtime.archive`) is made to travel: its checksums are SHA-256, of all
bytes. An entry was written by this user on this machine, and is read at every start of a program,
so that its constants have a digest that costs a tenth of that (`fold`). It tells a file that was
cut short or damaged, not one that was made to do harm: who may write into the cache's folder may
run code as its owner.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.executor import executor_of
from tilework.runtime.image import ABI_VERSION, Image
from tilework.runtime.manifest import image_from_json, image_to_json
from tilework.runtime.other import OtherModel, layout
from tilework.runtime.parts_list import block_size
from tilework.runtime.references import check_references

MAGIC = b"tilework entry 1"
_PAGE = 4096
_CHUNK = 1 << 20
_MOST_HEAD = 1 << 28
_LANES = 4096
_CONSTANTS = "constants"
_MODEL = "model"

Read = TypeVar("Read")


class BadEntry(ModuleError):
    """A file that is no entry, or not that of its key, or not whole."""


def write_entry(out: IO[bytes], key: str, image: Image) -> None:
    """Write an image as the entry of ``key``."""
    parts: dict[str, Any] = {f"code/{name}": code for name, code in image.code.items()}
    parts[_CONSTANTS] = image.constants.reshape(-1).view(np.uint8)
    _write(out, key, {"image": image_to_json(image)}, parts)


def write_other(out: IO[bytes], key: str, model: OtherModel) -> None:
    """Write a part of the other engine as the entry of ``key``."""
    weights = layout(model.weights)
    block = np.zeros(block_size(weights), np.uint8)
    for w in weights:
        flat = np.ascontiguousarray(model.weights[w.name]).reshape(-1).view(np.uint8)
        block[w.offset : w.offset + w.nbytes] = flat
    _write(out, key, {}, {_MODEL: model.model, _CONSTANTS: block})


def read_entry(path: Path, key: str) -> Image:
    """Read the entry of ``key``, if this machine can run it.

    Raises:
        ModuleError: it is damaged, of another key or version, or for another machine.
        OSError: it cannot be read.
    """

    def read(head: dict[str, Any], file: IO[bytes]) -> Image:
        image = image_from_json(head["image"])
        executor = executor_of(image.target)
        executor.check(image, f"module {image.name}")
        blocks = _blocks(head, file)
        constants = blocks.pop(_CONSTANTS, image.constants)
        code = {name.removeprefix("code/"): part for name, part in blocks.items()}
        image = replace(image, code=code, constants=constants)
        check_references(image)
        executor.check_threads(image, image.num_threads)
        executor.check_code(image)
        return image

    return _opened(path, key, read)


def read_other(path: Path, key: str) -> tuple[bytes, NDArray[np.uint8]]:
    """Read the model and the weights of `write_other`; for errors see `read_entry`."""

    def read(head: dict[str, Any], file: IO[bytes]) -> tuple[bytes, NDArray[np.uint8]]:
        blocks = _blocks(head, file)
        return blocks[_MODEL], blocks[_CONSTANTS]

    return _opened(path, key, read)


def _write(out: IO[bytes], key: str, about: dict[str, Any], parts: dict[str, Any]) -> None:
    """Write a head and blocks; of constants, which are large, the digest is a fast one."""
    blocks = [
        [name, memoryview(data).nbytes, fold(data) if name == _CONSTANTS else _sha256(data)]
        for name, data in parts.items()
    ]
    document = {"key": key, "abi_version": ABI_VERSION, **about, "blocks": blocks}
    head = json.dumps(document).encode()
    out.write(MAGIC + len(head).to_bytes(8, "little") + hashlib.sha256(head).digest() + head)
    for data in parts.values():
        out.write(bytes(-out.tell() % _PAGE))
        out.write(memoryview(data))


def _opened(path: Path, key: str, read: Callable[[dict[str, Any], IO[bytes]], Read]) -> Read:
    """What ``read`` makes of the head and the blocks of an entry."""
    with open(path, "rb", buffering=0) as file:
        try:
            return read(_head(file, key), file)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as e:
            raise BadEntry(f"{path} is damaged ({type(e).__name__}: {e})") from e


def _head(file: IO[bytes], key: str) -> dict[str, Any]:
    begin = file.read(len(MAGIC) + 8 + 32)
    length = int.from_bytes(begin[len(MAGIC) : len(MAGIC) + 8], "little")
    if begin[: len(MAGIC)] != MAGIC or not 0 < length < _MOST_HEAD:
        raise BadEntry("it is no entry")
    text = bytearray(length)
    _fill(file, memoryview(text))
    if hashlib.sha256(text).digest() != begin[-32:]:
        raise BadEntry("its head has a wrong checksum")
    head: dict[str, Any] = json.loads(text)
    if head["key"] != key or head["abi_version"] != ABI_VERSION:
        raise BadEntry("it is the entry of another key, or of another ABI version")
    return head


def _blocks(head: dict[str, Any], file: IO[bytes]) -> dict[str, Any]:
    """The blocks behind a head, by name, each checked."""
    blocks: dict[str, Any] = {}
    for name, size, digest in head["blocks"]:
        file.seek(-file.tell() % _PAGE, 1)
        if name == _CONSTANTS:
            blocks[name] = aligned_empty((size,), "uint8")
            digest_here = _folded(file, blocks[name])
        else:
            part = bytearray(size)
            _fill(file, memoryview(part))
            blocks[name] = bytes(part)
            digest_here = _sha256(part)
        if digest_here != digest:
            raise BadEntry(f"{name} has a wrong checksum")
    return blocks


def _sha256(data: bytes | bytearray) -> str:
    return hashlib.sha256(data).hexdigest()


def fold(data: NDArray[np.uint8]) -> str:
    """A digest of a block at the speed of memory.

    Each piece of a megabyte is folded, as words of eight bytes, into sums of 4096 lanes; these are
    hashed. So any word that differs by itself is told, and so are pieces that are missing or out
    of order; that words of one lane changed so that their sum is as before would be chance.
    """
    digest = hashlib.sha256(data.nbytes.to_bytes(8, "little"))
    for at in range(0, data.nbytes, _CHUNK):
        _fold_into(digest, data[at : at + _CHUNK])
    return digest.hexdigest()


def _folded(file: IO[bytes], out: NDArray[np.uint8]) -> str:
    """Fill a block from a file; returns its `fold`, taken while each piece is near."""
    digest = hashlib.sha256(out.nbytes.to_bytes(8, "little"))
    for at in range(0, out.nbytes, _CHUNK):
        piece = out[at : at + _CHUNK]
        _fill(file, piece.data)
        _fold_into(digest, piece)
    return digest.hexdigest()


def _fold_into(digest: Any, piece: NDArray[np.uint8]) -> None:
    if piece.nbytes % (8 * _LANES):
        digest.update(piece.data)
    else:
        words = piece.view(np.uint64).reshape(-1, _LANES)
        digest.update(np.add.reduce(words, axis=0).data)


def _fill(file: IO[bytes], out: memoryview) -> None:
    """Read exactly as much as there is room for."""
    done = 0
    while done < len(out):
        count = file.readinto(out[done:])  # type: ignore[attr-defined]
        if not count:
            raise BadEntry("it is cut short")
        done += count
