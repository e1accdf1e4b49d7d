"""A compiled network as the user holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.index.symbols import Symbol
from tilework.runtime import kernel_times
from tilework.runtime.archive import write_image
from tilework.runtime.bound import (
    BoundCall,
    bound_inputs,
    bound_outputs,
    given_inputs,
    io_buffers,
    new_outputs,
    random_inputs,
    results,
)
from tilework.runtime.contexts import Contexts, mib
from tilework.runtime.executor import Roofline, executor_of
from tilework.runtime.image import (
    Image,
    TaskReport,
    Value,
    recorded_text,
    tuned_text,
    winograd_text,
)
from tilework.runtime.names import all_given, in_order
from tilework.runtime.past import Past, run_behind
from tilework.runtime.signature import Key
from tilework.runtime.sites import Site
from tilework.runtime.timing import BenchmarkResult, KernelTime, time_runs

Array = NDArray[Any]

_PRECISIONS = {
    "bf16": "weights and intermediate values, sums in float32",
    "f16": "weights and intermediate values, sums in float32",
    "tf32": "factors of products, sums in float32",
}
"""What calls are marked with whose precision is not float32, and what that means."""


class Module:
    """A compiled network: NumPy arrays in, NumPy arrays out.

    Several Python threads may run one module at once: each run has memory of its own for
    intermediate values (a context, kept for later runs), and all share weights and code. On a CPU
    all runs of a process share its cores: a run of several threads has those that no other run
    keeps busy, and its caller's own in any case.

    Attributes:
        name: of the network.
        target: text of the target that it was compiled for.
        num_threads: threads of a run; see `set_threads`.
        report: how each task was compiled.
    """

    def __init__(self, image: Image) -> None:
        self.image = image
        self.name = image.name
        self.target = image.target
        self.report: tuple[TaskReport, ...] = image.report
        self.num_threads = image.num_threads
        self._contexts = Contexts(image)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Extents that a run decides, with their ranges; none where all shapes are numbers."""
        return self.image.symbols

    def image_at(self, at: Mapping[str, int] | None = None) -> Image:
        """The image with numbers for shapes and places, for tables.

        Args:
            at: the values of symbols, by name; typical ones where none is given.
        """
        return self._contexts.sites.named(at).image

    def point_at(self, at: Mapping[str, int] | None = None) -> dict[str, int]:
        """The values of all symbols, by name; typical ones where ``at`` gives none."""
        return {s.name: n for s, n in self._contexts.sites.named(at).point.items()}

    def require(self, inputs: Mapping[str, Any]) -> None:
        """Refuse inputs of shapes that the module was not compiled for.

        Args:
            inputs: arrays by name.

        Raises:
            ShapeError: the message names the symbol, its value and its range.
        """
        self._contexts.sites.of([inputs[v.name] for v in self.image.inputs])

    @property
    def inputs(self) -> dict[str, Value]:
        """Inputs by name, in order."""
        return {v.name: v for v in self.image.inputs}

    @property
    def outputs(self) -> tuple[Value, ...]:
        """What a run returns, in order."""
        return self.image.outputs

    def set_threads(self, num_threads: int) -> None:
        """Set the number of threads of the runs to come.

        Raises:
            ModuleError: it is below 1, or above 1 where the code is for a single core.
        """
        self.num_threads = self._threads(num_threads)

    def run(
        self,
        inputs: Mapping[str, Any] | Any = None,
        *more: Any,
        past: Past | None = None,
        wanted: Sequence[int] | None = None,
        into: Mapping[str, Array] | None = None,
    ) -> list[Array]:
        """Run the network once.

        Args:
            inputs: arrays by input name; or one array, and the others after it, in order.
            past: what the run continues, in place of the inputs that are its; the run's positions
                are behind it afterwards.
            wanted: the numbers of the outputs to return; None: all.
            into: by name, arrays for outputs that replace positions of an input; others are of no
                effect. One that is the input as well is written in place, another one gets a copy
                of it first.

        Returns:
            New arrays, one per output; of outputs that continue a past, views of its memory.

        Raises:
            ModuleError: inputs are missing or unknown, or of another shape or type; or this CPU
                cannot run the code; or the past is another module's, in use, or full.
        """
        if past is not None:
            image, threads = self.image, self.num_threads
            outputs = None if more else past.follow(image, threads, inputs, wanted)
            if outputs is None:
                read = self._arrays(image.ends.fed, inputs, more)
                outputs = run_behind(past, read, image, self._contexts, threads, wanted)
            return outputs
        arrays = self._arrays(self.image.inputs, inputs, more)
        site = self._contexts.sites.of(arrays)
        ends, dims = self.image.ends, site.dims
        buffers = [*given_inputs(ends, dims, arrays, into or {}), *new_outputs(ends, dims)]
        self._contexts.run(site, buffers, self.num_threads)
        outputs = results(ends, dims, buffers)
        return outputs if wanted is None else [outputs[n] for n in wanted]

    def new_past(self, arrays: Mapping[str, Any] | None = None) -> Past:
        """Memory for the positions of a sequence, which runs continue in place.

        Args:
            arrays: what to begin with, by name of each input that is continued, such as `arrays`
                of another past; it is copied. By default nothing.

        Raises:
            ModuleError: the module was compiled without ``in_place=True``; or an array is missing
                or unknown, or has another shape or type.
        """
        return Past(self.image, arrays)

    def by_address(
        self, threads: int, at: Mapping[str, int] | None = None
    ) -> Callable[[Sequence[int]], None]:
        """A run on memory of the caller, named at each call; it costs a microsecond or two.

        The call has memory of its own for intermediate values. One thread at a time may use it.

        Args:
            threads: number of threads.
            at: the values of symbols, by name.

        Returns:
            A function of addresses, one for each of the image's ``io_values``. There must be room
            for the value, contiguous, at a 64-byte boundary, apart from the others; inputs are
            read, the others written.

        Raises:
            ModuleError: this CPU cannot run the code, or the module is for a GPU.
        """
        site = self._contexts.sites.named(at)
        bind = getattr(self._contexts.new(site), "bind_addresses", None)
        if bind is None:
            raise ModuleError(f"module {self.name}: only CPUs run on memory named by its address")
        call: Callable[[Sequence[int]], None] = bind(self._threads(threads))
        return call

    def bind(
        self,
        inputs: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
        threads: int | None = None,
        at: Mapping[str, int] | None = None,
    ) -> BoundCall:
        """A run with its arrays fixed, to be repeated at the least cost.

        The call has memory of its own for intermediate values as long as it lives: bind once and
        call often. Bound calls of one module run side by side like runs; one bound call that
        several threads share takes turns.

        Args:
            inputs: arrays by input name, read anew at every call; one that is not given is made,
                and filled by the caller: ``call.inputs["data"][...] = x``.
            outputs: arrays to write, all or none.
            threads: number of threads; by default `num_threads`.
            at: the values of symbols, by name; they follow from ``inputs`` if all are given. The
                call is for these shapes alone.

        A module for a GPU also takes arrays of other packages that lie in its memory, by
        ``__cuda_array_interface__`` or DLPack, and uses them without a copy. A call waits for what
        the default stream has been given; work on other streams must be finished before.

        Returns:
            A function of no arguments, with its ``inputs`` and ``outputs``.

        Raises:
            ModuleError: an array has another shape or type, is not contiguous at a 64-byte
                boundary, or overlaps another; or this CPU cannot run the code.
        """
        count = self._threads(threads)
        site = self._site(inputs or {}, at)
        buffers = io_buffers(site.ends, inputs, outputs, self._contexts.loaded().device_array)
        run = self._contexts.new(site).bind(buffers, count)
        named, written = bound_inputs(site.ends, buffers), bound_outputs(site.ends, buffers)
        return BoundCall(run, named, written)

    def benchmark(
        self,
        repeat: int = 3,
        min_repeat_ms: float = 500,
        threads: int | None = None,
        at: Mapping[str, int] | None = None,
    ) -> BenchmarkResult:
        """Time the network on random inputs, without copies to and from the caller's arrays.

        Args:
            repeat: number of results.
            min_repeat_ms: each result is the mean of runs that last about this long together.
            threads: number of threads; by default `num_threads`.
            at: the values of symbols, by name; typical ones where none is given.
        """
        count, site = self._threads(threads), self._contexts.sites.named(at)
        buffers = io_buffers(site.ends, None, None)
        for mine, random in zip(buffers, random_inputs(site.ends), strict=False):  # inputs first
            mine[...] = random
        call = self._contexts.new(site).bind(self._contexts.loaded().resident(buffers), count)
        call()
        return time_runs(call, repeat, min_repeat_ms)

    def profile(
        self,
        repeat: int = 10,
        threads: int | None = None,
        at: Mapping[str, int] | None = None,
    ) -> list[KernelTime]:
        """Time every kernel call within whole runs on random inputs; the median of each.

        The first profile in a process also measures what the machine reaches.

        Args:
            repeat: number of runs.
            threads: number of threads; by default `num_threads`.
            at: the values of symbols, by name; typical ones where none is given.
        """
        count, site = self._threads(threads), self._contexts.sites.named(at)
        return kernel_times.within_runs(self._contexts, site, count, repeat)

    def roofline(self, threads: int | None = None) -> Roofline:
        """What this machine reaches with the module's kind of code; measured once per process."""
        return self._contexts.loaded().roofline(self._threads(threads))

    def kernels_alone(
        self, threads: int | None = None, at: Mapping[str, int] | None = None
    ) -> dict[str, float]:
        """Milliseconds of each kernel run again and again by itself, by name of its function."""
        count, site = self._threads(threads), self._contexts.sites.named(at)
        return kernel_times.alone(self._contexts, site, count)

    def summary(self) -> str:
        """A few lines on what the module is and how it was compiled."""
        tuned = sum(r.tuned for r in self.report)
        threads = f"{self.num_threads} thread{'s' if self.num_threads != 1 else ''}"
        code = sum(map(len, self.image.code.values()))
        typical = self._contexts.sites.named(None)
        where = "".join(f", {name} = {n}" for name, n in self.point_at().items())
        where = where.replace(",", " at", 1)
        lines = [
            f"{self.name} for {self.target}, {threads}",
            *(
                f"  precision {name}: {what}"
                for name, what in _PRECISIONS.items()
                if any(s.desc.endswith(f" {name}") for s in self.image.steps)
            ),
            *(f"  input  {v.name} {v.dtype}{list(v.shape)}" for v in self.image.inputs),
            *(f"  output {v.name} {v.dtype}{list(v.shape)}" for v in self.image.outputs),
            *(f"  symbol {range_text(s)}" for s in self.symbols),
            f"  {len(self.image.steps)} kernel calls; {tuned_text(self.report)}",
            f"  constants {mib(self.image.constants.nbytes)}, intermediate values "
            f"{mib(typical.arena_bytes)}{where}, code {mib(code)}",
        ]
        if winograd := winograd_text(self.report):
            lines.append(f"  {winograd}")
        if tuned == len(self.report):
            lines.append(f"  {recorded_text(self.report)}")
        return "\n".join(lines)

    def save(self, path: str | PathLike[str], *, private_key: Key | None = None) -> None:
        """Write the module, with its present number of threads, to a file.

        Args:
            path: of the file; `tilework.runtime.archive` describes it.
            private_key: an Ed25519 key (the path or the bytes of a PEM file, or its 32 bytes) to
                sign the module with. The signature goes to ``path`` + ``.sig``; who loads the
                module with the public key can demand it.

        Raises:
            ModuleError: the file cannot be written, or the key is none.
        """
        write_image(replace(self.image, num_threads=self.num_threads), Path(path), private_key)

    def __repr__(self) -> str:
        return f"<Module {self.name} for {self.target}>"

    def _arrays(self, values: Sequence[Value], inputs: Any, more: Sequence[Any]) -> list[Any]:
        """What a run was given of some inputs, in their order."""

        def wanted() -> str:
            typed = (f"{v.name} {v.dtype}{list(v.shape)}" for v in self.image.inputs)
            return f"module {self.name} takes the inputs {', '.join(typed)}"

        return in_order([v.name for v in values], all_given(inputs, more), wanted)

    def _site(self, inputs: Mapping[str, Any], at: Mapping[str, int] | None) -> Site:
        """Where a call is bound."""
        names = [v.name for v in self.image.inputs]
        if at is not None or not self.symbols:
            return self._contexts.sites.named(at)
        if not all(n in inputs for n in names):
            point = self._contexts.sites.named(None).point
            symbols = ", ".join(f"'{s.name}': {n}" for s, n in point.items())
            raise ModuleError(
                f"module {self.name}: shapes are symbolic: bind all inputs, or say what symbols "
                f"are, such as at={{{symbols}}}"
            )
        return self._contexts.sites.of([inputs[n] for n in names])

    def _threads(self, count: int | None) -> int:
        """A number of threads for a run; by default `num_threads`."""
        if count is None:
            return self.num_threads
        if count < 1:
            raise ModuleError(f"the number of threads must be at least 1, not {count}")
        executor_of(self.target).check_threads(self.image, count)
        return int(count)


def range_text(symbol: Symbol) -> str:
    """A symbol's range and typical values."""
    typicals = ", ".join(map(str, symbol.typicals))
    none = ", or 0" if symbol.or_none else ""
    return f"{symbol.name} {symbol.low} to {symbol.high}{none}, typically {typicals}"
