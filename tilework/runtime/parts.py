"""A network in parts: modules of ours, and what another engine runs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.index.symbols import Point, Symbol
from tilework.runtime.arrays import check_array, random_array, ready_copy
from tilework.runtime.bound import BoundCall
from tilework.runtime.folder import write_folder
from tilework.runtime.image import TaskReport, recorded_text, tuned_text, with_shares
from tilework.runtime.module import Module, range_text
from tilework.runtime.names import all_given, in_order
from tilework.runtime.other import room, version
from tilework.runtime.parts_bound import BoundParts
from tilework.runtime.parts_image import Part, PartsImage, PartValue, rooms, solver_of
from tilework.runtime.signature import Key
from tilework.runtime.timing import BenchmarkResult, KernelTime, time_runs

Array = NDArray[Any]


class PartedModule:
    """A compiled network of which ONNX Runtime runs some parts: it is used like a `Module`.

    Attributes:
        image: its parts and their values.
        name: of the network.
        target: text of the target that our parts were compiled for.
        num_threads: threads of a run, for both engines; see `set_threads`.
    """

    def __init__(self, image: PartsImage, num_threads: int) -> None:
        self.image = image
        self.name, self.target = image.name, image.target
        self.num_threads = num_threads
        self._dying = _last_uses(image)
        self._sized = [v for v in self.inputs.values() if v.sized]
        self._solver = solver_of(f"module {image.name}", self._sized)
        self.set_threads(num_threads)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Extents that a run decides, with their ranges; none where all shapes are numbers."""
        return self._solver.symbols

    def point_at(self, at: Mapping[str, int] | None = None) -> dict[str, int]:
        """The values of all symbols, by name; typical ones where ``at`` gives none."""
        return {s.name: n for s, n in self._named(at).items()}

    def require(self, inputs: Mapping[str, Any]) -> None:
        """Refuse inputs of shapes that the network was not compiled for.

        Args:
            inputs: arrays by name.

        Raises:
            ShapeError: the message names the symbol, its value and its range.
        """
        self._point(inputs)

    @property
    def inputs(self) -> dict[str, PartValue]:
        """Inputs by name, in order."""
        return {n: self.image.values[n] for n in self.image.inputs}

    @property
    def outputs(self) -> tuple[PartValue, ...]:
        """What a run returns, in order."""
        return tuple(self.image.values[n] for n in self.image.outputs)

    @property
    def left(self) -> str:
        """What the other engine runs, in one line."""
        return self.image.left.text

    @property
    def modules(self) -> tuple[Module, ...]:
        """Our parts."""
        return tuple(p.runner for p in self.image.parts if isinstance(p.runner, Module))

    @property
    def report(self) -> tuple[TaskReport, ...]:
        """How each task was compiled; a task of several parts counts the calls of all."""
        reports: dict[tuple[Any, ...], TaskReport] = {}
        for one in (one for module in self.modules for one in module.report):
            key = (one.workload_key, one.source, one.sketch_id, one.decisions)
            weight = one.weight + (reports[key].weight if key in reports else 0)
            reports[key] = replace(one, weight=weight, share=None)
        return with_shares(list(reports.values()))

    def set_threads(self, num_threads: int) -> None:
        """Set the number of threads of the runs to come, of both engines.

        Raises:
            ModuleError: it is below 1, or above 1 where the code is for a single core.
        """
        if num_threads < 1:
            raise ModuleError(f"the number of threads must be at least 1, not {num_threads}")
        for part in self.image.parts:
            part.runner.set_threads(num_threads)
        self.num_threads = num_threads

    def run(self, inputs: Mapping[str, Any] | Any = None, *more: Any) -> list[Any]:
        """Run the network once.

        Args:
            inputs: values by input name; or one array, and the others after it, in order. What is
                no tensor is given as ONNX Runtime takes it: a sequence as a list.

        Returns:
            New arrays, one per output; what is no tensor as ONNX Runtime gives it.

        Raises:
            ModuleError: inputs are missing or unknown, or of another shape or type; or a node
                fails in the other engine, which the message names.
        """
        listed = in_order(self.image.inputs, all_given(inputs, more), lambda: _wanted(self))
        values = dict(zip(self.image.inputs, listed, strict=True))
        point = self._point(values) if self.symbols else {}
        for v in self._sized:
            values[v.name] = ready_copy(
                f"input {v.name}", values[v.name], v.known_at(point), v.dtype
            )
        given = list(values.values())
        for part, dying in zip(self.image.parts, self._dying, strict=True):
            values.update(zip(part.outputs, self.run_part(part, values, point), strict=True))
            for name in dying:
                del values[name]
        return _apart([values[n] for n in self.image.outputs], given)

    def bind(
        self,
        inputs: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
        threads: int | None = None,
        at: Mapping[str, int] | None = None,
    ) -> BoundCall:
        """A run with its arrays fixed, to be repeated; see `Module.bind`.

        What data decide the extents of lies elsewhere after every call: ``call.outputs`` has the
        latest.

        Raises:
            ModuleError: an input is no tensor of a fixed shape; or see `Module.bind`.
        """
        count = self.num_threads if threads is None else threads
        open_ones = [v.name for v in self.inputs.values() if not v.sized]
        if open_ones:
            raise ModuleError(
                f"module {self.name}: input {open_ones[0]} has no fixed type and shape, so that "
                "no array can be bound; use module.run"
            )
        given = self._bound_inputs(inputs or {}, at)
        calls = BoundParts(self.image, given, count, self._point(given))
        results: list[Any] = [None] * len(self.image.outputs)
        if outputs is not None and len(outputs) != len(results):
            raise ModuleError(
                f"module {self.name} has {len(results)} outputs, got {len(outputs)} arrays"
            )

        def run() -> None:
            values = calls()
            for i, name in enumerate(self.image.outputs):
                if outputs is None:
                    results[i] = values[name]
                    continue
                check_array(f"output {name}", outputs[i], *_kind(values[name]))
                outputs[i][...] = values[name]
                results[i] = outputs[i]

        return BoundCall(run, given, results)

    def benchmark(
        self,
        repeat: int = 3,
        min_repeat_ms: float = 500,
        threads: int | None = None,
        at: Mapping[str, int] | None = None,
    ) -> BenchmarkResult:
        """Time the network on random inputs; see `Module.benchmark`."""
        call = self.bind(self._random_inputs(at), threads=threads)
        call()
        return time_runs(call, repeat, min_repeat_ms)

    def profile(
        self,
        repeat: int = 10,
        threads: int | None = None,
        at: Mapping[str, int] | None = None,
    ) -> list[KernelTime]:
        """Time every kernel call of our parts, and each part of the other engine as a whole.

        The kernels of a part are timed within runs of that part on random inputs; parts of the
        other engine within runs of the network.
        """
        count = self.num_threads if threads is None else threads
        point = self.point_at(at)
        calls = BoundParts(self.image, self._random_inputs(at), count, self._named(at))
        calls()
        theirs = np.median([calls.timed() for _ in range(max(repeat, 1))], axis=0)
        rows: list[KernelTime] = []
        for number, part in enumerate(self.image.parts):
            if isinstance(part.runner, Module):
                mine = {s.name: point[s.name] for s in part.runner.symbols if s.name in point}
                rows += part.runner.profile(repeat, count, mine)
            else:
                what = f"{version()}: {', '.join(part.runner.model.operators)}"
                ms = 1e3 * theirs[number]
                rows.append(KernelTime(part.runner.label, what, ms, 0.0, 0.0, 0.0, 0.0, ""))
        total = sum(row.time_ms for row in rows)
        return [replace(row, share=row.time_ms / total) for row in rows]

    def summary(self) -> str:
        """A few lines on what the module is and how it was compiled."""
        threads = f"{self.num_threads} thread{'s' if self.num_threads != 1 else ''}"
        ours = len(self.modules)
        lines = [
            f"{self.name} for {self.target}, {threads}",
            *(f"  input  {_value_text(v)}" for v in self.inputs.values()),
            *(f"  output {_value_text(v)}" for v in self.outputs),
            *(f"  symbol {range_text(s)}" for s in self.image.symbols),
            f"  {len(self.image.parts)} parts, {ours} of them ours; {tuned_text(self.report)}",
            f"  {self.left}",
            *(f"  {note}" for note in self.image.notes),
        ]
        if self.report and all(r.tuned for r in self.report):
            lines.append(f"  {recorded_text(self.report)}")
        return "\n".join(lines)

    def save(self, path: str | PathLike[str], *, private_key: Key | None = None) -> None:
        """Write the module, with its present number of threads, to a folder.

        Args:
            path: of the folder; `tilework.runtime.folder` describes it.
            private_key: as in `Module.save`; the signature covers all files of the folder.

        Raises:
            ModuleError: it cannot be written, something else is there, or the key is none.
        """
        write_folder(self.image, self.num_threads, path, private_key)

    def __repr__(self) -> str:
        return f"<PartedModule {self.name} for {self.target}>"

    # --- inside --------------------------------------------------------------------------------

    def run_part(
        self, part: Part, values: Mapping[str, Any], point: Point | None = None
    ) -> list[Any]:
        """What a part makes of the values that it reads.

        Args:
            point: values of symbols; None: those that have the other engine make all arrays.
        """
        mine = {name: values[name] for name in part.inputs}
        if isinstance(part.runner, Module):
            return part.runner.run(mine)
        into = rooms(self.image, part, point or {})
        return part.runner.run(mine, into, self.num_threads)

    def _point(self, inputs: Mapping[str, Any]) -> Point:
        """The values of the symbols for the shapes of some inputs.

        Raises:
            ShapeError: they are none that the network was compiled for.
        """
        if not self.symbols:
            return {}
        values = self._solver.point([np.shape(inputs[v.name]) for v in self._sized])
        return dict(zip(self.symbols, values, strict=True))

    def _named(self, at: Mapping[str, int] | None) -> Point:
        return dict(zip(self.symbols, self._solver.named(at or {}), strict=True))

    def _bound_inputs(
        self, given: Mapping[str, Any], at: Mapping[str, int] | None
    ) -> dict[str, Any]:
        unknown = [str(n) for n in given if n not in self.image.inputs]
        if unknown:
            raise ModuleError(
                f"module {self.name} has no input {', '.join(unknown)}; "
                f"it has {', '.join(self.image.inputs)}"
            )
        missing = [n for n in self.image.inputs if n not in given]
        if self.symbols and at is None and missing:
            raise ModuleError(
                f"module {self.name}: shapes are symbolic: bind all inputs, or say what symbols "
                f"are, such as at={self.point_at()}"
            )
        point = self._point(given) if at is None and self.symbols else self._named(at)
        arrays: dict[str, Any] = {}
        for v in self.inputs.values():
            shape = tuple(v.known_at(point))
            own = room(v.dtype, shape)
            if v.name in given:
                check_array(f"input {v.name}", given[v.name], shape, v.dtype)
                arrays[v.name] = given[v.name]
            elif own is not None:
                own[...] = 0
                arrays[v.name] = own
        return arrays

    def _random_inputs(self, at: Mapping[str, int] | None) -> dict[str, Any]:
        rng, point = np.random.default_rng(0), self._named(at)
        out: dict[str, Any] = {}
        for v in self.inputs.values():
            if not v.sized:
                raise ModuleError(
                    f"module {self.name}: no random values can be made for input {_value_text(v)}"
                )
            out[v.name] = random_array(rng, v.known_at(point), v.dtype)
        return out


AnyModule = Module | PartedModule
"""A compiled network, whoever runs it."""


def _last_uses(image: PartsImage) -> list[list[str]]:
    """For each part, the values that nobody needs after it."""
    last: dict[str, int] = {}
    for number, part in enumerate(image.parts):
        last.update(dict.fromkeys((*part.inputs, *part.outputs), number))
    dying: list[list[str]] = [[] for _ in image.parts]
    for name, number in last.items():
        if name not in image.outputs:
            dying[number].append(name)
    return dying


def _apart(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Outputs as arrays of their own: none lies in an input's memory, or in another's."""
    taken = [a for a in inputs if isinstance(a, np.ndarray)]
    apart = []
    for value in outputs:
        if isinstance(value, np.ndarray):
            if any(np.may_share_memory(value, other) for other in taken):
                value = value.copy()
            taken.append(value)
        apart.append(value)
    return apart


def _wanted(module: PartedModule) -> str:
    inputs = ", ".join(map(_value_text, module.inputs.values()))
    return f"module {module.name} takes the inputs {inputs}"


def _kind(array: Any) -> tuple[tuple[int, ...], str]:
    return array.shape, str(array.dtype)


def _value_text(value: PartValue) -> str:
    if value.shape is None:
        return f"{value.name} {value.dtype}"
    return f"{value.name} {value.dtype}[{', '.join(map(str, value.shape))}]".replace("None", "?")
