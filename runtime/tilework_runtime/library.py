"""A network's library as its users hold it: NumPy arrays in, NumPy arrays out."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tilework_runtime.errors import LibraryError
from tilework_runtime.handle import Context, Handle
from tilework_runtime.values import Value

Array = NDArray[Any]


@dataclass(frozen=True)
class Level:
    """Code for one kind of CPU.

    Attributes:
        name: what `load` takes.
        target: what it was compiled for.
        needs: features of CPUs.
        weights_bytes: of its constants, which all runs share.
        context_bytes: of what each run at a time has for itself.
    """

    name: str
    target: str
    needs: tuple[str, ...]
    weights_bytes: int
    context_bytes: int


class BoundCall:
    """A run with its arrays fixed; what it is made of lives as long as it does.

    Attributes:
        inputs: the arrays that a call reads, by name; fill them in place.
        outputs: the arrays that a call writes.
    """

    def __init__(
        self, context: Context, inputs: dict[str, Array], outputs: Sequence[Array]
    ) -> None:
        self.inputs = inputs
        self.outputs = list(outputs)
        self._context = context
        self._from, self._to = _pointers(list(inputs.values())), _pointers(self.outputs)

    def __call__(self) -> list[Array]:
        """Run once; returns `outputs`.

        Raises:
            LibraryError: it runs in another thread.
        """
        self._context.run(self._from, self._to)
        return self.outputs


class Library:
    """A compiled network. Several threads may run it at once.

    Attributes:
        name: of the network.
        inputs, outputs: what a run takes and returns, in order.
        levels: kinds of CPU that it has code for, the best first.
    """

    def __init__(self, path: Path, threads: int, level: str | None) -> None:
        self._handle: Handle | None = Handle(path)
        self._threads, self._wanted = threads, level
        about = self._handle.describe()
        self.name = _text(about.name)
        self.inputs = {v.name: v for v in _values(about.inputs, about.num_inputs)}
        self.outputs = _values(about.outputs, about.num_outputs)
        self.levels = tuple(_level(about.levels[i]) for i in range(about.num_levels))
        self._idle: list[Context] = [self._handle.context(level, threads)]
        self._level = self._idle[0].level

    @property
    def level(self) -> str:
        """The level that runs here."""
        return self._level

    def run(self, inputs: Mapping[str, Any] | Any = None, *more: Any) -> list[Array]:
        """Run the network once.

        Args:
            inputs: arrays by input name; or one array, and the others after it, in order.

        Returns:
            New arrays, one for each output.

        Raises:
            LibraryError: inputs are missing or unknown, or of another shape or type; or the
                library was closed.
        """
        values = list(self.inputs.values())
        given = self._in_order(inputs, more)
        arrays = [v.taken("input", a) for v, a in zip(values, given, strict=True)]
        outputs = [v.empty() for v in self.outputs]
        context = self._context()
        try:
            context.run(_pointers(arrays), _pointers(outputs))
        finally:
            self._idle.append(context)
        return outputs

    def bind(
        self, inputs: Mapping[str, Any] | None = None, outputs: Sequence[Any] | None = None
    ) -> BoundCall:
        """A run with its arrays fixed and memory of its own, to be repeated at the least cost.

        Args:
            inputs: dense arrays by name; those that are not given are made.
            outputs: dense arrays, all or none.

        Raises:
            LibraryError: an array is unknown, not dense, or of another shape or type.
        """
        given = dict(inputs or {})
        if unknown := [name for name in given if name not in self.inputs]:
            raise LibraryError(f"{self._wants()}; unknown {', '.join(map(str, unknown))}")
        if outputs is not None and len(outputs) != len(self.outputs):
            raise LibraryError(f"network {self.name} has {len(self.outputs)} outputs")
        taken = {
            v.name: _dense("input", v, given[v.name]) if v.name in given else v.empty()
            for v in self.inputs.values()
        }
        written = [v.empty() for v in self.outputs] if outputs is None else list(outputs)
        for value, array in zip(self.outputs, written, strict=True):
            _dense("output", value, array)
        return BoundCall(self._new_context(), taken, written)

    def close(self) -> None:
        """Give up the memory of runs, and the library once no bound call is left."""
        self._handle = None
        self._idle.clear()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Library {self.name} at {self._level}>"

    def _context(self) -> Context:
        # one step, so that two threads cannot take the same one
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_context()

    def _new_context(self) -> Context:
        if self._handle is None:
            raise LibraryError(f"network {self.name} was closed: load it again")
        return self._handle.context(self._wanted, self._threads)

    def _in_order(self, inputs: Any, more: Sequence[Any]) -> list[Any]:
        names = list(self.inputs)
        if isinstance(inputs, Mapping) and not more:
            missing = [n for n in names if n not in inputs]
            unknown = [str(n) for n in inputs if n not in self.inputs]
            if missing or unknown:
                told = [f"missing {', '.join(missing)}"] if missing else []
                told += [f"unknown {', '.join(unknown)}"] if unknown else []
                raise LibraryError(f"{self._wants()}; {' and '.join(told)}")
            return [inputs[n] for n in names]
        given = [] if inputs is None else [inputs, *more]
        if len(given) != len(names):
            raise LibraryError(f"{self._wants()}; {len(given)} were given")
        return given

    def _wants(self) -> str:
        return f"network {self.name} takes the inputs {', '.join(map(str, self.inputs.values()))}"


def load(path: str | PathLike[str], *, threads: int = 0, level: str | None = None) -> Library:
    """Open a network's library.

    A library is native code: loading it is running a program. Load only files that you trust.

    Args:
        path: of a file that ``tilework compile NET -o net.so`` wrote.
        threads: of each run; 0: as compiled, but no more than the cores of this process.
        level: a name in `Library.levels`; by default the best one that this CPU can run.

    Raises:
        LibraryError: the file is missing, damaged, for another machine, no network of Tilework's,
            or of another version; its weights are missing; or this CPU cannot run it.
    """
    return Library(Path(path), threads, level)


def _values(rows: Any, count: int) -> tuple[Value, ...]:
    return tuple(
        Value(_text(v.name), tuple(v.shape[k] for k in range(v.ndim)), _text(v.dtype))
        for v in (rows[i] for i in range(count))
    )


def _level(row: Any) -> Level:
    needs = tuple(_text(row.needs).split())
    return Level(_text(row.name), _text(row.target), needs, row.weights_bytes, row.context_bytes)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _dense(what: str, value: Value, array: Any) -> Array:
    value.check(what, array)
    if not array.flags.c_contiguous:
        raise LibraryError(f"{what} {value.name} is not dense: copy it with np.ascontiguousarray")
    result: Array = array
    return result


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
