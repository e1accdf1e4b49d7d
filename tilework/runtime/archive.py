"""Module files (``.tw``): a zip of a JSON manifest, the code, and the constants as .npy.

    manifest.json    ABI version, checksums of the other members, and the `Image` without its code
                     and constants; the engine's version, for people
    code/NAME        the pieces of the program: object files for CPUs
    constants.npy    the block of packed constants

No member is compressed or pickled. A module file holds machine code, though, which runs as part of
the process that loads it: checksums and checks of references tell a damaged file, not a malicious
one. Load only files that you trust, or have signed (`tilework.runtime.signature`).
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.executor import executor_of
from tilework.runtime.image import ABI_READ, ABI_VERSION, Image
from tilework.runtime.manifest import image_from_json, image_to_json
from tilework.runtime.references import check_references
from tilework.runtime.signature import Key, check_signature, signature_path, signed
from tilework.version import __version__
from tilework.whole import replacing

FORMAT = "tilework module"
_MANIFEST = "manifest.json"
_CONSTANTS = "constants.npy"
_CODE = "code/"
_CODE_NAME = re.compile(r"code/[\w.$+-]{1,200}")
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '\|u1', 'fortran_order': False, 'shape': \((\d+),\), \} *\n",
    re.DOTALL,
)
"""The head of an .npy file with a block of bytes. NumPy's own reader is more than this needs."""

_CHUNK = 1 << 20
_AGAIN = "compile the network again and save it"


def write_image(image: Image, path: Path, private_key: Key | None = None) -> None:
    """Write an image to a file, whole or not at all, and its signature beside it.

    Raises:
        ModuleError: the file cannot be written, or the key is none.
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, np.lib.format.header_data_from_array_1_0(image.constants)
    )
    members: dict[str, list[bytes | memoryview]] = {
        f"{_CODE}{name}": [code] for name, code in image.code.items()
    }
    members[_CONSTANTS] = [header.getvalue(), image.constants.data]
    manifest = {
        "format": FORMAT,
        "abi_version": ABI_VERSION,
        "engine_version": __version__,
        "sha256": {name: _digest(parts) for name, parts in members.items()},
        "image": image_to_json(image),
    }
    text = json.dumps(manifest, indent=1).encode()
    signature = signed(text, private_key) if private_key is not None else None
    with _errors_of_writing(path):
        with replacing(path) as out, zipfile.ZipFile(out, "w") as archive:
            _add(archive, _MANIFEST, [text])
            for name, parts in members.items():
                _add(archive, name, parts)
        if signature is not None:
            with replacing(signature_path(path)) as out:
                out.write(signature)


def read_image(path: Path, public_key: Key | None = None) -> Image:
    """Read a module file that this machine can run.

    Weights go straight to where they stay: reading takes about as much memory as the file holds.

    Raises:
        ModuleError: the file is missing, no module, damaged, or not signed by the key; it was made
            for another version of the ABI; or its code needs another platform or CPU.
    """
    with _errors_of_reading(path), zipfile.ZipFile(path) as archive:
        if _MANIFEST not in archive.namelist():
            raise ModuleError(f"{path} is not a Tilework module: it has no {_MANIFEST}")
        text = _Reader(archive, _MANIFEST).read()
        if public_key is not None:
            check_signature(text, path, public_key)
        manifest = _manifest(text, path)
        image = image_from_json(manifest["image"])
        executor = executor_of(image.target)
        executor.check(image, str(path))
        digests = _digests(manifest["sha256"])
        code, block = {}, image.constants
        for name, digest in digests.items():
            reader = _Reader(archive, name)
            if name == _CONSTANTS:
                block = _block(reader, archive.getinfo(name).file_size)
            else:
                code[name.removeprefix(_CODE)] = reader.read()
            if reader.digest() != digest:
                raise ModuleError(f"{path} is damaged: {name} has a wrong checksum; {_AGAIN}")
        image = replace(image, code=code, constants=block)
        try:
            for what, since in (("symbols", 5), ("repeats", 6)):
                if getattr(image, what) and manifest["abi_version"] < since:
                    raise ModuleError(f"{what} beside ABI version {manifest['abi_version']}")
            check_references(image)
            executor.check_threads(image, image.num_threads)
            executor.check_code(image)
        except ModuleError as e:
            raise ModuleError(f"{path} is damaged: {e}; {_AGAIN}") from e
        return image


def _digest(parts: list[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _add(archive: zipfile.ZipFile, name: str, parts: list[bytes | memoryview]) -> None:
    """Write a member piece by piece; the date is always the same, so equal modules are equal."""
    info = zipfile.ZipInfo(name)
    info.file_size = sum(memoryview(part).nbytes for part in parts)
    with archive.open(info, "w") as member:
        for part in parts:
            whole = memoryview(part).cast("B")
            for at in range(0, len(whole), _CHUNK):
                member.write(whole[at : at + _CHUNK])


@contextmanager
def _errors_of_writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise ModuleError(f"cannot write the module to {path}: {e.strerror or e}") from e


@contextmanager
def _errors_of_reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as e:
        raise ModuleError(f"there is no file {path}") from e
    except OSError as e:
        raise ModuleError(f"cannot read {path}: {e.strerror or e}") from e
    except (zipfile.BadZipFile, EOFError) as e:
        raise ModuleError(f"{path} is not a Tilework module, or it is cut short: {e}") from e
    except MemoryError as e:
        raise ModuleError(f"there is not enough memory to load {path}") from e
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as e:
        raise ModuleError(f"{path} is damaged ({type(e).__name__}: {e}); {_AGAIN}") from e
    except (NotImplementedError, RuntimeError) as e:  # what zipfile says of odd members
        raise ModuleError(f"{path} is damaged: {e}; {_AGAIN}") from e


def _manifest(text: bytes, path: Path) -> dict[str, Any]:
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModuleError(f"{path} is not a Tilework module")
    maker = manifest["engine_version"]
    abi = manifest.get("abi_version", f"before {ABI_READ[0]}")
    if abi not in ABI_READ:
        raise ModuleError(
            f"{path} was made by Tilework {maker} with ABI version {abi}, this is Tilework "
            f"{__version__} with ABI version {ABI_VERSION}: compile the network again, "
            "the records still hold its schedules"
        )
    return manifest


def _digests(given: Any) -> dict[str, str]:
    """Checksums by name, of code and constants and nothing else."""
    if not isinstance(given, dict) or _CONSTANTS not in given:
        raise ValueError(f"there is no checksum of {_CONSTANTS}")
    for name, digest in given.items():
        if not isinstance(digest, str) or not (name == _CONSTANTS or _CODE_NAME.fullmatch(name)):
            raise ValueError(f"there is an odd checksum of {name!r}")
    return given


class _Reader:
    """A member as a file that is read once, from the beginning, and hashed on the way.

    It must not be compressed, so that it is no larger than the file.
    """

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        info = archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed")
        self._member = cast("io.BufferedIOBase", archive.open(info))
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, fewer at the end only; by default all that are left."""
        data = self._member.read(size)
        self._hash.update(data)
        return data

    def into(self, out: memoryview) -> int:
        """Fill ``out``; returns how many bytes there were."""
        done = 0
        while count := self._member.readinto(out[done : done + _CHUNK]):
            self._hash.update(out[done : done + count])
            done += count
        return done

    def digest(self) -> str:
        """SHA-256 of the whole member."""
        while self.read(_CHUNK):
            pass
        return self._hash.hexdigest()


def _block(reader: _Reader, most: int) -> NDArray[np.uint8]:
    """The constants, in aligned memory of their own; ``most`` bytes are in the file."""
    begin = reader.read(10)
    header = _NPY.fullmatch(begin + reader.read(int.from_bytes(begin[8:], "little")))
    if header is None or int(header[1]) > most:
        raise ValueError(f"{_CONSTANTS} is no block of bytes")
    block = aligned_empty((int(header[1]),), "uint8")
    if reader.into(block.data) != block.nbytes or reader.read(1):
        raise ValueError(f"{_CONSTANTS} has not the {block.nbytes} bytes that it announces")
    return block
