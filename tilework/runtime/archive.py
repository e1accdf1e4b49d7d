"""Module files (``.tw``): a zip of a JSON manifest, object files, and the constants as .npy.

    manifest.json    format and engine version, platform, checksums of the other members, and the
                     `Image` without its code and constants
    code/NAME.o      object files
    constants.npy    the block of packed constants

No member is pickled. A module file holds machine code, though: load only files that you trust.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tilework.errors import ModuleError
from tilework.kinds.cpu.code_features import lacking_features
from tilework.runtime.arrays import aligned_copy
from tilework.runtime.image import Image, Ref, Step, TaskReport, Value
from tilework.runtime.module import Module
from tilework.target import HOST_PLATFORM
from tilework.version import __version__

FORMAT = "tilework module"
FORMAT_VERSION = 2
_MANIFEST = "manifest.json"
_CONSTANTS = "constants.npy"


def save_module(image: Image, path: str | PathLike[str]) -> None:
    """Write an image to a file, whole or not at all.

    Raises:
        ModuleError: the file cannot be written.
    """
    block = io.BytesIO()
    np.save(block, image.constants, allow_pickle=False)
    members: dict[str, bytes | memoryview] = {
        f"code/{name}.o": code for name, code in image.code.items()
    }
    members[_CONSTANTS] = block.getbuffer()
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "engine_version": __version__,
        "platform": image.platform,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        "image": _image_to_json(image),
    }
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            with open(part, "wb") as out:
                with zipfile.ZipFile(out, "w") as archive:
                    archive.writestr(_MANIFEST, json.dumps(manifest, indent=1))
                    for name, data in members.items():
                        archive.writestr(name, data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as e:
        raise ModuleError(f"cannot write the module to {target}: {e.strerror or e}") from e


def load_module(path: str | PathLike[str]) -> Module:
    """Read a module file that this machine can run.

    Raises:
        ModuleError: the file is missing, no module, or damaged; it was made by another version of
            Tilework; or its code needs another platform or CPU.
    """
    image = _read(Path(path))
    return Module(image)


def _read(path: Path) -> Image:
    again = "compile the network again and save it"
    try:
        with zipfile.ZipFile(path) as archive:
            if _MANIFEST not in archive.namelist():
                raise ModuleError(f"{path} is not a Tilework module: it has no {_MANIFEST}")
            manifest = _manifest(archive.read(_MANIFEST), path)
            _check_fits(manifest, path)
            data: dict[str, bytes] = {}
            for name, digest in manifest["sha256"].items():
                data[name] = archive.read(name)
                if hashlib.sha256(data[name]).hexdigest() != digest:
                    raise ModuleError(f"{path} is damaged: {name} has a wrong checksum; {again}")
        block = np.load(io.BytesIO(data.pop(_CONSTANTS)), allow_pickle=False)
        code = {Path(name).stem: data[name] for name in manifest["sha256"] if name in data}
        return _image_from_json(manifest["image"], aligned_copy(block), code)
    except FileNotFoundError as e:
        raise ModuleError(f"there is no file {path}") from e
    except OSError as e:
        raise ModuleError(f"cannot read {path}: {e.strerror or e}") from e
    except (zipfile.BadZipFile, EOFError) as e:
        raise ModuleError(f"{path} is not a Tilework module, or it is cut short: {e}") from e
    except (KeyError, TypeError, ValueError) as e:
        raise ModuleError(f"{path} is damaged ({type(e).__name__}: {e}); {again}") from e


def _manifest(text: bytes, path: Path) -> dict[str, Any]:
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModuleError(f"{path} is not a Tilework module")
    return manifest


def _check_fits(manifest: dict[str, Any], path: Path) -> None:
    """Refuse a file that this version on this machine cannot run."""
    made, here = manifest["engine_version"], __version__
    if (made, manifest["format_version"]) != (here, FORMAT_VERSION):
        raise ModuleError(
            f"{path} was made by Tilework {made} (file format {manifest['format_version']}), this "
            f"is {here} (file format {FORMAT_VERSION}): compile the network again, the records "
            "still hold its schedules"
        )
    target = manifest["image"]["target"]
    if manifest["platform"] != HOST_PLATFORM:
        raise ModuleError(
            f"{path} has code for {manifest['platform']}, this is {HOST_PLATFORM}: load it there, "
            "or compile the network for this machine"
        )
    lacking = lacking_features(manifest["image"]["cpu_features"])
    if lacking:
        raise ModuleError(
            f"{path} was compiled for '{target}' and needs {', '.join(lacking)}, which this CPU "
            "lacks: compile the network for 'llvm -mcpu=native' here"
        )


def _image_to_json(image: Image) -> dict[str, Any]:
    return {
        "name": image.name,
        "target": image.target,
        "platform": image.platform,
        "num_threads": image.num_threads,
        "cores": image.cores,
        "cpu_features": image.cpu_features,
        "inputs": [asdict(v) for v in image.inputs],
        "outputs": [asdict(v) for v in image.outputs],
        "steps": [asdict(s) for s in image.steps],
        "arena_bytes": image.arena_bytes,
        "workspaces": image.workspaces,
        "report": [asdict(r) for r in image.report],
    }


def _image_from_json(data: dict[str, Any], constants: Any, code: dict[str, bytes]) -> Image:
    def value(v: dict[str, Any]) -> Value:
        return Value(**{**v, "shape": tuple(v["shape"])})

    def step(s: dict[str, Any]) -> Step:
        return Step(**{**s, "args": tuple(Ref(*r) for r in s["args"])})

    def report(r: dict[str, Any]) -> TaskReport:
        return TaskReport(**{**r, "decisions": tuple(r["decisions"])})

    return Image(
        name=data["name"],
        target=data["target"],
        platform=data["platform"],
        num_threads=data["num_threads"],
        cores=data["cores"],
        cpu_features=tuple(data["cpu_features"]),
        inputs=tuple(map(value, data["inputs"])),
        outputs=tuple(map(value, data["outputs"])),
        steps=tuple(map(step, data["steps"])),
        arena_bytes=data["arena_bytes"],
        workspaces=tuple((a, b) for a, b in data["workspaces"]),
        constants=constants,
        code=code,
        report=tuple(map(report, data["report"])),
    )
