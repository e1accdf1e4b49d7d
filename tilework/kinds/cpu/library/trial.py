"""Whether a library computes what its module does, bit for bit; asked before it gets its name."""

from __future__ import annotations

import _ctypes
import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.runtime.bound import bound_inputs, positions, random_inputs, zeros
from tilework.runtime.image import Image
from tilework.runtime.module import Module
from tilework.te.points import typical_points

Array = NDArray[Any]


def try_level(path: Path, name: str, level: str, image: Image) -> None:
    """Run a library's level and the image on the same random inputs.

    Of symbolic shapes at a few points: the least, the typical ones, and an odd one between, one
    after another in one context.

    Args:
        path: of the library.
        name: its functions are called ``tw_NAME_create`` and so on.
        level: the image's.

    Raises:
        ModuleError: the library cannot be opened or run, or its output differs.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise ModuleError(f"the new library cannot be opened: {e}") from e
    try:
        trial = _Trial(library, name, level, image)
        try:
            for at in _points(image):
                trial.compare(at)
        finally:
            trial.end()
    finally:
        _ctypes.dlclose(library._handle)


def _points(image: Image) -> list[dict[str, int]]:
    """Where a library is tried: values of its symbols by name; one without any, if it has none.

    The first is one where there is nothing to compute, if that can be.
    """
    symbols = image.symbols
    least = {s.name: s.low for s in symbols}
    typical = [{s.name: n for s, n in at.items()} for at in typical_points(symbols)]
    odd = {s.name: min(s.high, s.low + 1 + (typical[-1][s.name] - s.low) // 3) for s in symbols}
    none = {s.name: 0 if s.or_none else s.low for s in symbols}
    points = [none, least, odd, *typical[:1], *typical[-1:]]
    return [at for n, at in enumerate(points) if at not in points[:n]]


class _Trial:
    """A context of a library, and the module that it must do the same as."""

    def __init__(self, library: ctypes.CDLL, name: str, level: str, image: Image) -> None:
        self._library, self._name, self._level, self._image = library, name, level, image
        self._module = Module(image)
        self._last_error = self._function("last_error")
        self._last_error.restype = ctypes.c_char_p
        self._context = ctypes.c_void_p()
        place = ctypes.byref(self._context)
        self._call("create_at", level.encode(), image.num_threads, place)

    def _function(self, word: str) -> Any:
        return self._library[f"tw_{self._name}_{word}"]

    def _call(self, word: str, *arguments: object) -> None:
        if self._function(word)(*arguments):
            said = self._last_error().decode()
            raise ModuleError(f"the new library does not run: {said}")

    def compare(self, at: Mapping[str, int]) -> None:
        """Run both at a point.

        Raises:
            ModuleError: outputs differ.
        """
        ends = self._module.image_at(at).ends
        given = random_inputs(ends)
        wanted = self._module.run(bound_inputs(ends, given))
        if self._image.symbols:
            values = [at[s.name] for s in self._image.symbols]
            self._call("set_symbols", self._context, (ctypes.c_int64 * len(values))(*values))
        outputs = [given[v.io] if v.io in ends.continued else zeros(v) for v in ends.outputs]
        self._call("run", self._context, _pointers(given), _pointers(outputs))
        for value, mine, theirs in zip(ends.outputs, wanted, outputs, strict=True):
            written = positions(theirs, ends, value) if value.io in ends.continued else theirs
            if mine.tobytes() != written.tobytes():
                where = "".join(f", {name} = {n}" for name, n in at.items()).replace(",", " at", 1)
                raise ModuleError(
                    "the new library computes something else than the module: output "
                    f"{value.name} at level {self._level}{where}"
                )

    def end(self) -> None:
        """Give the context back."""
        self._function("destroy")(self._context)


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
