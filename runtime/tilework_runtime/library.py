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
from tilework_runtime.past import Past, Room, filled
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


@dataclass(frozen=True)
class Symbol:
    """A number that the shapes of the inputs bring.

    Attributes:
        low, high: the least and the greatest value.
        typical: what schedules were chosen for, among others.
    """

    name: str
    low: int
    high: int
    typical: int


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
        symbols: what a run decides; none where all shapes are numbers.
    """

    def __init__(self, path: Path, threads: int, level: str | None) -> None:
        self._handle: Handle | None = Handle(path)
        self._threads, self._wanted = threads, level
        about = self._handle.describe()
        self.name = _text(about.name)
        self.symbols: tuple[Symbol, ...] = ()
        self._rooms: tuple[Room, ...] = ()
        dims = None, None
        if self._handle.symbolic is not None:
            ranges = self._handle.symbolic.symbols().contents
            self.symbols = tuple(
                Symbol(_text(s.name), s.low, s.high, s.typical)
                for s in ranges.symbols[: ranges.num_symbols]
            )
            self._rooms = tuple(
                Room(r.input, r.output, r.axis, r.positions)
                for r in ranges.rooms[: ranges.num_rooms]
            )
            dims = ranges.inputs, ranges.outputs
        self.inputs = {v.name: v for v in _values(about.inputs, about.num_inputs, dims[0])}
        self.outputs = _values(about.outputs, about.num_outputs, dims[1])
        self.levels = tuple(_level(about.levels[i]) for i in range(about.num_levels))
        self._idle: list[Context] = [self._handle.context(level, threads)]
        self._level = self._idle[0].level

    @property
    def level(self) -> str:
        """The level that runs here."""
        return self._level

    def run(
        self, inputs: Mapping[str, Any] | Any = None, *more: Any, past: Past | None = None
    ) -> list[Array]:
        """Run the network once.

        Args:
            inputs: arrays by input name; or one array, and the others after it, in order.
            past: what the run continues, in place of the inputs that are its; the run's positions
                are behind it afterwards.

        Returns:
            New arrays, one for each output; of outputs that continue a past, views of its memory.

        Raises:
            LibraryError: inputs are missing or unknown, or of another shape or type; or the
                library was closed.
        """
        mine = {} if past is None else past.arrays()
        wanted = [v for v in self.inputs.values() if v.name not in mine]
        given = self._in_order(wanted, inputs, more)
        taken = {v.name: v.taken("input", a) for v, a in zip(wanted, given, strict=True)}
        arrays = [mine[name] if name in mine else taken[name] for name in self.inputs]
        values, places = list(self.inputs.values()), list(arrays)
        for n, room in enumerate(self._rooms):
            if past is None:
                places[room.input] = filled(room, values[room.input], arrays[room.input])
            else:
                places[room.input] = list(past.buffers.values())[n]
        context = self._context()
        try:
            outputs = self._new_outputs(context, arrays, places)
            context.run(_pointers(places), _pointers(outputs))
        finally:
            self._idle.append(context)
        if past is not None:
            room = self._rooms[0]
            past.length = outputs[room.output].shape[room.axis]
        return outputs

    def new_past(self, **symbols: int) -> Past:
        """Memory for the positions of a sequence, which runs continue in place.

        Args:
            symbols: the values of symbols that decide how much, such as ``batch=2``.

        Raises:
            LibraryError: the network continues no input in its memory; or a value is outside its
                range.
        """
        if not self._rooms:
            raise LibraryError(f"network {self.name} continues no input in its memory")
        names = [s.name for s in self.symbols]
        if unknown := [name for name in symbols if name not in names]:
            raise LibraryError(f"network {self.name} has no symbol {', '.join(unknown)}")
        context = self._context()
        try:
            context.set_symbols([symbols.get(s.name, s.low) for s in self.symbols])
            shapes = context.input_shapes()
        finally:
            self._idle.append(context)
        values = list(self.inputs.values())
        pairs = [(values[room.input], room) for room in self._rooms]
        return Past(self._rooms, {v.name: r.empty(v, shapes[r.input]) for v, r in pairs})

    def bind(
        self, inputs: Mapping[str, Any] | None = None, outputs: Sequence[Any] | None = None
    ) -> BoundCall:
        """A run with its arrays fixed and memory of its own, to be repeated at the least cost.

        Args:
            inputs: dense arrays by name; those that are not given are made, where their shapes are
                known.
            outputs: dense arrays, all or none.

        Raises:
            LibraryError: an array is unknown, not dense, or of another shape or type.
        """
        given = dict(inputs or {})
        if unknown := [name for name in given if name not in self.inputs]:
            raise LibraryError(f"{self._wants()}; unknown {', '.join(map(str, unknown))}")
        if outputs is not None and len(outputs) != len(self.outputs):
            raise LibraryError(f"network {self.name} has {len(self.outputs)} outputs")
        if self._rooms:
            raise LibraryError(f"network {self.name} continues its past: run it with new_past()")
        taken = {
            v.name: _dense("input", v, given[v.name]) if v.name in given else v.empty()
            for v in self.inputs.values()
        }
        context = self._new_context()
        written = self._new_outputs(context, list(taken.values()), [])
        if outputs is not None:
            pairs = zip(self.outputs, written, outputs, strict=True)
            written = [_dense("output", v.of_shape(a.shape), b) for v, a, b in pairs]
        return BoundCall(context, taken, written)

    def _new_outputs(
        self, context: Context, arrays: Sequence[Array], places: Sequence[Array]
    ) -> list[Array]:
        """Arrays for the outputs of a run on these inputs; of what is continued, in its place."""
        if not self.symbols:
            return [v.empty() for v in self.outputs]
        context.set_shapes([a.shape for a in arrays])
        shapes = context.output_shapes()
        rooms = {room.output: room for room in self._rooms}
        return [
            r.first(places[r.input], shape[r.axis])
            if (r := rooms.get(n)) is not None
            else v.of_shape(shape).empty()
            for n, (v, shape) in enumerate(zip(self.outputs, shapes, strict=True))
        ]

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

    def _in_order(self, wanted: Sequence[Value], inputs: Any, more: Sequence[Any]) -> list[Any]:
        names = [v.name for v in wanted]
        if isinstance(inputs, Mapping) and not more:
            missing = [n for n in names if n not in inputs]
            unknown = [str(n) for n in inputs if n not in names]
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


def _values(rows: Any, count: int, dims: Any) -> tuple[Value, ...]:
    """What a library says of its inputs or outputs; `dims` are texts, where a run decides some."""
    return tuple(
        Value(
            _text(v.name),
            tuple(n if n >= 0 else _text(dims[i][k]) for k, n in enumerate(v.shape[: v.ndim])),
            _text(v.dtype),
        )
        for i, v in enumerate(rows[:count])
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
