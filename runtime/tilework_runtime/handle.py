"""A library in this process: its functions, and what it says of itself."""

from __future__ import annotations

import _ctypes
import ctypes
import weakref
from collections.abc import Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_void_p,
)
from pathlib import Path
from typing import Any

from tilework_runtime.elf import check_file
from tilework_runtime.errors import LibraryError

ABI, SYMBOLIC_ABI = 1, 2
"""Of libraries that this package can run: those of one shape, and those of ranges."""


class _Value(Structure):
    _fields_ = (
        ("name", c_char_p),
        ("dtype", c_char_p),
        ("shape", POINTER(c_int64)),
        ("bytes", c_int64),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
    )


class _Level(Structure):
    _fields_ = (
        ("name", c_char_p),
        ("target", c_char_p),
        ("needs", c_char_p),
        ("weights_bytes", c_int64),
        ("context_bytes", c_int64),
    )


class Description(Structure):
    """What a library says of itself, as its header has it."""

    _fields_ = (
        ("abi", c_int32),
        ("num_inputs", c_int32),
        ("num_outputs", c_int32),
        ("num_levels", c_int32),
        ("threads", c_int32),
        ("cores", c_int32),
        ("name", c_char_p),
        ("made_by", c_char_p),
        ("inputs", POINTER(_Value)),
        ("outputs", POINTER(_Value)),
        ("levels", POINTER(_Level)),
    )


class _Functions(Structure):
    _fields_ = (
        ("abi", c_int32),
        ("bytes", c_int32),
        ("describe", CFUNCTYPE(POINTER(Description))),
        ("create_at", CFUNCTYPE(c_int, c_char_p, c_int, POINTER(c_void_p))),
        ("run", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
        ("run_tensors", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
        ("level", CFUNCTYPE(c_char_p, c_void_p)),
        ("destroy", CFUNCTYPE(None, c_void_p)),
        ("last_error", CFUNCTYPE(c_char_p)),
    )


class _Symbol(Structure):
    _fields_ = (
        ("name", c_char_p),
        ("low", c_int64),
        ("high", c_int64),
        ("typical", c_int64),
    )


class _Room(Structure):
    _fields_ = (
        ("input", c_int32),
        ("output", c_int32),
        ("axis", c_int32),
        ("positions", c_int64),
    )


class _Symbols(Structure):
    _fields_ = (
        ("num_symbols", c_int32),
        ("num_rooms", c_int32),
        ("symbols", POINTER(_Symbol)),
        ("rooms", POINTER(_Room)),
        ("inputs", POINTER(POINTER(c_char_p))),
        ("outputs", POINTER(POINTER(c_char_p))),
    )


class _SymbolicFunctions(Structure):
    _fields_ = (
        ("common", _Functions),
        ("symbols", CFUNCTYPE(POINTER(_Symbols))),
        ("set_shapes", CFUNCTYPE(c_int, c_void_p, c_void_p)),
        ("set_symbols", CFUNCTYPE(c_int, c_void_p, c_void_p)),
        ("inputs", CFUNCTYPE(POINTER(_Value), c_void_p)),
        ("outputs", CFUNCTYPE(POINTER(_Value), c_void_p)),
    )


class Handle:
    """An open library; it is closed when nothing refers to it any more.

    Attributes:
        path: of the file.
        functions: what it can do.
        symbolic: what it can do besides where a run brings the shapes, else None.

    Raises:
        LibraryError: it cannot be opened here, or is none of Tilework's, or of another version.
    """

    def __init__(self, path: Path) -> None:
        check_file(path)
        try:
            self._library = ctypes.CDLL(str(path.absolute()))
        except OSError as e:
            raise LibraryError(f"cannot load {path}: {e}") from e
        weakref.finalize(self, _ctypes.dlclose, self._library._handle).atexit = False
        try:
            entry = self._library.tilework_library
        except AttributeError:
            raise LibraryError(
                f"{path} is a shared library, but no network that Tilework compiled"
            ) from None
        entry.restype = POINTER(_Functions)
        self.path = path
        found = entry()
        self.functions: Any = found.contents
        if self.functions.abi not in (ABI, SYMBOLIC_ABI):
            raise LibraryError(
                f"{path} has version {self.functions.abi} of the interface, this package runs "
                f"versions {ABI} and {SYMBOLIC_ABI}: install the tilework-runtime of the version "
                "that compiled it"
            )
        self.symbolic: Any = None
        if self.functions.abi == SYMBOLIC_ABI:
            self.symbolic = ctypes.cast(found, POINTER(_SymbolicFunctions)).contents

    def describe(self) -> Any:
        """What the library says of itself."""
        return self.functions.describe().contents

    def context(self, level: str | None, threads: int) -> Context:
        """New memory for a run.

        Raises:
            LibraryError: the level cannot run here, the weights are missing, there is no memory.
        """
        made = c_void_p()
        name = None if level is None else level.encode()
        if self.functions.create_at(name, threads, ctypes.byref(made)):
            raise LibraryError(f"{self.path}: {self.last_error()}")
        return Context(self, made)

    def last_error(self) -> str:
        """What the last call that failed in this thread says."""
        return str(self.functions.last_error().decode("utf-8", "replace"))


class Context:
    """Memory for one run at a time."""

    def __init__(self, handle: Handle, address: c_void_p) -> None:
        self.handle = handle
        self._address = address
        weakref.finalize(self, _destroy, handle, address).atexit = False

    @property
    def level(self) -> str:
        """The level that it runs at."""
        return str(self.handle.functions.level(self._address).decode())

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Make the next run one of inputs of these shapes.

        Raises:
            LibraryError: the network was not compiled for them; see the message.
        """
        each = [(c_int64 * max(len(shape), 1))(*shape) for shape in shapes]
        given = (c_void_p * max(len(each), 1))(*map(ctypes.addressof, each))
        self._require(self.handle.symbolic.set_shapes(self._address, given))

    def set_symbols(self, values: Sequence[int]) -> None:
        """The same by the values of the symbols, in order."""
        self._require(
            self.handle.symbolic.set_symbols(self._address, (c_int64 * len(values))(*values))
        )

    def input_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the next run's inputs, once they were set."""
        found = self.handle.symbolic.inputs(self._address)
        return _shapes(found, self.handle.describe().num_inputs)

    def output_shapes(self) -> list[tuple[int, ...]]:
        """The same of its outputs."""
        found = self.handle.symbolic.outputs(self._address)
        return _shapes(found, self.handle.describe().num_outputs)

    def run(self, inputs: Any, outputs: Any) -> None:
        """Run once on arrays of pointers.

        Raises:
            LibraryError: see the message.
        """
        self._require(self.handle.functions.run(self._address, inputs, outputs))

    def _require(self, failed: int) -> None:
        if failed:
            raise LibraryError(f"{self.handle.path}: {self.handle.last_error()}")


def _shapes(rows: Any, count: int) -> list[tuple[int, ...]]:
    return [tuple(rows[i].shape[: rows[i].ndim]) for i in range(count)]


def _destroy(handle: Handle, address: c_void_p) -> None:
    handle.functions.destroy(address)
