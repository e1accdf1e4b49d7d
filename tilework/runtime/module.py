"""A compiled network as the user holds it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float, numpy_dtype
from tilework.errors import ModuleError
from tilework.kinds.cpu.code_features import lacking_features
from tilework.kinds.cpu.execute import Executable
from tilework.kinds.cpu.roofline import Roofline, measure_roofline
from tilework.runtime.arrays import ALIGN, aligned_copy, aligned_empty
from tilework.runtime.bound import BoundCall, bound_outputs, io_buffers
from tilework.runtime.image import Image, TaskReport, Value, tuned_text, winograd_text
from tilework.runtime.samples import take_samples
from tilework.runtime.timing import BenchmarkResult, KernelTime
from tilework.target import HOST_PLATFORM, Target

Array = NDArray[Any]


_NARROW = ("  precision bf16: weights and intermediate values, sums in float32",)


class Module:
    """A compiled network: NumPy arrays in, NumPy arrays out.

    Runs of one module take turns; to run at the same time from several threads, load it twice.

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
        self._executable: Executable | None = None
        self._loading = threading.Lock()

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

    def run(self, inputs: Mapping[str, Any] | Any = None, *more: Any) -> list[Array]:
        """Run the network once.

        Args:
            inputs: arrays by input name; or one array, and the others after it, in order.

        Returns:
            New arrays, one per output.

        Raises:
            ModuleError: inputs are missing or unknown, or of another shape or type; or this CPU
                cannot run the code.
        """
        arrays = self._arrays(inputs, more)
        buffers = [_ready(v, a) for v, a in zip(self.image.inputs, arrays, strict=True)]
        buffers += self._output_buffers()
        self._loaded().run(buffers, self.num_threads)
        return self._results(buffers)

    def bind(
        self,
        inputs: Mapping[str, Array] | None = None,
        outputs: Sequence[Array] | None = None,
        threads: int | None = None,
    ) -> BoundCall:
        """A run with its arrays fixed, to be repeated at the least cost.

        Args:
            inputs: arrays by input name, read anew at every call; one that is not given is made,
                and filled by the caller: ``call.inputs["data"][...] = x``.
            outputs: arrays to write, all or none.
            threads: number of threads; by default `num_threads`.

        Returns:
            A function of no arguments, with its ``inputs`` and ``outputs``.

        Raises:
            ModuleError: an array has another shape or type, is not contiguous at a 64-byte
                boundary, or overlaps another; or this CPU cannot run the code.
        """
        count = self._threads(threads)
        buffers = io_buffers(self.image, inputs, outputs)
        run = self._loaded().bind(buffers, count)
        named = {v.name: buffers[v.io] for v in self.image.inputs}
        return BoundCall(run, named, bound_outputs(self.image, buffers))

    def benchmark(
        self, repeat: int = 3, min_repeat_ms: float = 500, threads: int | None = None
    ) -> BenchmarkResult:
        """Time the network on random inputs, without copies to and from the caller's arrays.

        Args:
            repeat: number of results.
            min_repeat_ms: each result is the mean of runs that last about this long together.
            threads: number of threads; by default `num_threads`.
        """
        call = self._timed_call(threads)
        call()
        # On a busy machine samples are discarded; the budget bounds how long that goes on.
        wanted = repeat * min_repeat_ms / 1e3
        samples = take_samples(
            call,
            repeats=repeat,
            min_sample_s=min_repeat_ms / 1e3,
            budget_s=2 * wanted + 1,
            short_look=min(repeat, 3),
        )
        return BenchmarkResult(tuple(1e3 * s for s in samples.seconds))

    def profile(self, repeat: int = 10, threads: int | None = None) -> list[KernelTime]:
        """Time every kernel call within whole runs on random inputs; the median of each.

        The first profile in a process also measures the machine's peaks, for half a second.
        """
        count = self._threads(threads)
        buffers = [*self._random_inputs(), *self._output_buffers()]
        executable = self._loaded()
        executable.run(buffers, count)
        runs = [executable.profile(buffers, count) for _ in range(max(repeat, 1))]
        seconds = np.maximum(np.median(runs, axis=0), 1e-9)
        total = float(np.sum(seconds))
        roof = self.roofline(count)
        return [
            KernelTime(
                step.name,
                step.desc,
                time_ms=1e3 * s,
                share=s / total,
                gflops=step.flops / s * 1e-9,
                gb_per_s=step.nbytes / s * 1e-9,
                roofline=roof.seconds(step, self.image) / s,
                symbol=step.symbol,
            )
            for step, s in zip(self.image.steps, seconds.tolist(), strict=True)
        ]

    def roofline(self, threads: int | None = None) -> Roofline:
        """What this machine reaches with the module's kind of code; measured once per process."""
        self._loaded()
        return measure_roofline(Target(self.target), self._threads(threads))

    def kernels_alone(self, threads: int | None = None) -> dict[str, float]:
        """Milliseconds of each kernel run again and again by itself, by symbol."""
        count = self._threads(threads)
        buffers = [*self._random_inputs(), *self._output_buffers()]
        executable = self._loaded()
        executable.run(buffers, count)
        out: dict[str, float] = {}
        for i, step in enumerate(self.image.steps):
            if step.symbol not in out:
                call = executable.bind_step(i, buffers, count)
                call()
                samples = take_samples(call, repeats=9, min_sample_s=1e-3, budget_s=0.02)
                out[step.symbol] = 1e3 * samples.median
        return out

    def summary(self) -> str:
        """A few lines on what the module is and how it was compiled."""
        tuned = sum(r.tuned for r in self.report)
        threads = f"{self.num_threads} thread{'s' if self.num_threads != 1 else ''}"
        code = sum(map(len, self.image.code.values()))
        lines = [
            f"{self.name} for {self.target}, {threads}",
            *_NARROW * any(s.desc.endswith(" bf16") for s in self.image.steps),
            *(f"  input  {v.name} {v.dtype}{list(v.shape)}" for v in self.image.inputs),
            *(f"  output {v.name} {v.dtype}{list(v.shape)}" for v in self.image.outputs),
            f"  {len(self.image.steps)} kernel calls; {tuned_text(self.report)}",
            f"  constants {_mib(self.image.constants.nbytes)}, intermediate values "
            f"{_mib(self.image.arena_bytes)}, code {_mib(code)}",
        ]
        if guard := winograd_text(self.report):
            lines.append(f"  {guard}")
        if tuned == len(self.report):
            total = sum((r.latency_s or 0) * r.weight for r in self.report)
            lines.append(f"  recorded time of all tasks {1e3 * total:.3f} ms")
        return "\n".join(lines)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the module, with its present number of threads, to a file.

        `tilework.runtime.archive` describes the file.

        Raises:
            ModuleError: the file cannot be written.
        """
        from tilework.runtime.archive import save_module

        save_module(replace(self.image, num_threads=self.num_threads), path)

    def __repr__(self) -> str:
        return f"<Module {self.name} for {self.target}>"

    def _loaded(self) -> Executable:
        with self._loading:
            if self._executable is None:
                if self.image.platform != HOST_PLATFORM:
                    raise ModuleError(
                        f"module {self.name} has code for {self.image.platform} "
                        f"('{self.target}'), this is {HOST_PLATFORM}: save it and load it there, "
                        "or compile the network for 'llvm -mcpu=native' here"
                    )
                lacking = lacking_features(self.image.cpu_features)
                if lacking:
                    raise ModuleError(
                        f"module {self.name} was compiled for '{self.target}' and needs "
                        f"{', '.join(lacking)}, which this CPU lacks: compile the network for "
                        "'llvm -mcpu=native' here"
                    )
                self._executable = Executable(self.image)
            return self._executable

    def _threads(self, count: int | None) -> int:
        """A number of threads for a run; by default `num_threads`."""
        if count is None:
            return self.num_threads
        if count < 1:
            raise ModuleError(f"the number of threads must be at least 1, not {count}")
        if count > 1 and self.image.cores == 1:
            raise ModuleError(
                f"module {self.name} was compiled for one core ('{self.target}') and cannot use "
                f"{count} threads: compile the network for -num-cores={count}"
            )
        return int(count)

    def _timed_call(self, threads: int | None) -> Callable[[], object]:
        call = self.bind(threads=threads)
        for mine, random in zip(call.inputs.values(), self._random_inputs(), strict=True):
            mine[...] = random
        return call

    def _random_inputs(self) -> list[Array]:
        rng = np.random.default_rng(0)

        def random(v: Value) -> Array:
            if is_float(v.dtype):
                return np.asarray(rng.standard_normal(v.shape), numpy_dtype(v.dtype))
            return np.asarray(rng.integers(0, 2, v.shape), numpy_dtype(v.dtype))

        return [aligned_copy(random(v)) for v in self.image.inputs]

    def _output_buffers(self) -> list[Array]:
        """One new buffer per io number that no input has."""
        first = len(self.image.inputs)
        by_number = {v.io: v for v in self.image.outputs}
        return [
            aligned_empty(by_number[i].shape, by_number[i].dtype)
            for i in range(first, first + len(by_number))
        ]

    def _results(self, buffers: Sequence[Array]) -> list[Array]:
        """The outputs; one that shares its buffer with an earlier one is copied."""
        out: list[Array] = []
        used: set[int] = set()
        for v in self.image.outputs:
            array = buffers[v.io].reshape(v.shape)
            out.append(array.copy() if v.io in used else array)
            used.add(v.io)
        return out

    def _arrays(self, inputs: Any, more: Sequence[Any]) -> list[Any]:
        """The callers' arrays in the order of the inputs."""
        names = list(self.inputs)
        if isinstance(inputs, Mapping) and not more:
            missing = [n for n in names if n not in inputs]
            unknown = [str(n) for n in inputs if n not in names]
        else:
            given = [] if inputs is None else [inputs, *more]
            missing = names[len(given) :]
            unknown = [f"number {i + 1}" for i in range(len(names), len(given))]
            inputs = dict(zip(names, given, strict=False))
        if missing or unknown:
            told = [f"missing {', '.join(missing)}"] if missing else []
            told += [f"unknown {', '.join(unknown)}"] if unknown else []
            wanted = ", ".join(map(_typed, self.image.inputs))
            raise ModuleError(
                f"module {self.name} takes the inputs {wanted}; {' and '.join(told)}"
            )
        return [inputs[n] for n in names]


def _typed(value: Value) -> str:
    return f"{value.name} {value.dtype}{list(value.shape)}"


def _ready(value: Value, given: Any) -> Array:
    """``given`` as the kernels take it: it is copied only if its memory is not aligned."""
    array = np.asarray(given)
    if array.shape != value.shape or array.dtype != numpy_dtype(value.dtype):
        raise ModuleError(
            f"input {value.name}: expected {value.dtype}{list(value.shape)}, "
            f"got {array.dtype}{list(array.shape)}"
        )
    if array.flags.c_contiguous and array.ctypes.data % ALIGN == 0:
        return array
    return aligned_copy(array)


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
