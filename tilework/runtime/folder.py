"""A network in parts as a folder: its parts, and a list of them.

    parts.json    version, checksums of the other files, and the list: how parts are joined
    0.tw          a module of ours (`tilework.runtime.archive`)
    1.onnx        a part of ONNX Runtime, as any tool opens it
    1.weights     its large constants, which it names as external data

A folder is written beside its place under another name and then takes the place at once, so that
it is always whole. The signature, if there is one, is that of the list, which names the checksums
of all else.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.runtime.archive import read_image, write_image
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.module import Module
from tilework.runtime.other import OtherModel, OtherPart, layout
from tilework.runtime.parts_image import PartsImage
from tilework.runtime.parts_list import (
    ListedPart,
    PartsList,
    block_size,
    image_of,
    list_from_json,
    list_to_json,
    listed,
    other_part,
)
from tilework.runtime.signature import Key, check_signature, signature_path, signed
from tilework.version import __version__
from tilework.whole import folder_beside, remove, sync

FORMAT = "tilework parts"
VERSION = 1
"""Of the list; raise it when a field changes its meaning."""
OVER_RANGES = 2
"""The same of a network over ranges, whose list has symbols."""
LIST = "parts.json"
_FILE = re.compile(r"\d+\.(tw|onnx|weights)")
_AGAIN = "compile the network again and save it"
_EXCHANGE = 2  # RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


def is_folder_module(path: str | os.PathLike[str]) -> bool:
    """Whether a network in parts was saved there."""
    return (Path(path) / LIST).is_file()


def write_folder(
    image: PartsImage,
    num_threads: int,
    path: str | os.PathLike[str],
    private_key: Key | None = None,
) -> None:
    """Write a network in parts, whole or not at all.

    Raises:
        ModuleError: it cannot be written, a folder of something else is there, or the key is none.
    """
    place = Path(path)
    try:
        with folder_beside(place) as draft:
            _write(image, num_threads, draft, private_key)
            take_place(draft, place)
    except OSError as e:
        raise ModuleError(f"cannot write the module to {path}: {e.strerror or e}") from e


def _write(image: PartsImage, num_threads: int, folder: Path, key: Key | None) -> None:
    for number, part in enumerate(image.parts):
        if isinstance(part.runner, Module):
            write_image(part.runner.image, folder / f"{number}.tw")
        else:
            write_model(part.runner.model, folder / f"{number}.onnx")
    document = list_to_json(listed(image, num_threads))
    text = json.dumps(
        {
            "format": FORMAT,
            "version": OVER_RANGES if image.symbols else VERSION,
            "engine_version": __version__,
            "sha256": {p.name: _digest(p) for p in sorted(folder.iterdir())},
            "list": document,
        },
        indent=1,
    ).encode()
    _write_bytes(folder / LIST, text)
    if key is not None:
        _write_bytes(signature_path(folder / LIST), signed(text, key))


def write_model(model: OtherModel, path: Path) -> None:
    """Write a part of the other engine as an ONNX file, and the file of its weights beside it.

    Raises:
        OSError: that is not possible.
    """
    _write_bytes(path, model.model)
    if not model.weights:
        return
    with open(path.with_name(model.location), "wb") as out:
        for weight in layout(model.weights):
            out.write(bytes(weight.offset - out.tell()))
            out.write(np.ascontiguousarray(model.weights[weight.name]).data)
        out.flush()
        os.fsync(out.fileno())


def _write_bytes(path: Path, data: bytes) -> None:
    with open(path, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def take_place(draft: Path, place: Path) -> None:
    """Give a file or folder the name ``place``, which a module, of either form, may have now.

    Raises:
        ModuleError: a folder of something else is there.
        OSError: it cannot be renamed.
    """
    if place.is_dir() and not place.is_symlink() and not is_folder_module(place):
        raise ModuleError(
            f"cannot write the module to {place}: a folder of something else is there"
        )
    if not draft.is_dir() and not place.is_dir():
        os.replace(draft, place)
    elif not os.path.lexists(place):
        os.rename(draft, place)
    else:
        _exchange(draft, place)
        remove(draft)
    sync(place.parent)


def _exchange(one: Path, other: Path) -> None:
    """Two names change what they stand for, at once where the system can."""
    with contextlib.suppress(AttributeError, OSError):
        call = ctypes.CDLL(None, use_errno=True).renameat2
        if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
            return
    aside = other.with_name(f".{other.name}.{secrets.token_hex(4)}.old")
    os.rename(other, aside)
    os.rename(one, other)
    os.rename(aside, one)


def read_folder(
    path: str | os.PathLike[str], public_key: Key | None = None
) -> tuple[PartsImage, int]:
    """Read what `write_folder` wrote, if this machine can run it.

    Returns:
        The network, and the number of threads of its runs.

    Raises:
        ModuleError: a file is missing or damaged, or not signed by the key; the list is of a newer
            version; or the code needs another machine.
    """
    folder = Path(path)
    try:
        return _read(folder, public_key)
    except FileNotFoundError as e:
        raise ModuleError(f"{folder} lacks the part {Path(e.filename).name}; {_AGAIN}") from e
    except OSError as e:
        raise ModuleError(f"cannot read {folder}: {e.strerror or e}") from e
    except MemoryError as e:
        raise ModuleError(f"there is not enough memory to load {folder}") from e
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as e:
        raise ModuleError(f"{folder} is damaged ({type(e).__name__}: {e}); {_AGAIN}") from e


def _read(folder: Path, public_key: Key | None) -> tuple[PartsImage, int]:
    if not is_folder_module(folder):
        raise ModuleError(f"cannot read {folder}: it is a folder, and no module: it has no {LIST}")
    text = (folder / LIST).read_bytes()
    if public_key is not None:
        check_signature(text, folder / LIST, public_key)
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModuleError(f"{folder} is no Tilework module: {LIST} is of something else")
    if document["version"] not in (VERSION, OVER_RANGES):
        raise ModuleError(
            f"{folder} was made by Tilework {document['engine_version']}, version "
            f"{document['version']} of the list of parts; this is Tilework {__version__} with "
            f"version {OVER_RANGES}: compile the network again"
        )
    for name, digest in document["sha256"].items():
        if not _FILE.fullmatch(name):
            raise ValueError(f"there is an odd file {name!r}")
        if _digest(folder / name) != digest:
            raise ModuleError(f"{folder} is damaged: {name} has a wrong checksum; {_AGAIN}")
    network = list_from_json(document["list"])
    runners = [_runner(folder, n, p, network) for n, p in enumerate(network.parts)]
    return image_of(network, runners), network.num_threads


def _runner(folder: Path, number: int, part: ListedPart, network: PartsList) -> Module | OtherPart:
    if part.kind == "module":
        return Module(read_image(folder / f"{number}.tw"))
    block: NDArray[Any] = aligned_empty((block_size(part.weights),), "uint8")
    if block.nbytes:
        if not _FILE.fullmatch(part.location):
            raise ValueError(f"there is an odd file {part.location!r}")
        with open(folder / part.location, "rb", buffering=0) as file:
            view, done = block.data, 0
            while done < block.nbytes and (count := file.readinto(view[done:])):
                done += count
        if done < block.nbytes:
            raise ValueError(f"{part.location} is cut short")
    model = (folder / f"{number}.onnx").read_bytes()
    return other_part(part, model, block, network.num_threads)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
