"""Shared libraries of compiled networks: the room ``library`` of CPUs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from io import RawIOBase
from pathlib import Path

from tilework.errors import ModuleError
from tilework.kinds.cpu.code_features import lacking_features
from tilework.kinds.cpu.library.header import SOURCES, header_text, identifier
from tilework.kinds.cpu.library.levels import in_order, level_name, level_target
from tilework.kinds.cpu.library.linker import Linker, find_linker
from tilework.kinds.cpu.library.objects import hidden_objects
from tilework.kinds.cpu.library.tables import (
    Level,
    WeightsFile,
    WeightsInside,
    symbol_prefix,
    tables_text,
)
from tilework.kinds.cpu.library.trial import try_level
from tilework.kinds.cpu.library.weights import PAGE, Weights, join_weights
from tilework.kinds.cpu.llvm.pool import plainest_target, pool_object
from tilework.overriding import override
from tilework.runtime.image import Image
from tilework.runtime.library import Libraries, Library, LibraryLevel, WeightsPlace
from tilework.target import Target
from tilework.target.host import HOST_PLATFORM
from tilework.whole import folder_beside

_MOST_INSIDE = 3 << 29
"""Code finds its data within 2 GiB: larger weights have to lie beside the library."""
_HUGE_PAGE = 1 << 21
_LARGE = 4 * _HUGE_PAGE
"""Weights from this size begin at a multiple of a huge page, so that they can lie on some."""
_CHUNK = 16 << 20


class CpuLibraries(Libraries):
    """`tilework.runtime.library.Libraries` for CPUs."""

    @override
    def require(self, platform: str, path: Path) -> None:
        identifier(_stem(path))
        find_linker(platform)

    @override
    def level_target(self, word: str, native: Target) -> str:
        return str(Target(level_target(word, native)))

    def write(
        self, images: Sequence[Image], path: Path, header: Path | None, weights: WeightsPlace
    ) -> Library:
        """See `tilework.runtime.library.write_library`."""
        path, ordered = path.absolute(), in_order(images)
        linker = find_linker(ordered[0].platform)
        joined = join_weights(ordered)
        if weights == "inside" and joined.nbytes > _MOST_INSIDE:
            raise ModuleError(
                f"the weights take {joined.nbytes >> 20} MiB, which is too much to lie inside a "
                "library: put them beside it"
            )
        levels = [Level(level_name(i), i, p) for i, p in zip(ordered, joined.placed, strict=True)]
        try:
            with folder_beside(path) as folder:
                library = _Draft(folder, path, levels, joined, weights == "beside")
                library.build(linker)
                checked = library.check()
                library.keep(header)
        except OSError as e:
            raise ModuleError(f"cannot write the library {path}: {e.strerror or e}") from e
        beside = path.with_name(library.weights_name) if weights == "beside" else None
        return Library(
            path,
            library.name,
            header,
            beside,
            tuple(
                LibraryLevel(v.name, v.image.target, v.placed.nbytes, v.name in checked)
                for v in levels
            ),
            path.stat().st_size + (beside.stat().st_size if beside is not None else 0),
            linker.name,
        )


class _Draft:
    """A library in a temporary folder beside its place."""

    def __init__(
        self, folder: Path, path: Path, levels: Sequence[Level], weights: Weights, beside: bool
    ) -> None:
        self.name = identifier(_stem(path))
        self.weights_name = f"{_stem(path)}.weights"
        self._folder, self._path, self._levels = folder, path, levels
        self._weights, self._beside = weights, beside
        first = levels[0].image
        self._header = header_text(self.name, first.name, first)

    @property
    def _library(self) -> Path:
        return self._folder / self._path.name

    def build(self, linker: Linker) -> None:
        """Write sources, objects and weights, and link them."""
        work = self._folder / "work"
        work.mkdir()
        (work / "network.h").write_text(self._header, encoding="utf-8")
        names = f"#define TW_CONTEXT tw_{self.name}\n#define TW(x) tw_{self.name}_##x\n"
        for part in SOURCES.glob("*.c"):
            shutil.copy(part, work)
        source = (SOURCES / "library.c").read_text(encoding="utf-8")
        (work / "library.c").write_text(names + source, encoding="utf-8")
        first = self._levels[0].image
        tables = tables_text(first.name, self._levels, self._put_weights(work))
        (work / "tables.h").write_text(tables, encoding="utf-8")
        files = [work / "library.c"]
        for i, level in enumerate(self._levels):
            prefix = symbol_prefix(i)
            for name, data in hidden_objects(level.image.code, prefix).items():
                files.append(work / f"{prefix}{name}")
                files[-1].write_bytes(data)
        if first.cores > 1:
            pool = pool_object(plainest_target(first.platform))
            files.append(work / "pool.o")
            files[-1].write_bytes(hidden_objects({"": pool}, "")[""])
        out = work / "linked.so"
        linker.link(out, files, ["-lm", "-lpthread", "-ldl"], self._path.name)
        with out.open("rb") as linked:
            _write(self._library, iter(lambda: linked.read(_CHUNK), b""))
        self._library.chmod(0o755)
        shutil.rmtree(work)

    def _put_weights(self, work: Path) -> WeightsInside | WeightsFile:
        """Write the weights; what the tables have to say of them."""
        if not self._beside:
            path = work / "weights.bin"
            _write(path, self._weights.chunks())
            large = self._weights.nbytes >= _LARGE
            return WeightsInside(path.name, _HUGE_PAGE if large else PAGE)
        line = f"Tilework weights 1 {self._weights.digest()} {self._weights.nbytes}\n"
        _write(self._folder / self.weights_name, [*self._weights.chunks(), line.encode()])
        return WeightsFile(self.weights_name, self._weights.nbytes, line)

    def check(self) -> set[str]:
        """Try the levels that this machine can run; returns their names.

        Raises:
            ModuleError: one of them computes something else than its module.
        """
        tried = set()
        for level in self._levels:
            image = level.image
            if image.platform == HOST_PLATFORM and not lacking_features(image.needs):
                try_level(self._library, self.name, level.name, image)
                tried.add(level.name)
        return tried

    def keep(self, header: Path | None) -> None:
        """Give all files their names."""
        if self._beside:
            os.replace(self._folder / self.weights_name, self._path.with_name(self.weights_name))
        os.replace(self._library, self._path)
        if header is not None:
            draft = self._folder / "header"
            draft.write_text(self._header, encoding="utf-8")
            shutil.move(draft, header)


def _stem(path: Path) -> str:
    """A library's name without what files of libraries begin and end with."""
    return path.name.partition(".")[0].removeprefix("lib")


def _write(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file in large pieces: the system's cache then holds it in huge pages.

    Kernels that stream weights take up to 4 % longer with small ones.
    """
    with path.open("wb", buffering=0) as file:
        waiting = bytearray()
        for chunk in chunks:
            waiting += chunk
            if len(waiting) >= _CHUNK:
                _write_all(file, memoryview(waiting)[: len(waiting) // _HUGE_PAGE * _HUGE_PAGE])
                del waiting[: len(waiting) // _HUGE_PAGE * _HUGE_PAGE]
        _write_all(file, memoryview(waiting))


def _write_all(file: RawIOBase, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) or 0 :]


LIBRARIES = CpuLibraries()
