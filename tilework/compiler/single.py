"""A single task as a Python function, for operators declared by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.compiler.choose import choose_schedule
from tilework.compiler.history import as_history, current_history
from tilework.dtypes import numpy_dtype
from tilework.errors import ModuleError, ScheduleError
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.model.drafted import Choice
from tilework.record import History
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.runtime.samples import take_samples
from tilework.runtime.timing import BenchmarkResult
from tilework.task import SearchTask

Array = NDArray[Any]


class TaskFunction:
    """A compiled task: call it with the task's inputs, in order; it returns its outputs.

    Attributes:
        task: what was compiled.
        choice: the schedule and where it comes from.
        kernel: the generated code.
    """

    def __init__(self, task: SearchTask, choice: Choice) -> None:
        lacking = task.target.missing_on_host()
        if lacking:
            raise ModuleError(
                f"'{task.target}' needs {', '.join(lacking)}, which this machine lacks"
            )
        self.task = task
        self.choice = choice
        self.kernel = build(task, choice.sketch_id, choice.row)
        self._loaded = load_kernel(self.kernel)

    def __call__(self, *inputs: Any, threads: int | None = None) -> list[Array]:
        """Run once.

        Raises:
            ModuleError: an input is missing or has another shape or type.
        """
        arrays = self._arrays(inputs)
        count = threads or self.task.target.num_cores
        self._loaded(arrays, self._workspace(count), count)
        return arrays[len(inputs) :]

    def benchmark(
        self, repeat: int = 3, min_repeat_ms: float = 100, threads: int | None = None
    ) -> BenchmarkResult:
        """Time the kernel on random inputs; weights are packed before."""
        rng = np.random.default_rng(0)
        count = threads or self.task.target.num_cores
        inputs = [
            rng.random(t.shape).astype(numpy_dtype(t.dtype)) for t in self.task.compute_dag.inputs
        ]
        call = self._loaded.bind(self._arrays(inputs), self._workspace(count), count)
        call()
        samples = take_samples(
            call, repeats=repeat, min_sample_s=min_repeat_ms / 1e3, budget_s=float("inf")
        )
        return BenchmarkResult(tuple(1e3 * s for s in samples.seconds))

    def _workspace(self, threads: int) -> Array | None:
        size = self.kernel.workspace_bytes(threads)
        return aligned_empty((size,), "uint8") if size else None

    def _arrays(self, inputs: Sequence[Any]) -> list[Array]:
        """Inputs as the kernel takes them, and empty outputs."""
        tensors = self.task.compute_dag.inputs
        if len(inputs) != len(tensors):
            names = ", ".join(t.name for t in tensors)
            raise ModuleError(f"the task takes {len(tensors)} inputs ({names}), got {len(inputs)}")
        arrays = []
        for tensor, arg, given in zip(tensors, self.kernel.args, inputs, strict=False):
            array = np.asarray(given)
            if array.shape != tensor.shape or array.dtype != numpy_dtype(tensor.dtype):
                raise ModuleError(
                    f"input {tensor.name}: expected {tensor.dtype}{list(tensor.shape)}, "
                    f"got {array.dtype}{list(array.shape)}"
                )
            arrays.append(aligned_copy(arg.packing.apply(array) if arg.packing else array))
        return arrays + [aligned_empty(a.shape, a.dtype) for a in self.kernel.args[len(inputs) :]]


def compile_task(
    task: SearchTask,
    records: History | None = None,
    *,
    sketch_id: int | None = None,
    row: Sequence[int] | None = None,
) -> TaskFunction:
    """Compile one task into a function of NumPy arrays.

    Args:
        task: for example from `create_task`.
        records: where to look for its best schedule; by default those of the `ApplyHistoryBest`
            around the call. Without a record it takes the draft model's best.
        sketch_id, row: this schedule instead, both or neither.

    Raises:
        ScheduleError: the given schedule does not belong to the task.
        ModuleError: this CPU cannot run the target's code.
    """
    if (sketch_id is None) != (row is None):
        raise ScheduleError("a schedule is a sketch_id and a row: give both or neither")
    if sketch_id is not None and row is not None:
        choice = Choice(sketch_id, tuple(int(d) for d in row), "untuned", None)
    else:
        history = current_history() if records is None else as_history(records)
        choice = choose_schedule(task, history)
    return TaskFunction(task, choice)
